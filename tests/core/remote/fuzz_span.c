/* Another host that lies: any frames in any order, over the device and over TCP.  A span checks each value before use. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "device.h"
#include "remote/tcp_carrier.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

struct input {
    const uint8_t *next, *end;
};

struct victim {
    struct device device;
    struct fs_span *span, *unused;
    struct fs_end *program;
    int bell, stranger; /* the stranger's end of TCP */
    int over;
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    return 0;
}

static uint8_t byte(struct input *input) { return input->next < input->end ? *input->next++ : 0; }

static uint64_t number(struct input *input)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | byte(input);
    return value;
}

/* Mostly what would be right, or near it: else nothing gets far. */
static uint64_t near_to(struct input *input, uint64_t right)
{
    uint8_t how = byte(input);
    return how < 200 ? right : how < 240 ? right + (uint64_t)(int8_t)byte(input) : number(input);
}

static struct fs_frame lie(struct input *input, const struct fs_span *span)
{
    uint32_t kind = byte(input), length = 0;
    if (kind < 240) kind = 1 + kind % (FS_FRAME_KINDS - 1);
    if (kind == FS_FRAME_DATA || kind == FS_FRAME_WRITTEN || kind == FS_FRAME_OFFERED)
        length = (uint32_t)near_to(input, 1 + byte(input) * 300u);
    const uint64_t position = kind == FS_FRAME_RESUME || kind == FS_FRAME_TAKEN ? span->sent : span->arrived;
    return (struct fs_frame){kind, length, near_to(input, position), near_to(input, span->read_there),
                             near_to(input, span->heard_there)};
}

static void arrive(struct victim *victim, struct input *input)
{
    struct device_end *end = &victim->device.end[0];
    const struct fs_frame frame = lie(input, victim->span);
    unsigned char bytes[FS_FRAME_ROOM] = {0};
    if (fs_span_has_resumed(victim->span)) {
        fs_frame_put(bytes, &frame);
        size_t more = frame.kind == FS_FRAME_DATA && frame.length <= FS_FRAME_PAYLOAD ? frame.length : 0;
        send(victim->stranger, bytes, FS_FRAME_BYTES + more, MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    if (end->came - end->released >= FS_FRAMES || end->broken) return;
    struct message *message = device_place(end);
    message->frame = frame;
    /* a carrier has counted the bytes that came with the frame */
    if (frame.kind == FS_FRAME_DATA) message->frame.length %= FS_FRAME_PAYLOAD + 1;
}

static void stray(struct victim *victim, struct input *input)
{
    size_t length = byte(input), left = (size_t)(input->end - input->next);
    if (length > left) length = left;
    send(victim->stranger, input->next, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    input->next += length;
}

static void leave(struct victim *victim)
{
    struct fs_span *span = victim->span;
    int error = 0;
    const uint64_t window_bytes = span->carrier->window_bytes;
    CHECK_EQUAL(fs_span_leave_carrier(span, 0), 0);
    span->carrier->calls->close(span->carrier);
    struct fs_carrier *next = fs_tcp_carrier_make(span->tcp, window_bytes, &error);
    CHECK(next != NULL);
    fs_span_resume(span, next);
}

static void finish(struct victim *victim)
{
    fs_span_finish(victim->span);
    victim->span->carrier->calls->close(victim->span->carrier);
    victim->span->carrier = NULL;
    victim->over = 1;
}

static void turn(struct victim *victim)
{
    short wants = 0;
    switch (fs_span_turn(victim->span, &wants)) {
    case FS_SPAN_LEAVES_CARRIER: leave(victim); break;
    case FS_SPAN_OVER: finish(victim); break;
    default: victim->span->carrier->calls->arm(victim->span->carrier);
    }
}

static void act(struct victim *victim, struct input *input)
{
    static unsigned char block[200000];
    struct device_end *end = &victim->device.end[0];
    uint8_t what = byte(input);
    switch (what % 12) {
    case 0: fs_end_send(victim->program, victim->bell, block, byte(input) * 700u + 1, FS_NO_SIGNAL); break;
    case 1: fs_end_receive(victim->program, victim->bell, block, byte(input) * 700u + 1, 0, 1); break;
    case 2: end->done = end->posted; break;
    case 3: stray(victim, input); break;
    case 4:
        if (what > 200) device_break(&victim->device, 0);
        break;
    case 5:
        if (what > 200) fs_end_shutdown(victim->program, victim->bell, what % 3);
        break;
    case 6:
    case 7: turn(victim); break;
    default: arrive(victim, input);
    }
    end->first_message = end->messages = 0; /* what the victim says goes nowhere */
}

static void begin(struct victim *victim, struct input *input)
{
    const struct fs_limits limits = {0, 0, 0};
    int error = 0, bells[2], tcp[2], connecting = byte(input) & 1;
    memset(victim, 0, sizeof *victim);
    victim->span = fs_span_make(connecting, &error);
    victim->unused = fs_span_make(!connecting, &error);
    CHECK(victim->span != NULL && victim->unused != NULL);
    device_join(&victim->device, victim->span, victim->unused);
    const uint8_t choices = byte(input);
    victim->span->resumes = choices & 1;
    victim->span->offers = choices >> 1 & 1;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bells) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, tcp) == 0);
    victim->program = fs_end_open_on(victim->span->segment, FS_SIDE_CONNECTED, &limits, &error);
    CHECK(victim->program != NULL);
    victim->program->abrupt = 1;
    victim->bell = bells[0];
    victim->stranger = tcp[1];
    if (connecting) atomic_store(&victim->span->state, FS_SPAN_OPEN);
    else CHECK_EQUAL(fs_span_claim(victim->span), 1);
    CHECK_EQUAL(fs_doorbell_prepare(bells[0]), 0);
    CHECK_EQUAL(fs_span_begin(victim->span, bells[1]), 0);
    victim->span->tcp = tcp[0];
}

static void end(struct victim *victim)
{
    close(victim->device.end[0].carrier.descriptor);
    close(victim->device.end[1].carrier.descriptor);
    fs_end_closing(victim->program, victim->bell, 0);
    close(victim->bell);
    fs_end_closed(victim->program);
    fs_end_free(victim->program);
    fs_span_drop(victim->span);
    fs_span_drop(victim->unused);
    close(victim->stranger);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static struct victim victim;
    struct input input = {data, data + length};
    begin(&victim, &input);
    while (!victim.over && input.next < input.end) act(&victim, &input);
    if (!victim.over) finish(&victim);
    end(&victim);
    return 0;
}
