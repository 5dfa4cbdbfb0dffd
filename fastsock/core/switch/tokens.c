#define _GNU_SOURCE
#include "tokens.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

#include "counters.h"
#include "identity.h"
#include "ringing.h"

#define ENDING_PATIENCE_NS 20000000ull
#define BEHIND_PATIENCE_NS 200000ull /* between the count of a token and its send; more if its sender is interrupted */
#define MOST_READINGS 10000
#define MOST_TRIES 64 /* against another process that changes a word all the time */

static uint64_t count_of(uint64_t word) { return word >> FS_TOKEN_SHIFT; }

/* What is being done, for whoever finds that this process died meanwhile. */
static void note(_Atomic uint32_t *what, uint32_t now) { atomic_store_explicit(what, now, memory_order_relaxed); }

/* ---- sending ---- */

static void count_sent(struct fs_record *record)
{
    atomic_fetch_add(&record->sent, 1ull << FS_TRAFFIC_SHIFT);
    atomic_fetch_add_explicit(&record->extra_out, 1, memory_order_relaxed);
}

/* 1: TCP has taken it, or nobody is there any more. */
static int send_one(struct fs_connection *connection, struct fs_record *record, int descriptor)
{
    if (!fs_identity_holds(connection, descriptor)) return 1;
    ssize_t sent = send(descriptor, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == 1) count_sent(record);
    if (sent == 1 || errno == EPIPE) return 1;
    if (errno == EAGAIN || errno == ENOMEM || errno == ENOBUFS) return 0;
    atomic_store(&record->pending_error, errno); /* the kernel tells it once: it is the program's to hear */
    atomic_store(&record->failed, 1);
    return 1;
}

/* By what the reader has said it has taken. */
static int has_place_for_one(const struct fs_end *end, uint64_t seen)
{
    const struct fs_switch_words *words = fs_words_out(end);
    return fs_distance(atomic_load(&words->drained), atomic_load(&words->x) + count_of(seen)) < FS_MOST_TOKENS;
}

/* A watched reader that has not asked again may be told of edges alone.  It would have asked if it had looked: at most one
 * token is on its way. */
static int is_token_due(const struct fs_end *end, uint64_t seen)
{
    if (seen & FS_TOKENS_ENDED) return 0;
    if (seen & FS_TOKEN_WANTED) return 1;
    return atomic_load_explicit(&end->out.shared->watched, memory_order_relaxed) == FS_WATCHED_EXACTLY &&
           has_place_for_one(end, seen);
}

int fs_tokens_can_wake(const struct fs_end *end)
{
    if (atomic_load_explicit(&end->out.shared->watched, memory_order_relaxed) != FS_WATCHED_EXACTLY) return 1;
    return is_token_due(end, atomic_load(&fs_words_out(end)->tokens));
}

static int is_due(const struct fs_end *end, uint64_t seen)
{
    return is_token_due(end, seen) || (seen & (FS_BIT_WANTED | FS_TOKENS_ENDED)) == FS_BIT_WANTED;
}

static void send_counted(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                         uint64_t counted)
{
    if (!send_one(connection, record, descriptor)) atomic_fetch_add(&record->owed, 1);
    note(&record->rung, (uint32_t)count_of(counted));
    fs_count_wake(end);
}

/* In place of a bit that cannot be set, or is not enough.  Whatever was asked for meanwhile is answered by the same token. */
static void send_instead(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    _Atomic uint64_t *word = &fs_words_out(end)->tokens;
    uint64_t seen = atomic_load(word);
    for (int i = 0; i < MOST_TRIES && !(seen & FS_TOKENS_ENDED) && has_place_for_one(end, seen); i++) {
        uint64_t counted = (count_of(seen) + 1) << FS_TOKEN_SHIFT;
        if (!atomic_compare_exchange_weak(word, &seen, counted)) continue;
        send_counted(connection, record, end, descriptor, counted);
        break;
    }
}

static int ring_loop(const struct fs_end *end)
{
    const struct fs_switch_words *words = fs_words_out(end);
    return fs_ring_loop(atomic_load(&words->loop), atomic_load(&words->slot));
}

static void ring(struct fs_connection *connection, struct fs_end *end, int descriptor, int for_bytes)
{
    struct fs_record *record = connection->record;
    _Atomic uint64_t *word = &fs_words_out(end)->tokens;
    uint64_t seen = atomic_load(word); /* behind the head's store: sequentially consistent, as the reader's */
    if (!is_due(end, seen)) return;
    /* where the reader has it all by now, his wish is for what comes next: a token would tell of nothing */
    if (for_bytes && fs_ring_unread(&end->out) == 0) return;
    note(&record->ringing, 1);
    for (int i = 0; i < MOST_TRIES && is_due(end, seen); i++) {
        int token = is_token_due(end, seen), bit = (seen & FS_BIT_WANTED) != 0;
        uint64_t counted = (count_of(seen) + (unsigned)token) << FS_TOKEN_SHIFT;
        if (!atomic_compare_exchange_weak(word, &seen, counted)) continue;
        if (token) send_counted(connection, record, end, descriptor, counted);
        if (bit && !ring_loop(end) && !token)
            send_instead(connection, record, end, descriptor); /* else the token tells it, too */
        break;
    }
    note(&record->ringing, 0);
}

void fs_tokens_ring(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    ring(connection, end, descriptor, 0);
}

void fs_tokens_leave_one(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    struct fs_record *record = connection->record;
    if (fs_ring_unread(&end->out) <= 0) return;
    note(&record->ringing, 1);
    send_instead(connection, record, end, descriptor);
    note(&record->ringing, 0);
}

int fs_tokens_pay_owed(struct fs_connection *connection, int descriptor)
{
    struct fs_record *record = connection->record;
    while (atomic_load(&record->owed) != 0) {
        note(&record->ringing, 1);
        int sent = send_one(connection, record, descriptor);
        if (sent) atomic_fetch_sub(&record->owed, 1);
        note(&record->ringing, 0);
        if (!sent) return -EAGAIN;
    }
    return 0;
}

/* Nobody can say any more which byte is a token. */
static void break_off(struct fs_record *record, int descriptor)
{
    shutdown(descriptor, SHUT_RDWR);
    atomic_store(&record->pending_error, ECONNRESET);
    atomic_store(&record->failed, 1);
}

/* While bytes come in at every look the kernel's answer is none yet. */
static int read_counters(int descriptor, struct fs_counters *kernel)
{
    int error = -EAGAIN;
    for (int i = 0; i < MOST_READINGS && error == -EAGAIN; i++) error = fs_counters_read(descriptor, kernel);
    return error;
}

void fs_tokens_mend(struct fs_record *record, struct fs_end *end, int descriptor)
{
    struct fs_counters kernel;
    uint32_t counted = (uint32_t)count_of(atomic_load(&fs_words_out(end)->tokens)), rung = atomic_load(&record->rung);
    int error = read_counters(descriptor, &kernel);
    int64_t more = error == 0 ? fs_distance(fs_moved(&record->sent), kernel.sent) : -1;
    if (more < 0 || more > 1) {
        break_off(record, descriptor);
    } else {
        if (more == 1) count_sent(record);
        if (counted != rung + 1 && more == 1 && atomic_load(&record->owed) != 0) atomic_fetch_sub(&record->owed, 1);
        if (counted == rung + 1 && more == 0) atomic_fetch_add(&record->owed, 1);
        note(&record->rung, counted);
        /* it may have taken the wish for a bit, and done nothing */
        if (counted != rung + 1 && atomic_load(&fs_words_out(end)->loop) != 0 && !ring_loop(end))
            send_instead(end->owner, record, end, descriptor);
    }
    note(&record->ringing, 0);
}

static void published(struct fs_end *end, int descriptor, int edge)
{
    (void)edge;
    ring(end->owner, end, descriptor, 1);
}

/* The sender's program hears of room by a futex; beyond that it spills.  What the descriptor shows is carry.c's matter. */
static void nothing(struct fs_end *end, int descriptor)
{
    (void)end;
    (void)descriptor;
}

const struct fs_signals fs_token_signals = {published, nothing, nothing};

/* ---- receiving ---- */

ssize_t fs_take_off_tcp(struct fs_connection *connection, int descriptor, void *target, size_t length, int kernel_flags)
{
    struct fs_record *record = connection->record;
    int takes = (kernel_flags & MSG_PEEK) == 0;
    if (!fs_identity_holds(connection, descriptor)) return -EBADF;
    if (takes) note(&record->taking, 1);
    ssize_t got = recv(descriptor, target, length, kernel_flags | MSG_DONTWAIT);
    int error = errno;
    if (takes && got > 0) atomic_fetch_add(&record->received, (uint64_t)got << FS_TRAFFIC_SHIFT);
    if (takes) note(&record->taking, 0);
    if (got >= 0) return got;
    if (error == EINTR) error = EAGAIN;
    if (error != EAGAIN) {
        atomic_store(&record->pending_error, error);
        atomic_store(&record->failed, 1);
    }
    return -error;
}

void fs_take_mend(struct fs_record *record, int descriptor)
{
    struct fs_counters kernel;
    int error = read_counters(descriptor, &kernel);
    int64_t more = error == 0 ? fs_distance(fs_moved(&record->received), kernel.consumed) : -1;
    if (more < 0) break_off(record, descriptor);
    else atomic_fetch_add(&record->received, (uint64_t)more << FS_TRAFFIC_SHIFT);
    note(&record->taking, 0);
}

/* Of so many that were sent since X. */
static int on_their_way(const struct fs_connection *connection, const struct fs_end *end, uint64_t count)
{
    uint64_t last = atomic_load(&fs_words_in(end)->x) + count;
    int64_t left = fs_distance(fs_moved(&connection->record->received), last);
    return left < 0 || left > FS_MOST_TOKENS ? -EPROTO : (int)left;
}

int fs_tokens_on_their_way(const struct fs_connection *connection, const struct fs_end *end)
{
    return on_their_way(connection, end, count_of(atomic_load(&fs_words_in(end)->tokens)));
}

/* Takes `count` at most, which were sent: 1 if some are still to come.  Behind our own shutdown(SHUT_RD) the kernel says
 * that the end has come whenever nothing is there. */
static int take(struct fs_connection *connection, struct fs_end *end, int descriptor, int count)
{
    char drop[FS_MOST_TOKENS];
    if (count == 0) return 0;
    ssize_t got = fs_take_off_tcp(connection, descriptor, drop, (size_t)count, 0);
    if (got > 0) atomic_fetch_add_explicit(&connection->record->extra_in, (uint64_t)got, memory_order_relaxed);
    atomic_store(&fs_words_in(end)->drained, fs_moved(&connection->record->received));
    if (got == 0) return (int)atomic_load(&connection->record->read_shut);
    return got == -EAGAIN || (got > 0 && got < count);
}

int fs_tokens_drain(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    int left = fs_tokens_on_their_way(connection, end);
    return left <= 0 ? left : take(connection, end, descriptor, left);
}

/* At most one may be on its way for another one to be asked for; and it is asked for before the last one is taken.  The
 * same holds for a bit: a sender that cannot set it sends a token. */
static int arm(struct fs_connection *connection, struct fs_end *end, int descriptor, uint64_t wishes)
{
    _Atomic uint64_t *word = &fs_words_in(end)->tokens;
    uint64_t seen = atomic_load(word);
    for (int i = 0; i < MOST_TRIES && (seen & wishes) != wishes; i++) {
        int left = on_their_way(connection, end, count_of(seen));
        if (left < 0) return left;
        if (left == FS_MOST_TOKENS && take(connection, end, descriptor, 1) != 0) return 0; /* they come, and wake */
        if (atomic_compare_exchange_weak(word, &seen, seen | wishes)) break;
    }
    return 0;
}

int fs_tokens_end(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    _Atomic uint64_t *word = &fs_words_in(end)->tokens;
    uint64_t deadline = fs_now_ns() + ENDING_PATIENCE_NS, seen = atomic_load(word);
    for (int i = 0; i < MOST_TRIES; i++) /* whoever is about to count one fails, and sees it */
        if (atomic_compare_exchange_weak(word, &seen, (seen | FS_TOKENS_ENDED) & ~(uint64_t)FS_TOKEN_WANTED)) break;
    int left = 1;
    while ((left = fs_tokens_drain(connection, end, descriptor)) > 0 && fs_now_ns() < deadline) sched_yield();
    return left == 0 ? 0 : -EAGAIN;
}

void fs_tokens_begin_again(struct fs_end *end, int left)
{
    uint64_t wanted = left < FS_MOST_TOKENS ? FS_TOKEN_WANTED : 0; /* else those that come wake */
    uint64_t kept = ~(uint64_t)(FS_TOKENS_ENDED | (wanted ? 0 : FS_BIT_WANTED));
    _Atomic uint64_t *word = &fs_words_in(end)->tokens;
    uint64_t seen = atomic_load(word);
    for (int i = 0; i < MOST_TRIES; i++)
        if (atomic_compare_exchange_weak(word, &seen, (seen | wanted) & kept)) break;
}

static int has_moved(const struct fs_connection *connection, struct fs_end *end, const struct fs_edge *edge)
{
    ssize_t used = fs_ring_used(&end->in);
    if (used < 0) return -EPROTO;
    if (atomic_load(&fs_words_in(end)->seq) != connection->record->rseq) return 1;
    return edge == NULL ? used > 0 : fs_edge_has_news(edge, connection->record, end);
}

/* Takes so many that were sent since X, and waits a moment for one that its sender has counted and not sent yet. */
static int take_counted(struct fs_connection *connection, struct fs_end *end, int descriptor, uint64_t counted,
                        uint64_t patience_ns)
{
    uint64_t deadline = 0;
    for (;;) {
        int left = on_their_way(connection, end, counted);
        if (left <= 0) return left;
        if (take(connection, end, descriptor, left) == 0 || patience_ns == 0) return 0;
        uint64_t now = fs_now_ns();
        if (deadline == 0) deadline = now + patience_ns;
        else if (now >= deadline) return 0;
        sched_yield();
    }
}

static int settle(struct fs_connection *connection, struct fs_end *end, int descriptor, uint64_t wishes,
                  uint64_t patience_ns, const struct fs_edge *edge)
{
    int moved = has_moved(connection, end, edge);
    if (moved != 0) return moved;
    uint64_t counted = count_of(atomic_load(&fs_words_in(end)->tokens));
    int error = arm(connection, end, descriptor, wishes);
    if (error != 0) return error;
    /* what came before the wish could be seen has no token of its own: the one that is there must speak for it */
    moved = has_moved(connection, end, edge);
    if (moved != 0 || (edge != NULL && fs_end_has_data(end))) return moved;
    error = take_counted(connection, end, descriptor, counted, patience_ns);
    return error < 0 ? error : has_moved(connection, end, edge);
}

int fs_tokens_settle(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    return settle(connection, end, descriptor, FS_TOKEN_WANTED, 0, NULL);
}

int fs_tokens_settle_behind(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    return settle(connection, end, descriptor, FS_TOKEN_WANTED, BEHIND_PATIENCE_NS, NULL);
}

/* Whoever sleeps until a token comes has said so before he asked for it: what is taken from him is asked for again. */
static uint64_t wishes_by_bit(const struct fs_record *record, const struct fs_end *end)
{
    int others = atomic_load(&record->listeners) != 0 || atomic_load(&record->uncounted) || fs_end_is_watched(end);
    return FS_BIT_WANTED | (others ? FS_TOKEN_WANTED : 0);
}

int fs_tokens_settle_poller(struct fs_connection *connection, struct fs_end *end, int descriptor, int by_bit,
                            const struct fs_edge *edge)
{
    uint64_t wishes = by_bit ? wishes_by_bit(connection->record, end) : FS_TOKEN_WANTED;
    return settle(connection, end, descriptor, wishes, 0, edge);
}

int fs_tokens_keep_one(struct fs_connection *connection, struct fs_end *end, int descriptor)
{
    return arm(connection, end, descriptor, FS_TOKEN_WANTED);
}
