#define _GNU_SOURCE
#include "device.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct device_end *of(const struct fs_carrier *carrier) { return (struct device_end *)(uintptr_t)carrier; }

static unsigned room(const struct fs_carrier *carrier)
{
    const struct device_end *end = of(carrier);
    int64_t pending = end->posted - end->done;
    return pending >= FS_FRAMES / 2 ? 0 : (unsigned)(FS_FRAMES / 2 - pending);
}

static struct message *next_message(struct device_end *end, const struct fs_frame *frame)
{
    CHECK(room(&end->carrier) > 0);
    struct message *message = &end->wire[(end->first_message + end->messages++) % WIRE];
    message->ticket = ++end->posted;
    message->frame = *frame;
    message->written = message->read = NULL;
    return message;
}

static int64_t post(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length, int tell)
{
    struct device_end *end = of(carrier);
    (void)tell;
    if (end->broken) return -ENETDOWN;
    struct message *message = next_message(end, frame);
    if (length > 0) memcpy(message->data, data, length);
    return message->ticket;
}

static int64_t write_then_post(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data,
                               size_t length, uint64_t window_offset)
{
    struct device_end *end = of(carrier);
    (void)length;
    if (end->broken) return -ENETDOWN;
    struct message *message = next_message(end, frame);
    message->written = data;
    message->window_offset = window_offset;
    return message->ticket;
}

static int64_t offer(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data)
{
    return post(carrier, frame, &data, sizeof data, 0);
}

static int64_t read_offered(struct fs_carrier *carrier, const struct fs_arrival *arrival, unsigned char *target)
{
    struct device_end *end = of(carrier);
    if (end->broken) return -ENETDOWN;
    struct message *message = next_message(end, &arrival->frame);
    memcpy(&message->read, arrival->data, sizeof message->read);
    message->target = target;
    return message->ticket;
}

static int64_t done(const struct fs_carrier *carrier) { return of(carrier)->done; }

static int poll_arrivals(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most)
{
    struct device_end *end = of(carrier);
    int found = 0;
    for (; found < most && end->polled < end->came; end->polled++, found++) {
        const unsigned slot = end->order[end->polled % ARRIVED];
        arrivals[found] = (struct fs_arrival){end->arrived[slot].frame, end->arrived[slot].data, slot};
    }
    return found > 0 || !end->broken ? found : -ENETDOWN;
}

static int release(struct fs_carrier *carrier, uint32_t slot)
{
    struct device_end *end = of(carrier);
    CHECK(end->is_held[slot]);
    end->is_held[slot] = 0;
    end->released++;
    return 0;
}

static int arm(struct fs_carrier *carrier) { return of(carrier)->broken ? -ENETDOWN : 0; }

struct message *device_place(struct device_end *end)
{
    unsigned slot = 0;
    CHECK(end->came - end->released < FS_FRAMES); /* it has a buffer to arrive in */
    while (end->is_held[slot]) slot++;
    end->is_held[slot] = 1;
    end->order[end->came++ % ARRIVED] = slot;
    return &end->arrived[slot];
}

/* The last message: to `end`.  What the device acknowledges has arrived. */
static void deliver(struct device_end *end)
{
    struct device_end *from = end->other;
    if (from->messages == 0 || end->stopped) return;
    const struct message *message = &from->wire[from->first_message];
    from->delivered = message->ticket;
    from->first_message = (from->first_message + 1) % WIRE;
    from->messages--;
    if (message->read != NULL) { /* nobody at that end hears of it */
        size_t size;
        const unsigned char *out = fs_span_out(end->span, &size), *in = fs_span_in(from->span, &size);
        CHECK(message->read >= out && message->read + message->frame.length <= out + size);
        CHECK(message->target >= in && message->target + message->frame.length <= in + size);
        memcpy(message->target, message->read, message->frame.length);
        return;
    }
    *device_place(end) = *message;
    if (message->written != NULL) {
        size_t size;
        memcpy(fs_span_in(end->span, &size) + message->window_offset, message->written, message->frame.length);
        CHECK(message->window_offset + message->frame.length <= size);
    }
}

static int stop(struct fs_carrier *carrier)
{
    struct device_end *end = of(carrier);
    end->broken = 1;
    if (end->last_ones > 0) {
        end->last_ones--;
        deliver(end);
        return 0;
    }
    end->stopped = 1;
    return 1;
}

static void close_end(struct fs_carrier *carrier)
{
    close(carrier->descriptor);
    carrier->descriptor = -1;
}

static const struct fs_carrier_calls calls = {
    .room = room,
    .post = post,
    .write = write_then_post,
    .offer = offer,
    .read = read_offered,
    .done = done,
    .poll = poll_arrivals,
    .release = release,
    .arm = arm,
    .stop = stop,
    .close = close_end,
};

void device_join(struct device *device, struct fs_span *one, struct fs_span *other)
{
    memset(device, 0, sizeof *device);
    for (int i = 0; i < 2; i++) {
        struct device_end *end = &device->end[i];
        size_t size;
        end->span = i == 0 ? one : other;
        end->other = &device->end[!i];
        end->carrier.calls = &calls;
        end->carrier.descriptor = eventfd(0, EFD_CLOEXEC);
        fs_span_in(i == 0 ? other : one, &size);
        end->carrier.window_bytes = size;
        end->span->carrier = &end->carrier;
    }
}

void device_carry(struct device *device, struct random *random)
{
    for (int i = 0; i < 2; i++) {
        struct device_end *end = &device->end[i];
        for (uint64_t count = random_below(random, 8); count > 0; count--)
            if (!end->broken) deliver(end);
        /* acknowledgements may be late, and after a break the last ones never come */
        if (!end->broken && end->done < end->delivered)
            end->done += 1 + (int64_t)random_below(random, (uint64_t)(end->delivered - end->done));
    }
}

void device_break(struct device *device, int side)
{
    device->end[side].broken = 1;
    device->end[side].last_ones = 3;
}
