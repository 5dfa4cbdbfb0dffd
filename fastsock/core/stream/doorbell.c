/* Readiness for pollers that know nothing of fastsock.
 *
 * Every byte on the doorbell is a token, but for a farewell and for what foreign code wrote there.  The doorbell holds
 * at least one exactly while the ring has data, once the consumer's descriptor is watched; before that one may stay
 * resident, so that an exchange costs no system call.
 * A full ring is shown by stuffing: one large token fills the small send buffer until the consumer has drained half.
 *
 * `bell` packs the number of token bytes ever sent with the state, so that a consumer who silences the bell knows
 * exactly how many tokens it must take off.  A token counts from before it is sent, so that a producer killed while
 * it rings leaves none uncounted.  A consumer who finds nothing while a token is under way says that it does not wait
 * for it (ABANDONED): that token may be the wake-up it just followed, so the next arrival must send another.  A
 * consumer who takes over the doorbell for payload ends the tokens first (ENDED): none comes behind those counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "end.h"
#include "looking.h"
#include "system.h"

#define SEND_BUFFER 65536             /* the kernel doubles it: 128 KiB, writable while a quarter of it is taken */
#define STUFFING 36864                /* one token of this size makes the descriptor refuse writes */
#define EDGES 32                      /* unread tokens up to which each arrival gets one of its own */
#define MOUTHFUL 2048                 /* taken off at once: threads may have small stacks */
#define MOST_PEEKED (2 * SEND_BUFFER) /* more tokens are never unread */
#define MOST_CALLS (2 * SEND_BUFFER / MOUTHFUL + EDGES)
#define MOST_TRIES 64 /* against another process that changes a word all the time */
#define RINGING_PATIENCE_US 20.0
#define ENDING_PATIENCE_NS 20000000ull

static const char tokens[STUFFING];

static uint64_t word_of(uint64_t count, uint64_t state) { return count << FS_BELL_SHIFT | state; }

int fs_doorbell_prepare(int doorbell)
{
    int size = SEND_BUFFER;
    return setsockopt(doorbell, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0 ? 0 : -errno;
}

int fs_doorbell_plain(int doorbell)
{
    int size = 1 << 20;
    return setsockopt(doorbell, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0 ? 0 : -errno;
}

/* Nothing unread: a token sent now would show data that is not there.  Asked while the bell says RINGING: who reads the
 * rest after that finds the bell moving, and takes the token off. */
static int is_drained(const struct fs_direction *out) { return atomic_load(&out->tail) == fs_published(out); }

/* Sends `length` token bytes; the caller holds the sender's lock, so nobody else is ringing.  0: abandoned. */
static int send_token(struct fs_end *end, int doorbell, size_t length, int even_if_drained)
{
    struct fs_direction *out = end->out.shared;
    uint64_t word = atomic_load(&out->bell), ringing = 0;
    if (fs_end_other_left(end)) return 0;
    for (int i = 0; i < MOST_TRIES; i++) {
        if ((word & FS_BELL_STATE) == FS_BELL_ENDED) return 1; /* the consumer knows what is there */
        ringing = word_of((word >> FS_BELL_SHIFT) + length, FS_BELL_RINGING);
        if (atomic_compare_exchange_weak(&out->bell, &word, ringing)) break;
    }
    if (!even_if_drained && is_drained(out)) {
        if (!atomic_compare_exchange_strong(&out->bell, &ringing, word))
            atomic_store(&out->bell, word_of(word >> FS_BELL_SHIFT, FS_BELL_SILENT));
        return 1;
    }
    ssize_t sent = send(doorbell, tokens, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* a refusal for want of room leaves the unread tokens that caused it; one for hang-up is seen by whoever looks */
    uint64_t count = (word >> FS_BELL_SHIFT) + (sent > 0 ? (uint64_t)sent : 0);
    if (atomic_compare_exchange_strong(&out->bell, &ringing, word_of(count, FS_BELL_RUNG))) return 1;
    atomic_store(&out->bell, word_of(count, FS_BELL_SILENT));
    return 0;
}

int fs_doorbell_is_rung(const struct fs_end *end)
{
    return (atomic_load(&end->out.shared->bell) & FS_BELL_STATE) == FS_BELL_RUNG;
}

void fs_doorbell_ring(struct fs_end *end, int doorbell, int knock)
{
    struct fs_direction *out = end->out.shared;
    uint64_t word = atomic_load(&out->bell);
    if ((word & FS_BELL_STATE) == FS_BELL_RUNG) {
        if (atomic_load_explicit(&out->watched, memory_order_relaxed) != FS_WATCHED_EXACTLY) return;
        if ((word >> FS_BELL_SHIFT) - atomic_load_explicit(&out->eaten, memory_order_relaxed) >= EDGES) return;
    }
    send_token(end, doorbell, 1, knock);
    fs_count_wake(end);
}

void fs_doorbell_stuff(struct fs_end *end, int doorbell)
{
    struct fs_direction *out = end->out.shared;
    struct pollfd room = {doorbell, POLLOUT, 0};
    if (fs_end_other_left(end)) return; /* nobody would take it off */
    atomic_store(&out->stuffed, 1);
    if (poll(&room, 1, 0) == 0) return;
    if (fs_ring_space(&end->out, 1) != 0) { /* the consumer read meanwhile, perhaps without seeing the mark */
        atomic_store(&out->stuffed, 0);
        return;
    }
    send_token(end, doorbell, STUFFING, 1);
    /* one more behind it stays when the stuffing is taken off, and wakes a consumer who left before that arrived */
    for (int i = 0; i < EDGES && !send_token(end, doorbell, 1, 1); i++) {}
    atomic_store(&out->stuffed, 1); /* the consumer may have cleared it too early */
}

static int is_under_way(uint64_t word)
{
    return (word & FS_BELL_STATE) == FS_BELL_RINGING || (word & FS_BELL_STATE) == FS_BELL_ABANDONED;
}

/* The bell's word once no token is under way; a producer that was stopped while ringing is not waited for long, and
 * not at all where its token woke us on its own core: it cannot run before we sleep. */
static uint64_t quiet_word(const struct fs_end *end)
{
    const struct fs_direction *in = end->in.shared;
    uint64_t word = atomic_load(&in->bell);
    if (!is_under_way(word) || !fs_end_is_elsewhere(end)) return word;
    uint64_t start = fs_ticks(), limit = fs_look_credit(start, (uint64_t)(RINGING_PATIENCE_US * fs_ticks_per_us()));
    if (limit == 0) return word;
    while (is_under_way(word) && fs_ticks() - start < limit) {
        fs_pause();
        word = atomic_load(&in->bell);
    }
    fs_look_ended(start, !is_under_way(word));
    return word;
}

/* Takes tokens off until `count` of all that were ever sent are gone; `word` is the bell's when that was decided. */
static void eat(struct fs_direction *in, int doorbell, uint64_t word, uint64_t count)
{
    char drop[MOUTHFUL];
    uint64_t eaten = atomic_load_explicit(&in->eaten, memory_order_relaxed);
    for (int calls = 0; eaten < count && calls < MOST_CALLS; calls++) { /* `count` may be a lie */
        uint64_t want = count - eaten;
        ssize_t got = recv(doorbell, drop, want < sizeof drop ? (size_t)want : sizeof drop, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN && !is_under_way(word))
            eaten = count; /* another process at this end died before it counted */
        if (got <= 0) break;
        eaten += (uint64_t)got;
    }
    atomic_store_explicit(&in->eaten, eaten, memory_order_relaxed);
}

int fs_doorbell_settle(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    for (int i = 0; i < MOST_TRIES; i++) {
        if (fs_ring_used(&end->in) != 0) return 0;
        uint64_t word = quiet_word(end), silent = word_of(word >> FS_BELL_SHIFT, FS_BELL_SILENT);
        if ((word & FS_BELL_STATE) == FS_BELL_ENDED) return 0;
        if ((word & FS_BELL_STATE) == FS_BELL_SILENT) {
            eat(in, doorbell, word, word >> FS_BELL_SHIFT);
            return fs_ring_used(&end->in) == 0;
        }
        if (is_under_way(word)) {
            uint64_t abandoned = word_of(word >> FS_BELL_SHIFT, FS_BELL_ABANDONED);
            if (!atomic_compare_exchange_strong(&in->bell, &word, abandoned)) continue;
            if (fs_ring_used(&end->in) == 0) eat(in, doorbell, word, word >> FS_BELL_SHIFT);
            return fs_ring_used(&end->in) == 0;
        }
        if (!atomic_compare_exchange_strong(&in->bell, &word, silent)) continue;
        if (fs_ring_used(&end->in) == 0) {
            eat(in, doorbell, word, word >> FS_BELL_SHIFT);
            return fs_ring_used(&end->in) == 0;
        }
        /* published before it could see the silence: the token that is there must speak for it */
        uint64_t expected = silent;
        atomic_compare_exchange_strong(&in->bell, &expected, word);
        /* a consumer that is always met by the next arrival must not let them fill the send buffer */
        if ((word >> FS_BELL_SHIFT) - atomic_load_explicit(&in->eaten, memory_order_relaxed) > EDGES)
            eat(in, doorbell, word, (word >> FS_BELL_SHIFT) - 1);
        return 0;
    }
    return 0;
}

void fs_doorbell_unstuff(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    uint64_t word = quiet_word(end), count = word >> FS_BELL_SHIFT,
             eaten = atomic_load_explicit(&in->eaten, memory_order_relaxed);
    int there = 0;
    /* fewer than counted: another process at this end died before it counted what it took */
    if (!is_under_way(word) && ioctl(doorbell, FIONREAD, &there) == 0 && (uint64_t)there < count - eaten)
        atomic_store_explicit(&in->eaten, count - (uint64_t)there, memory_order_relaxed);
    if (count > 0) eat(in, doorbell, word, count - 1); /* one stays for what is still unread */
    atomic_store(&in->stuffed, 0);
}

int fs_doorbell_end(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    uint64_t word = atomic_load(&in->bell), limit = fs_now_ns() + ENDING_PATIENCE_NS;
    while ((word & FS_BELL_STATE) != FS_BELL_ENDED) {
        if (!is_under_way(word)) {
            uint64_t ended = word_of(word >> FS_BELL_SHIFT, FS_BELL_ENDED);
            if (atomic_compare_exchange_weak(&in->bell, &word, ended)) break;
            continue;
        }
        if (fs_now_ns() > limit) return -EAGAIN;
        sched_yield();
        word = atomic_load(&in->bell);
    }
    return fs_doorbell_eat_all(end, doorbell);
}

void fs_doorbell_begin_again(struct fs_end *end)
{
    _Atomic uint64_t *bell = &end->in.shared->bell;
    uint64_t word = atomic_load(bell);
    if ((word & FS_BELL_STATE) == FS_BELL_ENDED)
        atomic_compare_exchange_strong(bell, &word, word_of(word >> FS_BELL_SHIFT, FS_BELL_SILENT));
}

/* Only a farewell carries one.  It is told of, not taken: nothing is there to take it with. */
static int carries_descriptor(int doorbell, size_t bytes)
{
    char scrap[MOUTHFUL];
    struct iovec parts[MOST_PEEKED / MOUTHFUL]; /* all into the same place */
    struct msghdr message = {.msg_iov = parts};
    for (size_t rest = bytes, part; rest > 0 && message.msg_iovlen < MOST_PEEKED / MOUTHFUL; rest -= part) {
        part = rest < MOUTHFUL ? rest : MOUTHFUL;
        parts[message.msg_iovlen++] = (struct iovec){scrap, part};
    }
    return recvmsg(doorbell, &message, MSG_PEEK | MSG_DONTWAIT) > 0 && (message.msg_flags & MSG_CTRUNC) != 0;
}

/* Of the bytes that no token accounts for, the farewell's.  One that is under way may have been sent or not, and whoever
 * is killed meanwhile never says: then the bytes tell.  They come all at once, behind all others. */
static size_t farewell_in(const struct fs_end *end, int doorbell, size_t tokens_there, size_t others)
{
    uint32_t farewell = atomic_load(&end->in.shared->farewell);
    if (farewell == FS_FAREWELL_NONE) return 0;
    if (farewell == FS_FAREWELL_UNDER_WAY && others < FS_FAREWELL_BYTES) return 0;
    if (farewell == FS_FAREWELL_UNDER_WAY && others == FS_FAREWELL_BYTES)
        return carries_descriptor(doorbell, tokens_there + others) ? FS_FAREWELL_BYTES : 0;
    return FS_FAREWELL_BYTES;
}

ssize_t fs_doorbell_foreign(const struct fs_end *end, int doorbell)
{
    const struct fs_direction *in = end->in.shared;
    for (int i = 0; i < MOST_TRIES; i++) {
        int there = 0, again = 0;
        if (ioctl(doorbell, FIONREAD, &there) != 0 || there <= 0) return 0;
        /* asked behind that look: whatever is announced was announced before it was sent */
        uint64_t announced = (atomic_load(&in->bell) >> FS_BELL_SHIFT) - atomic_load(&in->eaten);
        if ((uint64_t)there <= announced) return 0;
        size_t others = (size_t)there - (size_t)announced,
               farewell = farewell_in(end, doorbell, (size_t)announced, others);
        if (ioctl(doorbell, FIONREAD, &again) != 0 || again != there)
            continue; /* it came between: `others` is without it */
        return others > farewell ? (ssize_t)(others - farewell) : 0;
    }
    return -EAGAIN;
}

int fs_doorbell_eat_all(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    uint64_t word = quiet_word(end);
    eat(in, doorbell, word, word >> FS_BELL_SHIFT);
    return atomic_load_explicit(&in->eaten, memory_order_relaxed) >= word >> FS_BELL_SHIFT ? 0 : -EAGAIN;
}

/* ---- as signals ---- */

static void published(struct fs_end *end, int doorbell, int edge)
{
    if (edge || !fs_doorbell_is_rung(end)) fs_doorbell_ring(end, doorbell, 0);
}

static void room(struct fs_end *end, int doorbell)
{
    if (atomic_load(&end->in.shared->stuffed) != 0) fs_doorbell_unstuff(end, doorbell);
}

static void taken(struct fs_end *end, int doorbell)
{
    if (fs_end_is_watched(end) && !end->lazy && fs_ring_used(&end->in) == 0) fs_doorbell_settle(end, doorbell);
}

const struct fs_signals fs_doorbell_signals = {published, room, taken};
