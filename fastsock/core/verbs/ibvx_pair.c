/* A queue pair: how it is made and connected, and the segments that go over it. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#ifdef FS_HAS_VERBS

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "copy.h"
#include "system.h"

#define MAGIC 0x02585642494b5346ull
#define DEPTH (2 * FS_IBVX_CREDITS + FS_IBVX_PIECES + 1) /* a word goes behind each segment; one for the last of all */
#define SIGNALLED_EACH (FS_IBVX_CREDITS / 4)
#define PAYLOAD (FS_IBVX_SEGMENT - sizeof(struct fs_ibvx_header) - FS_IBVX_WORD)
#define AT_ONCE 32
#define VAIN 4096      /* looks at the completions; then one at the device's own events, which is a system call */
#define ACK_TIMEOUT 17 /* half a second, eight times: a path that is cut for a second is no failure */
#define TRIES 7

/* ---- completions ---- */

static struct fs_ibvx_pair *pair_of(struct fs_ibvx *device, uint32_t number)
{
    struct fs_ibvx_pair *pair = device->pairs[number % FS_IBVX_BUCKETS];
    while (pair && pair->queue->qp_num != number) pair = pair->next;
    return pair;
}

void fs_ibvx_fail(struct fs_ibvx_pair *pair, enum ibv_wc_status status)
{
    int none = 0;
    atomic_compare_exchange_strong(&pair->failed, &none, 1 + (int)status);
}

/* The other end may use it again. */
static void give_back(struct fs_ibvx_pair *pair, struct fs_ibvx_buffer *buffer)
{
    if (pair->ring || fs_ibvx_post_receive(pair->device, buffer) == 0) pair->owed += 1 + buffer->behind;
    else fs_ibvx_fail(pair, IBV_WC_LOC_QP_OP_ERR);
    buffer->behind = 0;
}

static int is_whole(const struct fs_ibvx_pair *pair, const struct fs_ibvx_header *header, uint32_t most)
{
    return header->source == pair->peer && header->destination == pair->rank && header->credits <= FS_IBVX_CREDITS &&
           header->length >= sizeof *header && header->length <= most;
}

static void take_segment(struct fs_ibvx_pair *pair, struct fs_ibvx_buffer *buffer, uint32_t most)
{
    struct fs_ibvx_header header;
    memcpy(&header, buffer->data, sizeof header);
    if (!is_whole(pair, &header, most)) pair->broken = 1;
    if (pair->broken) {
        fs_ibvx_fail(pair, IBV_WC_BAD_RESP_ERR);
        give_back(pair, buffer);
        return;
    }
    atomic_fetch_add_explicit(&pair->credits, header.credits, memory_order_relaxed);
    if (header.length == sizeof header) { /* only to return credits */
        /* the other end fills a ring in turn: a slot is free once those before it are */
        if (pair->ring && pair->last) pair->last->behind++;
        else give_back(pair, buffer);
        return;
    }
    pair->counts.received++;
    buffer->next = NULL;
    buffer->offset = sizeof header;
    buffer->length = header.length;
    if (pair->last) pair->last->next = buffer;
    else pair->first = buffer;
    pair->last = buffer;
    atomic_fetch_add_explicit(&pair->arrived, 1, memory_order_release);
}

static void received(struct fs_ibvx *device, struct fs_ibvx_pair *pair, struct fs_ibvx_buffer *buffer,
                     const struct ibv_wc *completion)
{
    int whole = completion->status == IBV_WC_SUCCESS && completion->byte_len >= sizeof(struct fs_ibvx_header);
    if (pair && whole && !pair->ring) {
        take_segment(pair, buffer, completion->byte_len);
        return;
    }
    if (pair) {
        pair->broken = 1;
        fs_ibvx_fail(pair, whole ? IBV_WC_BAD_RESP_ERR : completion->status);
    }
    fs_ibvx_post_receive(device, buffer);
}

/* What has come into the ring. */
static void look_into_ring(struct fs_ibvx_pair *pair)
{
    struct fs_ibvx_buffer *buffer;
    if (!pair->ring) return;
    while ((buffer = fs_ibvx_ring_next(pair))) take_segment(pair, buffer, FS_IBVX_SEGMENT - FS_IBVX_WORD);
    fs_ibvx_return_credits(pair);
}

/* A device that is gone completes nothing any more: it says so here. */
static void heed_device(struct fs_ibvx *device)
{
    struct ibv_async_event event;
    device->vain = 0;
    while (device->library->ibv_get_async_event(device->context, &event) == 0) {
        const int is_fatal = event.event_type == IBV_EVENT_DEVICE_FATAL || event.event_type == IBV_EVENT_CQ_ERR ||
                             event.event_type == IBV_EVENT_SRQ_ERR;
        for (unsigned i = 0; is_fatal && i < FS_IBVX_BUCKETS; i++)
            for (struct fs_ibvx_pair *pair = device->pairs[i]; pair; pair = pair->next)
                fs_ibvx_fail(pair, IBV_WC_FATAL_ERR);
        device->library->ibv_ack_async_event(&event);
    }
}

int fs_ibvx_poll(struct fs_ibvx *device)
{
    struct ibv_wc completions[AT_ONCE];
    int count = ibv_poll_cq(device->completions, AT_ONCE, completions);
    if (count != 0) device->vain = 0;
    else if (++device->vain == VAIN) heed_device(device);
    for (int i = 0; i < count; i++) {
        const struct ibv_wc *one = &completions[i];
        struct fs_ibvx_pair *pair = pair_of(device, one->qp_num);
        int kind = (int)(one->wr_id >> 56);
        if (kind == FS_IBVX_RECEIVED)
            received(device, pair, (struct fs_ibvx_buffer *)(uintptr_t)(one->wr_id & ~(255ull << 56)), one);
        if (!pair) continue;
        if (one->status != IBV_WC_SUCCESS) fs_ibvx_fail(pair, one->status);
        if (kind == FS_IBVX_SENT)
            atomic_store_explicit(&pair->completed, (uint32_t)one->wr_id + 1, memory_order_release);
        /* a piece that failed is never done: what it belongs to ends with the link */
        if (kind == FS_IBVX_MOVED && one->status == IBV_WC_SUCCESS)
            atomic_fetch_add_explicit(&pair->pieces_done, 1, memory_order_release);
        if (kind == FS_IBVX_LAST) pair->closed = 1;
        fs_ibvx_return_credits(pair);
    }
    return count > 0 ? count : 0;
}

int fs_ibvx_arm(struct fs_ibvx *device)
{
    struct ibv_cq *which;
    void *context;
    unsigned events = 0;
    fs_ibvx_lock(device);
    heed_device(device);
    while (device->library->ibv_get_cq_event(device->channel, &which, &context) == 0) events++;
    if (events) device->library->ibv_ack_cq_events(device->completions, events);
    int came = ibv_req_notify_cq(device->completions, 0) != 0;
    came += fs_ibvx_poll(device);
    fs_ibvx_unlock(device);
    return came != 0;
}

/* ---- its life ---- */

static int make_queue(struct fs_ibvx_pair *pair)
{
    struct fs_ibvx *device = pair->device;
    struct ibv_qp_init_attr wanted = {
        .send_cq = device->completions,
        .recv_cq = device->completions,
        .srq = device->receives,
        .cap = {.max_send_wr = DEPTH, .max_send_sge = 1, .max_inline_data = FS_IBVX_INLINE},
        .qp_type = IBV_QPT_RC,
    };
    pair->queue = device->library->ibv_create_qp(device->domain, &wanted);
    if (!pair->queue) {
        wanted.cap.max_inline_data = 0;
        pair->queue = device->library->ibv_create_qp(device->domain, &wanted);
    }
    if (!pair->queue) return -errno;
    pair->most_inline = wanted.cap.max_inline_data;
    struct ibv_qp_attr initial = {.qp_state = IBV_QPS_INIT,
                                  .port_num = device->port_number,
                                  .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    return -device->library->ibv_modify_qp(pair->queue, &initial,
                                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct fs_ibvx_pair *fs_ibvx_pair_new(struct fs_ibvx *device, int rank, int peer, int *error)
{
    struct fs_ibvx_pair *pair = calloc(1, sizeof *pair);
    *error = -ENOMEM;
    if (!pair) return NULL;
    pair->device = device;
    pair->rank = rank;
    pair->peer = peer;
    pair->sequence = (uint32_t)fs_ticks() & 0xffffff;
    size_t size = (size_t)FS_IBVX_CREDITS * FS_IBVX_SEGMENT;
    pair->slots = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pair->slots == MAP_FAILED) {
        free(pair);
        return NULL;
    }
    fs_ibvx_lock(device);
    pair->region = device->library->ibv_reg_mr(device->domain, pair->slots, size, IBV_ACCESS_LOCAL_WRITE);
    *error = pair->region ? 0 : -errno;
    if (*error == 0) *error = make_queue(pair);
    if (*error == 0 && device->pairs_made == device->most_pairs) *error = -ENOSPC;
    if (*error == 0) *error = device->has_rings ? fs_ibvx_ring_new(pair) : fs_ibvx_add_buffers(device);
    if (*error == 0) {
        device->pairs_made++;
        struct fs_ibvx_pair **bucket = &device->pairs[pair->queue->qp_num % FS_IBVX_BUCKETS];
        pair->next = *bucket;
        *bucket = pair;
    }
    fs_ibvx_unlock(device);
    if (*error == 0) return pair;
    fs_ibvx_pair_close(pair, 0);
    fs_ibvx_pair_free(pair);
    return NULL;
}

/* Behind everything else, to hear when all has arrived: a write of nothing takes no credit. */
static void post_last(struct fs_ibvx_pair *pair)
{
    struct ibv_send_wr request = {
        .wr_id = FS_IBVX_NUMBER(FS_IBVX_LAST, 0), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    pair->closed = ibv_post_send(pair->queue, &request, &bad) != 0;
}

void fs_ibvx_pair_close(struct fs_ibvx_pair *pair, int patience_ms)
{
    struct fs_ibvx *device = pair->device;
    uint64_t until = fs_now_ns() + (uint64_t)patience_ms * 1000000;
    fs_ibvx_lock(device);
    if (patience_ms && atomic_load(&pair->begun) && !atomic_load(&pair->failed)) {
        post_last(pair);
        while (!pair->closed && !atomic_load(&pair->failed) && fs_now_ns() < until)
            if (fs_ibvx_poll(device) == 0) sched_yield();
    }
    fs_ibvx_fail(pair, IBV_WC_WR_FLUSH_ERR);
    if (pair->queue) {
        struct fs_ibvx_pair **place = &device->pairs[pair->queue->qp_num % FS_IBVX_BUCKETS];
        while (*place && *place != pair) place = &(*place)->next;
        if (*place) *place = pair->next;
        device->library->ibv_destroy_qp(pair->queue);
        pair->queue = NULL;
    }
    while (pair->first) { /* nobody reads it any more */
        struct fs_ibvx_buffer *buffer = pair->first;
        pair->first = buffer->next;
        if (!pair->ring) fs_ibvx_post_receive(device, buffer);
    }
    atomic_store(&pair->arrived, 0);
    if (pair->region) device->library->ibv_dereg_mr(pair->region);
    pair->region = NULL;
    fs_ibvx_ring_close(pair);
    fs_ibvx_buffers_close(pair);
    fs_ibvx_unlock(device);
}

void fs_ibvx_pair_free(struct fs_ibvx_pair *pair)
{
    fs_ibvx_ring_free(pair);
    fs_ibvx_buffers_free(pair);
    munmap(pair->slots, (size_t)FS_IBVX_CREDITS * FS_IBVX_SEGMENT);
    free(pair);
}

struct fs_ibvx_address fs_ibvx_address_of(const struct fs_ibvx_pair *pair)
{
    const struct fs_ibvx *device = pair->device;
    struct fs_ibvx_address here = {
        .magic = MAGIC,
        .rank = (uint32_t)pair->rank,
        .queue_pair = pair->queue->qp_num,
        .sequence = pair->sequence,
        .credits = FS_IBVX_CREDITS,
        .lid = device->port.lid,
        .mtu = (uint16_t)device->port.active_mtu,
        .global = device->port.link_layer == IBV_LINK_LAYER_ETHERNET,
        .reads = device->most_answered,
    };
    memcpy(here.gid, device->gid.raw, sizeof here.gid);
    if (pair->ring) {
        here.ring = (uintptr_t)pair->ring->memory;
        here.ring_key = pair->ring->region->rkey;
    }
    return here;
}

static int to_receiving(struct fs_ibvx_pair *pair, const struct fs_ibvx_address *there)
{
    struct fs_ibvx *device = pair->device;
    enum ibv_mtu mtu = device->port.active_mtu < there->mtu ? device->port.active_mtu : (enum ibv_mtu)there->mtu;
    struct ibv_qp_attr receiving = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu,
        .dest_qp_num = there->queue_pair,
        .rq_psn = there->sequence,
        .max_dest_rd_atomic = device->most_answered,
        .min_rnr_timer = 12,
        .ah_attr = {.dlid = there->lid, .port_num = device->port_number, .is_global = there->global != 0},
    };
    if (there->global) {
        memcpy(receiving.ah_attr.grh.dgid.raw, there->gid, sizeof there->gid);
        receiving.ah_attr.grh.sgid_index = device->gid_index;
        receiving.ah_attr.grh.hop_limit = 64;
    }
    return -device->library->ibv_modify_qp(pair->queue, &receiving,
                                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_sending(struct fs_ibvx_pair *pair, const struct fs_ibvx_address *there)
{
    const uint32_t answered = there->reads ? there->reads : 1;
    const uint8_t most = pair->device->most_reads;
    struct ibv_qp_attr sending = {
        .qp_state = IBV_QPS_RTS,
        .timeout = ACK_TIMEOUT,
        .retry_cnt = TRIES,
        .rnr_retry = TRIES,
        .sq_psn = pair->sequence,
        .max_rd_atomic = answered < most ? (uint8_t)answered : most,
    };
    return -pair->device->library->ibv_modify_qp(pair->queue, &sending,
                                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Both ends have one, or neither. */
static int agree_on_rings(struct fs_ibvx_pair *pair, const struct fs_ibvx_address *there)
{
    if (!pair->ring) return 0;
    if (there->ring) {
        pair->ring_there = there->ring;
        pair->ring_there_key = there->ring_key;
        return 0;
    }
    fs_ibvx_lock(pair->device);
    fs_ibvx_ring_close(pair);
    fs_ibvx_ring_free(pair);
    int error = fs_ibvx_add_buffers(pair->device);
    fs_ibvx_unlock(pair->device);
    return error;
}

int fs_ibvx_connect(struct fs_ibvx_pair *pair, const struct fs_ibvx_address *there)
{
    if (there->magic != MAGIC || there->rank != (uint32_t)pair->peer || there->credits > 1u << 20) return -EPROTO;
    int error = agree_on_rings(pair, there);
    if (error == 0) error = to_receiving(pair, there);
    if (error == 0) error = to_sending(pair, there);
    if (error == 0) atomic_store(&pair->credits, there->credits);
    return error;
}

void fs_ibvx_begin(struct fs_ibvx_pair *pair) { atomic_store(&pair->begun, 1); }

/* ---- segments ---- */

static int has_slot(const struct fs_ibvx_pair *pair)
{
    uint32_t completed = atomic_load_explicit(&pair->completed, memory_order_acquire);
    return atomic_load_explicit(&pair->posted, memory_order_relaxed) - completed < FS_IBVX_CREDITS;
}

static int has_room(const struct fs_ibvx_pair *pair)
{
    return atomic_load_explicit(&pair->credits, memory_order_relaxed) > FS_IBVX_RESERVED && has_slot(pair);
}

/* What lies in the next slot, `length` bytes with the header. */
static int post(struct fs_ibvx_pair *pair, uint32_t length)
{
    uint32_t position = atomic_load_explicit(&pair->posted, memory_order_relaxed);
    const size_t offset = (size_t)(position % FS_IBVX_CREDITS) * FS_IBVX_SEGMENT;
    const size_t end = offset + FS_IBVX_SEGMENT - FS_IBVX_WORD;
    struct fs_ibvx_header header = {pair->rank, pair->peer, pair->owed, length};
    memcpy(pair->slots + offset, &header, sizeof header);
    struct ibv_sge where = {(uintptr_t)pair->slots + offset, length, pair->region->lkey};
    struct ibv_sge where_word = {(uintptr_t)pair->slots + end, FS_IBVX_WORD, pair->region->lkey};
    struct ibv_send_wr word = {.wr_id = FS_IBVX_NUMBER(FS_IBVX_SENT, position),
                               .sg_list = &where_word,
                               .num_sge = 1,
                               .opcode = IBV_WR_RDMA_WRITE,
                               .wr.rdma = {pair->ring_there + end, pair->ring_there_key}};
    struct ibv_send_wr request = {
        .wr_id = FS_IBVX_NUMBER(FS_IBVX_SENT, position), .sg_list = &where, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_send_wr *last = &request, *bad;
    if (pair->ring_there) {
        fs_ibvx_set_word(pair->slots + offset, position);
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma.remote_addr = pair->ring_there + offset;
        request.wr.rdma.rkey = pair->ring_there_key;
        request.next = last = &word;
        if (FS_IBVX_WORD <= pair->most_inline) word.send_flags |= IBV_SEND_INLINE;
        pair->counts.written++;
    }
    if (length <= pair->most_inline) request.send_flags |= IBV_SEND_INLINE, pair->counts.inlined++;
    /* one completion stands for all before it */
    if (position % SIGNALLED_EACH == SIGNALLED_EACH - 1)
        last->send_flags |= IBV_SEND_SIGNALED, pair->counts.signalled++;
    if (ibv_post_send(pair->queue, &request, &bad) != 0) {
        fs_ibvx_fail(pair, IBV_WC_LOC_QP_OP_ERR);
        return 0;
    }
    pair->owed = 0;
    atomic_store_explicit(&pair->posted, position + 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&pair->credits, 1, memory_order_relaxed);
    return 1;
}

/* Where nothing goes the other way that could carry them. */
void fs_ibvx_return_credits(struct fs_ibvx_pair *pair)
{
    if (pair->owed < FS_IBVX_CREDITS / 2 || !atomic_load(&pair->begun) || atomic_load(&pair->failed)) return;
    if (atomic_load_explicit(&pair->credits, memory_order_relaxed) == 0 || !has_slot(pair)) return;
    pair->counts.credit_segments++;
    (void)post(pair, sizeof(struct fs_ibvx_header));
}

ssize_t fs_ibvx_write(struct fs_ibvx_pair *pair, const struct iovec *parts, int count)
{
    size_t left = 0, done = 0, offset = 0;
    for (int i = 0; i < count; i++) left += parts[i].iov_len;
    if (atomic_load(&pair->failed)) return -EPIPE;
    if (!atomic_load(&pair->begun)) return 0;
    fs_ibvx_lock(pair->device);
    if (!has_room(pair)) {
        fs_ibvx_poll(pair->device);
        look_into_ring(pair);
    }
    while (left && has_room(pair)) {
        uint32_t position = atomic_load_explicit(&pair->posted, memory_order_relaxed);
        unsigned char *slot = pair->slots + (size_t)(position % FS_IBVX_CREDITS) * FS_IBVX_SEGMENT;
        size_t wanted = left < PAYLOAD ? left : PAYLOAD, filled = 0;
        while (filled < wanted) {
            size_t part = parts->iov_len - offset;
            if (part > wanted - filled) part = wanted - filled;
            memcpy(slot + sizeof(struct fs_ibvx_header) + filled, (const char *)parts->iov_base + offset, part);
            filled += part, offset += part;
            if (offset == parts->iov_len) parts++, offset = 0;
        }
        if (!post(pair, (uint32_t)(sizeof(struct fs_ibvx_header) + filled))) break;
        pair->counts.segments++;
        done += filled;
        left -= filled;
    }
    pair->counts.stalls += left != 0;
    fs_ibvx_unlock(pair->device);
    return done == 0 && atomic_load(&pair->failed) ? -EPIPE : (ssize_t)done;
}

ssize_t fs_ibvx_read(struct fs_ibvx_pair *pair, void *target, size_t length)
{
    if (atomic_load_explicit(&pair->arrived, memory_order_acquire) == 0) return atomic_load(&pair->failed) ? -EPIPE : 0;
    struct fs_ibvx_buffer *buffer = pair->first; /* its successor may come meanwhile, it does not change */
    if (length > buffer->length - buffer->offset) length = buffer->length - buffer->offset;
    if (target) fs_copy(target, buffer->data + buffer->offset, length);
    buffer->offset += (uint32_t)length;
    if (buffer->offset < buffer->length) return (ssize_t)length;
    fs_ibvx_lock(pair->device);
    pair->first = buffer->next;
    if (!pair->first) pair->last = NULL;
    atomic_fetch_sub_explicit(&pair->arrived, 1, memory_order_relaxed);
    give_back(pair, buffer);
    fs_ibvx_unlock(pair->device);
    return (ssize_t)length;
}

void fs_ibvx_taken(struct fs_ibvx_pair *pair)
{
    fs_ibvx_lock(pair->device);
    fs_ibvx_return_credits(pair);
    fs_ibvx_unlock(pair->device);
}

/* Whoever has the lock looks too, and shows what it finds. */
static void look(struct fs_ibvx_pair *pair)
{
    if (!fs_ibvx_try_lock(pair->device)) return;
    fs_ibvx_poll(pair->device);
    look_into_ring(pair);
    fs_ibvx_unlock(pair->device);
}

int fs_ibvx_has_input(struct fs_ibvx_pair *pair)
{
    if (atomic_load_explicit(&pair->arrived, memory_order_relaxed) == 0) look(pair);
    return atomic_load_explicit(&pair->arrived, memory_order_relaxed) != 0 || atomic_load(&pair->failed) != 0 ||
           atomic_load_explicit(&pair->pieces_done, memory_order_relaxed) != pair->pieces_seen;
}

int fs_ibvx_has_room(struct fs_ibvx_pair *pair)
{
    if (!atomic_load(&pair->begun)) return 0;
    return has_room(pair) || atomic_load(&pair->failed) != 0;
}

int fs_ibvx_must_be_looked_at(const struct fs_ibvx_pair *pair) { return pair->ring != NULL; }

const char *fs_ibvx_failure(const struct fs_ibvx_pair *pair)
{
    int failed = atomic_load(&pair->failed);
    return failed ? pair->device->library->ibv_wc_status_str((enum ibv_wc_status)(failed - 1)) : NULL;
}

struct fs_ibvx_counts fs_ibvx_counts_of(const struct fs_ibvx_pair *pair)
{
    struct fs_ibvx_counts counts = pair->counts;
    counts.registered = atomic_load(&pair->device->registered);
    counts.most_registered = atomic_load(&pair->device->most_registered);
    return counts;
}

#else

void fs_ibvx_pair_free(struct fs_ibvx_pair *pair) { (void)pair; } /* there is none */

#endif
