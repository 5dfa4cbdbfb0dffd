#define _GNU_SOURCE
#include "queue_pair.h"

#ifdef FS_HAS_VERBS

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST_REQUESTS (2 * FS_FRAMES) /* a write and its frame are two */
#define SIGNAL_EVERY (FS_FRAMES / 4)
#define INLINE_BYTES 220u
#define POLLED 16
#define PLACE_BYTES 12u /* address and key */

/* In a request's number, beside its count or slot. */
#define RECEIVED (1ull << 63)

struct queue_pair {
    struct fs_carrier carrier;
    const struct fs_verbs_library *verbs;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *news;
    struct ibv_cq *completions;
    unsigned char *buffers; /* FS_FRAMES to receive into, then as many to send from */
    struct ibv_mr *buffers_region, *out_region, *in_region;
    struct fs_ring_memory memory;
    struct fs_window other;
    uint32_t most_inline;
    uint64_t posted, completed, signalled; /* requests of the send queue */
    uint64_t sent;                         /* frames: each has its buffer */
    unsigned unacknowledged;               /* events of the completion channel */
    int armed;                             /* and nothing was found since: the next completion makes an event */
    int error;
    int drained; /* nothing arrives any more */
};

#define BUFFERS_BYTES ((size_t)2 * FS_FRAMES * FS_FRAME_ROOM)

static struct queue_pair *of(const struct fs_carrier *carrier) { return (struct queue_pair *)(uintptr_t)carrier; }

static unsigned char *receive_buffer(const struct queue_pair *pair, uint32_t slot)
{
    return pair->buffers + (size_t)slot * FS_FRAME_ROOM;
}

static int fail(struct queue_pair *pair, int error)
{
    if (pair->error == 0) pair->error = error == 0 ? EIO : error;
    return -pair->error;
}

static int post_receive(struct queue_pair *pair, uint32_t slot)
{
    struct ibv_sge piece = {(uintptr_t)receive_buffer(pair, slot), FS_FRAME_ROOM, pair->buffers_region->lkey};
    struct ibv_recv_wr request = {.wr_id = RECEIVED | slot, .sg_list = &piece, .num_sge = 1}, *bad;
    int error = ibv_post_recv(pair->id->qp, &request, &bad);
    return error == 0 ? 0 : fail(pair, error);
}

static unsigned room(const struct fs_carrier *carrier)
{
    const struct queue_pair *pair = of(carrier);
    uint64_t pending = pair->posted - pair->completed;
    /* one request a frame at least: no buffer is used again before its frame is done */
    return pending + 2 > FS_FRAMES ? 0 : (unsigned)((FS_FRAMES - pending) / 2);
}

static unsigned char *fill(struct queue_pair *pair, const struct fs_frame *frame, const void *data, size_t length)
{
    unsigned char *buffer = pair->buffers + (FS_FRAMES + pair->sent++ % FS_FRAMES) * (size_t)FS_FRAME_ROOM;
    fs_frame_put(buffer, frame);
    if (length > 0) memcpy(buffer + FS_FRAME_BYTES, data, length);
    return buffer;
}

static int64_t post_requests(struct queue_pair *pair, struct ibv_send_wr *first, struct ibv_send_wr *last,
                             int must_signal)
{
    struct ibv_send_wr *bad;
    for (struct ibv_send_wr *request = first; request != NULL; request = request->next) request->wr_id = ++pair->posted;
    /* one completion speaks for all requests before it */
    if (must_signal || pair->posted - pair->signalled >= SIGNAL_EVERY) {
        last->send_flags |= IBV_SEND_SIGNALED;
        pair->signalled = pair->posted;
    }
    int error = ibv_post_send(pair->id->qp, first, &bad);
    return error == 0 ? (int64_t)pair->posted : fail(pair, error);
}

static int64_t post(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length,
                    int signaled)
{
    struct queue_pair *pair = of(carrier);
    if (pair->error != 0) return -pair->error;
    struct ibv_sge piece = {(uintptr_t)fill(pair, frame, data, length), (uint32_t)(FS_FRAME_BYTES + length),
                            pair->buffers_region->lkey};
    struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (piece.length <= pair->most_inline) request.send_flags = IBV_SEND_INLINE;
    return post_requests(pair, &request, &request, signaled);
}

static int64_t write_then_post(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data,
                               size_t length, uint64_t window_offset)
{
    struct queue_pair *pair = of(carrier);
    if (pair->error != 0) return -pair->error;
    struct ibv_sge bytes = {(uintptr_t)data, (uint32_t)length, pair->out_region->lkey};
    struct ibv_sge piece = {(uintptr_t)fill(pair, frame, NULL, 0), FS_FRAME_BYTES, pair->buffers_region->lkey};
    struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr writing = {.next = &request, .sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    if (FS_FRAME_BYTES <= pair->most_inline) request.send_flags = IBV_SEND_INLINE;
    writing.wr.rdma.remote_addr = pair->other.address + window_offset;
    writing.wr.rdma.rkey = pair->other.key;
    return post_requests(pair, &writing, &request, 1);
}

static int64_t offer(struct fs_carrier *carrier, const struct fs_frame *frame, const unsigned char *data)
{
    unsigned char place[PLACE_BYTES];
    const uint64_t address = htole64((uintptr_t)data);
    const uint32_t key = htole32(of(carrier)->out_region->rkey);
    memcpy(place, &address, sizeof address);
    memcpy(place + sizeof address, &key, sizeof key);
    return post(carrier, frame, place, sizeof place, 0);
}

/* The other host's word says where it reads there; its device checks that.  Here it writes to `target` alone. */
static int64_t read_offered(struct fs_carrier *carrier, const struct fs_arrival *arrival, unsigned char *target)
{
    struct queue_pair *pair = of(carrier);
    uint64_t address;
    uint32_t key;
    if (pair->error != 0) return -pair->error;
    memcpy(&address, arrival->data, sizeof address);
    memcpy(&key, arrival->data + sizeof address, sizeof key);
    struct ibv_sge bytes = {(uintptr_t)target, arrival->frame.length, pair->in_region->lkey};
    struct ibv_send_wr reading = {.sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_RDMA_READ};
    reading.wr.rdma.remote_addr = le64toh(address);
    reading.wr.rdma.rkey = le32toh(key);
    return post_requests(pair, &reading, &reading, 1);
}

static int64_t done(const struct fs_carrier *carrier) { return (int64_t)of(carrier)->completed; }

static int note(struct queue_pair *pair, const struct ibv_wc *completion, struct fs_arrival *arrival)
{
    if (completion->status != IBV_WC_SUCCESS) {
        if (completion->wr_id & RECEIVED) pair->drained = 1; /* what had arrived stands before it */
        fail(pair, completion->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
        return 0;
    }
    if (!(completion->wr_id & RECEIVED)) {
        if (completion->wr_id > pair->completed) pair->completed = completion->wr_id;
        return 0;
    }
    arrival->slot = (uint32_t)(completion->wr_id & ~RECEIVED);
    const unsigned char *buffer = receive_buffer(pair, arrival->slot);
    arrival->data = buffer + FS_FRAME_BYTES;
    if (completion->byte_len < FS_FRAME_BYTES) return fail(pair, EPROTO);
    arrival->frame = fs_frame_get(buffer);
    const uint32_t behind = completion->byte_len - FS_FRAME_BYTES;
    if (arrival->frame.kind == FS_FRAME_DATA && arrival->frame.length != behind) return fail(pair, EPROTO);
    if (arrival->frame.kind == FS_FRAME_OFFERED && behind != PLACE_BYTES) return fail(pair, EPROTO);
    return 1;
}

static int poll_completions(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most)
{
    struct queue_pair *pair = of(carrier);
    struct ibv_wc completions[POLLED];
    int found = 0;
    while (found < most) {
        int wanted = most - found < POLLED ? most - found : POLLED;
        int got = ibv_poll_cq(pair->completions, wanted, completions);
        if (got < 0) fail(pair, EIO);
        if (got <= 0) break;
        pair->armed = 0;
        for (int i = 0; i < got; i++)
            if (note(pair, &completions[i], &arrivals[found]) == 1) found++;
    }
    return found > 0 || pair->error == 0 ? found : -pair->error;
}

static int release(struct fs_carrier *carrier, uint32_t slot) { return post_receive(of(carrier), slot); }

static int arm(struct fs_carrier *carrier)
{
    struct queue_pair *pair = of(carrier);
    if (pair->armed) return 0;
    int error = ibv_req_notify_cq(pair->completions, 0);
    pair->armed = error == 0;
    return error == 0 ? 0 : fail(pair, error);
}

/* One event for each time that it was armed.  Where another one is there, the descriptor stays readable. */
static void disarm(struct fs_carrier *carrier)
{
    struct queue_pair *pair = of(carrier);
    struct ibv_cq *queue;
    void *context;
    if (pair->verbs->ibv_get_cq_event(pair->news, &queue, &context) != 0) return; /* it does not block */
    pair->armed = 0;
    if (++pair->unacknowledged < 1000) return;
    pair->verbs->ibv_ack_cq_events(pair->completions, pair->unacknowledged);
    pair->unacknowledged = 0;
}

/* Its state is "error" then.  A device that is gone completes nothing any more. */
static int stop(struct fs_carrier *carrier)
{
    struct queue_pair *pair = of(carrier);
    pair->verbs->rdma_disconnect(pair->id); /* again: it is nothing */
    return pair->drained;
}

static void close_pair(struct fs_carrier *carrier)
{
    struct queue_pair *pair = of(carrier);
    const struct fs_verbs_library *verbs = pair->verbs;
    if (pair->id->qp != NULL) verbs->rdma_destroy_qp(pair->id);
    if (pair->unacknowledged > 0) verbs->ibv_ack_cq_events(pair->completions, pair->unacknowledged);
    if (pair->completions != NULL) verbs->ibv_destroy_cq(pair->completions);
    if (pair->news != NULL) verbs->ibv_destroy_comp_channel(pair->news);
    if (pair->buffers_region != NULL) verbs->ibv_dereg_mr(pair->buffers_region);
    if (pair->out_region != NULL) verbs->ibv_dereg_mr(pair->out_region);
    if (pair->in_region != NULL) verbs->ibv_dereg_mr(pair->in_region);
    if (pair->buffers != MAP_FAILED) munmap(pair->buffers, BUFFERS_BYTES);
    free(pair);
}

static const struct fs_carrier_calls calls = {
    .room = room,
    .post = post,
    .write = write_then_post,
    .offer = offer,
    .read = read_offered,
    .done = done,
    .poll = poll_completions,
    .release = release,
    .arm = arm,
    .disarm = disarm,
    .stop = stop,
    .close = close_pair,
};

/* A device says no to more inline bytes than it has room for: then none is asked for. */
static int make_queues(struct queue_pair *pair)
{
    struct ibv_qp_init_attr wanted;
    for (uint32_t most_inline = INLINE_BYTES;; most_inline = 0) {
        wanted = (struct ibv_qp_init_attr){
            .send_cq = pair->completions,
            .recv_cq = pair->completions,
            .cap = {MOST_REQUESTS, FS_FRAMES, 1, 1, most_inline},
            .qp_type = IBV_QPT_RC,
        };
        if (pair->verbs->rdma_create_qp(pair->id, NULL, &wanted) == 0) break;
        if (most_inline == 0) return errno == 0 ? EIO : errno;
    }
    pair->most_inline = wanted.cap.max_inline_data;
    return 0;
}

static int make_parts(struct queue_pair *pair)
{
    const struct fs_verbs_library *verbs = pair->verbs;
    struct ibv_context *device = pair->id->verbs;
    int flags;
    errno = 0;
    pair->buffers =
        mmap(NULL, BUFFERS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pair->buffers == MAP_FAILED) return ENOMEM;
    pair->news = verbs->ibv_create_comp_channel(device);
    if (pair->news == NULL) return errno;
    flags = fcntl(pair->news->fd, F_GETFL);
    if (flags < 0 || fcntl(pair->news->fd, F_SETFL, flags | O_NONBLOCK) != 0) return errno;
    pair->carrier.descriptor = pair->news->fd;
    pair->completions = verbs->ibv_create_cq(device, MOST_REQUESTS + FS_FRAMES, NULL, pair->news, 0);
    if (pair->completions == NULL) return errno;
    int error = make_queues(pair);
    if (error != 0) return error;
    struct ibv_pd *domain = pair->id->qp->pd;
    pair->buffers_region = verbs->ibv_reg_mr(domain, pair->buffers, BUFFERS_BYTES, IBV_ACCESS_LOCAL_WRITE);
    if (pair->buffers_region == NULL) return errno;
    pair->out_region = verbs->ibv_reg_mr(domain, pair->memory.out, pair->memory.out_bytes,
                                         pair->memory.offers ? IBV_ACCESS_REMOTE_READ : 0);
    if (pair->out_region == NULL) return errno;
    pair->in_region = verbs->ibv_reg_mr(domain, pair->memory.in, pair->memory.in_bytes,
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (pair->in_region == NULL) return errno;
    for (uint32_t slot = 0; slot < FS_FRAMES && error == 0; slot++) error = -post_receive(pair, slot);
    return error;
}

struct fs_carrier *fs_queue_pair_make(const struct fs_verbs_library *verbs, struct rdma_cm_id *id,
                                      const struct fs_ring_memory *memory, int *error)
{
    struct queue_pair *pair = calloc(1, sizeof *pair);
    *error = -ENOMEM;
    if (pair == NULL) return NULL;
    pair->carrier.calls = &calls;
    pair->verbs = verbs;
    pair->id = id;
    pair->memory = *memory;
    pair->buffers = MAP_FAILED;
    int failed = make_parts(pair);
    *error = failed == 0 ? 0 : -failed;
    if (failed == 0) return &pair->carrier;
    close_pair(&pair->carrier);
    return NULL;
}

struct fs_window fs_queue_pair_window(const struct fs_carrier *carrier)
{
    const struct queue_pair *pair = of(carrier);
    return (struct fs_window){(uintptr_t)pair->memory.in, pair->in_region->rkey, (uint32_t)pair->memory.in_bytes};
}

void fs_queue_pair_connected(struct fs_carrier *carrier, const struct fs_window *other)
{
    of(carrier)->other = *other;
    carrier->window_bytes = other->bytes;
}

size_t fs_queue_pair_registered(const struct fs_carrier *carrier)
{
    const struct queue_pair *pair = of(carrier);
    return BUFFERS_BYTES + pair->memory.out_bytes + pair->memory.in_bytes;
}

#endif
