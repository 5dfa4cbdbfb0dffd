#define _GNU_SOURCE
#include "switch.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "tokens.h"

#define RESEND_SLICE_MS 100
#define RESEND_SLICES 20
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif
enum { OF_BUFFER = 3, QUEUED = 5, MEMORY_WORDS = 6 }; /* of the kernel's SK_MEMINFO_... */

static uint32_t is_in_ring(uint32_t seq) { return seq & 1; }

/* For two tokens at least: the kernel calls a socket writable while a third of its buffer is free. */
static int has_room(int descriptor)
{
    struct pollfd one = {descriptor, POLLOUT, 0};
    return poll(&one, 1, 0) > 0 && one.revents == POLLOUT;
}

/* The other end has carried out the last change, and its program may go on reading there. */
static int may_enter(const struct fs_record *record, const struct fs_end *end)
{
    const struct fs_switch_words *words = fs_words_out(end);
    return atomic_load_explicit(&words->rseq, memory_order_acquire) ==
               atomic_load_explicit(&record->out_seq, memory_order_relaxed) &&
           atomic_load_explicit(&words->release, memory_order_relaxed) == FS_RELEASE_NONE &&
           !atomic_load_explicit(&record->out_pinned, memory_order_relaxed) &&
           !atomic_load_explicit(&end->out.shared->producer_shut, memory_order_relaxed) &&
           !(atomic_load(&end->out.shared->head) & FS_RAW_ASKED);
}

int fs_switch_is_due(const struct fs_record *record, const struct fs_end *end)
{
    return !is_in_ring(atomic_load_explicit(&record->out_seq, memory_order_relaxed)) && may_enter(record, end);
}

void fs_switch_wake(struct fs_end *end)
{
    atomic_fetch_add(&end->out.shared->notice, 1);
    fs_end_wake_reader(end);
}

static void store_seq(struct fs_record *record, struct fs_end *end, uint32_t seq)
{
    atomic_store(&record->out_seq, seq);
    atomic_store(&fs_words_out(end)->seq, seq);
}

void fs_switch_finish(struct fs_record *record, struct fs_end *end, int descriptor)
{
    if (atomic_load_explicit(&record->ringing, memory_order_relaxed)) fs_tokens_mend(record, end, descriptor);
    uint32_t seq = atomic_load(&record->out_seq);
    if (atomic_load(&fs_words_out(end)->seq) != seq) atomic_store(&fs_words_out(end)->seq, seq);
    if (atomic_load(&record->out_ring) != is_in_ring(seq)) atomic_store(&record->out_ring, is_in_ring(seq));
}

/* X and a wish for a token, for a reader may sleep in the kernel; then `seq`.  Nobody enters the kernel meanwhile. */
int fs_switch_name_byte(struct fs_record *record, struct fs_end *end, int descriptor)
{
    struct fs_switch_words *words = fs_words_out(end);
    atomic_store(&record->out_ring, 1);
    uint64_t sent = atomic_load(&record->sent);
    if (fs_traffic_inside(sent) != 0 || !has_room(descriptor)) {
        atomic_store(&record->out_ring, 0);
        return 0;
    }
    atomic_store(&words->x, fs_traffic_bytes(sent));
    atomic_store(&record->rung, 0);
    atomic_store(&words->tokens, FS_TOKEN_WANTED);
    store_seq(record, end, atomic_load(&record->out_seq) + 1);
    atomic_fetch_add_explicit(&record->switches, 1, memory_order_relaxed);
    return 1;
}

int fs_switch_to_ring(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    struct fs_record *record = connection->record;
    return fs_record_state(record) == FS_ATTACHED && fs_switch_is_due(record, end) &&
           fs_switch_name_byte(record, end, descriptor);
}

/* A reader that may be within a recv() since before it could know X takes what comes behind Y for tokens. */
static int may_leave(const struct fs_record *record, const struct fs_end *end)
{
    const struct fs_switch_words *words = fs_words_out(end);
    return atomic_load(&words->rseq) == atomic_load(&record->out_seq) || atomic_load(&words->rx_in) == 0;
}

int fs_switch_to_tcp(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    struct fs_record *record = connection->record;
    uint32_t seq = atomic_load(&record->out_seq);
    if (!is_in_ring(seq) || !may_leave(record, end) || fs_tokens_pay(connection, descriptor) != 0) return 0;
    atomic_store(&fs_words_out(end)->y, fs_published(end->out.shared));
    store_seq(record, end, seq + 1);
    atomic_store(&record->out_ring, 0);
    atomic_fetch_add_explicit(&record->spills, 1, memory_order_relaxed);
    fs_switch_wake(end);
    return 1;
}

/* ---- the reader's side ---- */

void fs_switch_catch_up(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    struct fs_record *record = connection->record;
    const struct fs_switch_words *words = fs_words_in(end);
    for (int i = 0; i < 2 && atomic_load(&words->seq) != atomic_load(&record->rseq); i++) {
        if (is_in_ring(atomic_load(&record->rseq))) {
            if (fs_ring_unread(&end->in) != 0 || fs_tokens_drain(connection, end, descriptor) != 0) return;
        } else {
            int64_t left = fs_distance(fs_moved(&record->received), atomic_load(&words->x));
            if (left > 0 || left < -FS_MOST_TOKENS) return; /* a receive tells the second */
        }
        fs_switch_carry_out(record, end);
    }
}

/* ---- the other end's way out ---- */

/* All of it at once: half of what is free of its buffer is enough.  The kernel counts what holds the bytes, too. */
static int fits_tcp(int descriptor, size_t length)
{
    uint32_t memory[MEMORY_WORDS] = {0};
    socklen_t size = sizeof memory;
    if (getsockopt(descriptor, SOL_SOCKET, SO_MEMINFO, memory, &size) != 0 || size < sizeof memory) return 0;
    uint32_t buffer = memory[OF_BUFFER], queued = memory[QUEUED];
    return queued < buffer && length <= (buffer - queued) / 2;
}

static int await_room(int descriptor)
{
    struct pollfd one = {descriptor, POLLOUT, 0};
    return poll(&one, 1, RESEND_SLICE_MS) >= 0 && (one.revents & (POLLERR | POLLHUP)) == 0;
}

/* Bytes of the ring from its tail on.  Nobody reads them there any more. */
static int resend(struct fs_record *record, const struct fs_end *end, int descriptor, size_t length)
{
    int slices = 0;
    for (size_t done = 0; done < length;) {
        size_t run = 0;
        const unsigned char *bytes = fs_ring_run(&end->out, done, &run);
        if (run > length - done) run = length - done;
        ssize_t sent = send(descriptor, bytes, run, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) {
            atomic_fetch_add(&record->sent, (uint64_t)sent << FS_TRAFFIC_SHIFT);
            atomic_fetch_add_explicit(&record->extra_out, (uint64_t)sent, memory_order_relaxed);
            done += (size_t)sent;
        } else if (sent < 0 && errno != EAGAIN) {
            return 1; /* nobody is there */
        } else if (slices++ == RESEND_SLICES || !await_room(descriptor)) {
            return 0;
        }
    }
    return 1;
}

void fs_switch_answer(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    struct fs_record *record = connection->record;
    struct fs_switch_words *words = fs_words_out(end);
    uint32_t seq = atomic_load(&record->out_seq), asked = FS_RELEASE_ASKED;
    ssize_t unread = fs_ring_unread(&end->out);
    int able = is_in_ring(seq) && atomic_load(&words->rseq) == seq && unread >= 0 &&
               !atomic_load(&end->out.shared->producer_shut) && fs_tokens_pay(connection, descriptor) == 0 &&
               fits_tcp(descriptor, (size_t)unread);
    uint32_t answer = able ? FS_RELEASE_GRANTED : FS_RELEASE_REFUSED;
    if (!atomic_compare_exchange_strong(&words->release, &asked, answer) || !able) return;
    atomic_store(&words->y, atomic_load(&end->out.shared->tail));
    store_seq(record, end, seq + 1);
    atomic_store(&record->out_pinned, 1);
    /* bytes that are lost would be lost without a word */
    if (!resend(record, end, descriptor, (size_t)unread)) shutdown(descriptor, SHUT_RDWR);
    atomic_store(&record->out_ring, 0);
}
