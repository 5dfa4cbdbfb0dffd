#define _GNU_SOURCE
#include "leave.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "answering.h"
#include "attach.h"
#include "carry.h"
#include "detour.h"
#include "endings.h"
#include "descriptor.h"
#include "identity.h"
#include "options.h"
#include "sockets/registrations.h"
#include "switch.h"
#include "system.h"
#include "table.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull    /* what must not fail for a stopped process goes on then */
#define SEND_PATIENCE_NS 1000000000ull  /* for a thread of this process: what it sends would come after the end */
#define RESEND_PATIENCE_NS 20000000ull  /* for the other end's program to make a call */
#define ANSWER_PATIENCE_NS 500000000ull /* for a thread there */
#define NAP_NS 50000
#define GRANTED_PATIENCE_NS 2000000000ull

/* ---- an open offer is decided before anything ends ---- */

/* The other end has joined: attached then, but this end's direction never leaves TCP. */
static void be_attached(struct fs_record *record)
{
    atomic_store(&record->out_pinned, 1);
    atomic_store(&record->state, FS_ATTACHED);
}

/* With the sender's lock.  Nobody offers, joins or names a byte meanwhile. */
static void decide(struct fs_connection *connection, struct fs_record *record, int descriptor)
{
    struct fs_end *end = connection->end;
    uint32_t open = FS_JOIN_OPEN;
    switch (fs_record_state(record)) {
    case FS_CANDIDATE: atomic_store(&record->state, FS_TCP_ONLY); break;
    case FS_OFFERED:
        if (end == NULL) break;
        if (!atomic_compare_exchange_strong(&end->header->joined, &open, FS_JOIN_DECLINED)) {
            be_attached(record);
        } else {
            atomic_store(&record->state, FS_TCP_ONLY);
            fs_options_give_back(record, descriptor);
        }
        break;
    default: break;
    }
}

static void wake_other_end(struct fs_end *end)
{
    fs_switch_wake(end);
    if (atomic_exchange(&end->in.shared->writer_sleeps, 0) != 0) fs_futex_wake_all(&end->in.shared->writer_sleeps);
}

/* Our own threads look again, too. */
static void wake_everybody(struct fs_end *end)
{
    wake_other_end(end);
    atomic_fetch_add(&end->in.shared->notice, 1);
    fs_end_wake(end);
}

static struct fs_end *attached_end(const struct fs_connection *connection, const struct fs_record *record)
{
    struct fs_end *end = connection->end;
    return end != NULL && fs_record_state(record) == FS_ATTACHED ? end : NULL;
}

/* What is owed goes before the end; also what a killed process of this end has published without a word.  That needs no
 * token where a FIN follows, which wakes as well: an end that has shut both halves would answer a token by a reset. */
static void pay(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                int fin_follows)
{
    fs_switch_mend(record, end, descriptor);
    if ((atomic_load(&record->out_seq) & 1) == 0 || fs_tokens_pay(connection, descriptor) != 0) return;
    if (!fin_follows && fs_ring_unread(&end->out) > 0) fs_tokens_ring(connection, end, descriptor);
}

/* Another process of this end holds it, and may be silent.  This one has put bytes, and answers for them no more. */
static void leave_to_others(struct fs_connection *connection, const struct fs_record *record, struct fs_end *end,
                            int descriptor)
{
    if (atomic_load(&connection->answers_as) == fs_generation() && (atomic_load(&record->out_seq) & 1) != 0)
        fs_tokens_leave_one(connection, end, descriptor);
}

int fs_leave_shutdown(struct fs_connection *connection, int descriptor, int how)
{
    int valid = how == SHUT_RD || how == SHUT_WR || how == SHUT_RDWR;
    if (!valid || !fs_identity_check(descriptor) || !fs_connection_enter(connection, descriptor))
        return shutdown(descriptor, how) == 0 ? 0 : -errno;
    struct fs_record *record = connection->record;
    int locked = fs_lock(&record->sender, how == SHUT_RD ? LOCK_PATIENCE_NS : SEND_PATIENCE_NS) == 0;
    decide(connection, record, descriptor);
    struct fs_end *end = attached_end(connection, record);
    if (how != SHUT_WR) atomic_store(&record->read_shut, 1);
    if (how != SHUT_RD && end != NULL) {
        if (locked) pay(connection, record, end, descriptor, 1);
        atomic_store(&end->out.shared->producer_shut, FS_SHUT);
    }
    int error = shutdown(descriptor, how) == 0 ? 0 : -errno;
    if (locked) fs_unlock(&record->sender);
    if (end != NULL) wake_everybody(end);
    fs_connection_exit(connection);
    return error;
}

/* ---- close ---- */

/* SO_LINGER's seconds: 0: a close resets; negative: none are set. */
static int linger_of(int descriptor)
{
    struct linger linger = {0, 0};
    socklen_t size = sizeof linger;
    int error = getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, &size);
    return error == 0 && linger.l_onoff ? linger.l_linger : -1;
}

/* The kernel knows nothing of unread bytes in a ring. */
static void close_by_reset(int descriptor)
{
    struct linger now = {1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

/* A token that is left behind, or comes after the close, makes the kernel reset the connection. */
static void leave_no_token(struct fs_connection *connection, struct fs_record *record, struct fs_end *end,
                           int descriptor, int is_last)
{
    if ((atomic_load(&record->rseq) & 1) == 0 || fs_ring_unread(&end->in) != 0) return;
    if (atomic_load(&fs_words_in(end)->seq) == atomic_load(&record->rseq) && !is_last)
        fs_tokens_settle(connection, end, descriptor);
    else if (is_last) fs_tokens_end(connection, end, descriptor);
}

/* With the reader's lock, if it could be had. */
static void say_farewell(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                         int locked, int is_last)
{
    int reset = is_last && linger_of(descriptor) == 0;
    if (locked && !reset) leave_no_token(connection, record, end, descriptor, is_last);
    if (is_last && !reset && fs_ring_unread(&end->in) != 0) {
        close_by_reset(descriptor);
        reset = 1;
    }
    if (reset) atomic_store(&end->header->reset[end->side], FS_BY_RESET);
    if (is_last) atomic_fetch_or(&end->header->left, fs_side_mark(end->side));
}

/* What the other end must know before the kernel's close().  The sender's lock first, then the reader's: as attach.c. */
static void leave(struct fs_connection *connection, int descriptor, int is_last)
{
    struct fs_record *record = connection->record;
    int sends = fs_lock(&record->sender, is_last ? SEND_PATIENCE_NS : LOCK_PATIENCE_NS) == 0;
    if (is_last) decide(connection, record, descriptor);
    int reads = fs_lock(&record->receiver, LOCK_PATIENCE_NS) == 0;
    struct fs_end *end = attached_end(connection, record);
    if (end != NULL) {
        if (sends) pay(connection, record, end, descriptor, is_last);
        if (sends && !is_last) leave_to_others(connection, record, end, descriptor);
        if (reads) fs_switch_mend_reader(record, descriptor);
        say_farewell(connection, record, end, descriptor, reads, is_last);
        wake_other_end(end);
    }
    if (reads) fs_unlock(&record->receiver);
    if (sends) fs_unlock(&record->sender);
}

/* `descriptor`: what the socket has by now. */
static void leave_by(struct fs_connection *connection, int descriptor)
{
    int known = attached_end(connection, connection->record) == NULL || fs_identity_holds(connection, descriptor);
    if (known && connection->end != NULL) leave(connection, descriptor, connection->is_last);
    fs_table_forget(connection);
}

void fs_leave_descriptor(int descriptor)
{
    struct fs_connection *connection = fs_table_remove(descriptor);
    if (connection != NULL) leave_by(connection, descriptor);
}

/* The socket goes to an owned descriptor, and a file on which every call fails by EBADF takes its place.  With the
 * process held, as when owned descriptors are closed: a close that waits stays the caller's. */
static void bury(int descriptor, struct fs_descriptor *owned)
{
    const struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || connection->end == NULL || !fs_identity_holds(connection, descriptor) ||
        linger_of(descriptor) > 0)
        return;
    int number = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int dead = number < 0 ? -1 : open("/", O_PATH | O_CLOEXEC);
    int is_buried = dead >= 0 && dup3(dead, descriptor, O_CLOEXEC) == descriptor;
    if (dead >= 0) close(dead);
    if (is_buried) fs_descriptor_keep(owned, number); /* a child that is forked meanwhile closes it */
    else if (number >= 0) close(number);              /* there are no numbers left */
}

/* Who works by the number is done before it means the dead file. */
static int lock_out(fs_lock_word *word)
{
    fs_await_owner(word, SEND_PATIENCE_NS);
    return fs_lock(word, LOCK_PATIENCE_NS) == 0;
}

void fs_leave_number(int descriptor)
{
    struct fs_descriptor socket = FS_DESCRIPTOR_NONE;
    struct fs_connection *entered = fs_table_find(descriptor);
    if (entered == NULL) return;
    if (entered->end == NULL || !fs_connection_enter(entered, descriptor)) entered = NULL;
    struct fs_record *record = entered != NULL ? entered->record : NULL;
    int sends = record != NULL && lock_out(&record->sender), reads = record != NULL && lock_out(&record->receiver);
    fs_hold_process(); /* no fork comes in between */
    bury(descriptor, &socket);
    struct fs_connection *connection = fs_table_remove(descriptor);
    fs_release_process();
    if (reads) fs_unlock(&record->receiver);
    if (sends) fs_unlock(&record->sender);
    if (entered != NULL) fs_connection_exit(entered);
    if (connection != NULL) leave_by(connection, socket.number >= 0 ? socket.number : descriptor);
    fs_descriptor_close(&socket);
}

void fs_leave_range(unsigned first, unsigned last)
{
    if (first > INT32_MAX) return;
    for (int i = (int)first; (i = fs_table_next(i)) >= 0 && (unsigned)i <= last; i++) fs_leave_descriptor(i);
}

void fs_leave_all(void) { fs_leave_range(0, INT32_MAX); }

/* A program that ends without closing leaves no token behind. */
__attribute__((destructor)) static void at_the_end(void)
{
    fs_answering_rest();
    fs_leave_all();
}

/* ---- the way out ---- */

static int64_t left_of(uint64_t deadline) { return (int64_t)(deadline - fs_now_ns()); }

static void nap(void)
{
    const struct timespec time = {0, NAP_NS};
    nanosleep(&time, NULL);
}

/* Tokens that lie behind payload on TCP cannot be taken. */
static int end_tokens(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    uint32_t carried_out = atomic_load(&record->rseq), seq = atomic_load(&fs_words_in(end)->seq);
    if ((carried_out & 1) != 0) return fs_tokens_end(connection, end, descriptor);
    if (seq == carried_out) return 0;
    _Atomic uint64_t *word = &fs_words_in(end)->tokens;
    atomic_fetch_or(word, FS_TOKENS_ENDED);
    return atomic_load(word) >> FS_TOKEN_SHIFT == 0 ? 0 : -EAGAIN;
}

/* Nothing is unread, and by the head's own word nothing more can be published. */
static int release_empty(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    if (!fs_ring_ask_raw(&end->in)) return -EAGAIN;
    if (end_tokens(connection, record, end, descriptor) == 0) return 0;
    /* first: what is published next must wake */
    int in_ring = (atomic_load(&record->rseq) & 1) != 0;
    uint64_t counted = atomic_load(&fs_words_in(end)->tokens) >> FS_TOKEN_SHIFT;
    fs_tokens_begin_again(end, in_ring ? fs_tokens_on_their_way(connection, end) : (int)counted);
    return fs_ring_take_back_raw(&end->in) ? -EAGAIN : end_tokens(connection, record, end, descriptor);
}

/* Behind its own end nothing can be sent again. */
static int may_send_again(const struct fs_end *end, int descriptor)
{
    struct pollfd one = {descriptor, POLLRDHUP, 0};
    return !atomic_load(&end->in.shared->producer_shut) && poll(&one, 1, 0) == 0;
}

/* The other end sends the unread bytes again over TCP, if it answers in time. */
static int release_unread(struct fs_connection *connection, struct fs_record *record, struct fs_end *end,
                          int descriptor)
{
    struct fs_switch_words *words = fs_words_in(end);
    uint32_t none = FS_RELEASE_NONE, asked = FS_RELEASE_ASKED;
    if (atomic_load(&words->seq) != atomic_load(&record->rseq) || !may_send_again(end, descriptor)) return -EAGAIN;
    if (!atomic_compare_exchange_strong(&words->release, &none, FS_RELEASE_ASKED)) return -EAGAIN;
    uint64_t deadline = fs_now_ns() + (fs_answering_wake(end) > 0 ? ANSWER_PATIENCE_NS : RESEND_PATIENCE_NS);
    while (atomic_load(&words->release) == FS_RELEASE_ASKED && left_of(deadline) > 0) nap();
    if (atomic_compare_exchange_strong(&words->release, &asked, FS_RELEASE_REFUSED) || asked != FS_RELEASE_GRANTED) {
        atomic_store(&words->release, FS_RELEASE_NONE);
        return -EAGAIN;
    }
    deadline = fs_now_ns() + GRANTED_PATIENCE_NS; /* from the ring nothing may be read any more */
    while (atomic_load(&words->seq) == atomic_load(&record->rseq) && left_of(deadline) > 0) nap();
    if (atomic_load(&words->seq) == atomic_load(&record->rseq)) { /* it died in the middle of it */
        shutdown(descriptor, SHUT_RDWR);
        return -EPROTO;
    }
    return fs_tokens_end(connection, end, descriptor);
}

/* Where nothing is unread. */
static int release_in_place(struct fs_connection *connection, struct fs_record *record, struct fs_end *end,
                            int descriptor)
{
    fs_switch_catch_up(connection, end, descriptor);
    if ((atomic_load(&record->rseq) & 1) != 0 && atomic_load(&fs_words_in(end)->seq) != atomic_load(&record->rseq))
        return -EAGAIN;
    return fs_ring_unread(&end->in) == 0 ? release_empty(connection, record, end, descriptor) : -EAGAIN;
}

/* What comes in.  With the reader's lock. */
static int release_in(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    if (fs_traffic_inside(atomic_load(&record->received)) != 0) return -EAGAIN;
    if (release_in_place(connection, record, end, descriptor) == 0) return 0;
    return fs_ring_unread(&end->in) == 0 ? -EAGAIN : release_unread(connection, record, end, descriptor);
}

/* A reader at the other end that is in recv() since before the attach comes out by a token.  Where nobody is there any
 * more, nothing waits for the byte at which it goes over. */
static int leave_ring(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    uint64_t deadline = fs_now_ns() + ANSWER_PATIENCE_NS;
    if (atomic_load(&record->out_ring))
        fs_tokens_leave_one(connection, end, descriptor); /* nothing may follow on TCP */
    for (int rung = 0; atomic_load(&record->out_ring) && !fs_switch_to_tcp(connection, end, descriptor); rung = 1) {
        struct pollfd one = {descriptor, 0, 0};
        if (!rung) fs_tokens_ring(connection, end, descriptor);
        if (poll(&one, 1, 0) > 0) atomic_store(&record->out_ring, 0);
        else if (left_of(deadline) <= 0) return -EAGAIN;
        else nap();
    }
    return 0;
}

/* Whoever cannot be released in place: reads what there is, until nothing is left and nothing more can be published. */
static int read_all(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                    struct fs_detour *detour, size_t *length, int *reset)
{
    for (uint64_t deadline = fs_now_ns() + GRANTED_PATIENCE_NS; left_of(deadline) > 0 && *length < detour->room;) {
        ssize_t got = fs_carry_take(connection, descriptor, detour->bytes + *length, detour->room - *length);
        if (got > 0) *length += (size_t)got;
        if (got > 0) continue;
        if (got < 0 && got != -EAGAIN) *reset = 1;
        if (*reset || release_in_place(connection, record, end, descriptor) == 0) return 0;
    }
    return -EAGAIN;
}

/* The numbers of the connection mean the detour from now on, as do threads that are within calls when they look again. */
static void lead_over(struct fs_connection *connection, const struct fs_detour *detour)
{
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        if (fs_table_find(i) != connection) continue;
        int flags = fcntl(i, F_GETFD), error;
        do error = fs_replace_watched(detour->outer, i, flags > 0 && flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        while (error == -EINTR || error == -EBUSY);
    }
}

/* What the other end's reset is to foreign code: `told`: what comes next, for nothing is unread and the kernel tells it no
 * more; `by_a_token`: none. */
static int go_round(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor,
                    int reported, int by_a_token)
{
    struct fs_detour detour;
    size_t length = 0;
    int reset = reported, error = fs_traffic_inside(atomic_load(&record->received)) != 0 ? -EAGAIN : 0;
    if (error == 0) error = fs_detour_prepare(&detour, descriptor);
    if (error != 0) return error;
    if (!reported) error = read_all(connection, record, end, descriptor, &detour, &length, &reset);
    if (error == 0) error = fs_detour_begin(&detour, length, reset && !by_a_token);
    if (error == 0) {
        fs_options_give_back(record, descriptor);
        lead_over(connection, &detour);
        fs_identity_forget(connection);
    } else if (length > 0) { /* they would be lost without a word */
        shutdown(descriptor, SHUT_RDWR);
    }
    fs_detour_close(&detour);
    return error;
}

/* Threads that sleep on the connection's own file hear of nothing any more there. */
static void wake_sleepers(struct fs_connection *connection)
{
    fs_wake_leaving();
    for (uint64_t deadline = fs_now_ns() + LOCK_PATIENCE_NS; atomic_load(&connection->users) > 1;) {
        if (left_of(deadline) <= 0) break;
        nap();
    }
    fs_wake_leaving_done();
}

/* With both locks.  0; 1: by way of a process that copies; or -errno. */
static int release(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    fs_switch_mend(record, end, descriptor);
    fs_switch_mend_reader(record, descriptor);
    const int by_a_token = fs_ending_is_of_a_token(record, end); /* asked before this end's direction leaves the ring */
    int result = leave_ring(connection, record, end, descriptor);
    if (result == 0)
        result = !by_a_token && fs_ending_owes_reset(record, end, descriptor)
                     ? -EAGAIN
                     : release_in(connection, record, end, descriptor);
    /* what the kernel has told while tokens were taken, it does not tell again */
    const int reported = result == 0 && !by_a_token && atomic_load(&record->pending_error) != 0;
    if (reported || (result == -EAGAIN && !atomic_load(&record->out_ring))) {
        int error = go_round(connection, record, end, descriptor, reported, by_a_token);
        if (!reported || error == 0) result = error == 0 ? 1 : error; /* else an end is told in place of the reset */
    }
    if (result == 0) fs_options_give_back(record, descriptor);
    return result;
}

int fs_leave_release(struct fs_connection *connection, int descriptor)
{
    if (!fs_identity_check(descriptor)) return 0;
    if (!fs_connection_enter(connection, descriptor)) return -EBADF;
    struct fs_record *record = connection->record;
    int sends = fs_lock(&record->sender, LOCK_PATIENCE_NS) == 0,
        reads = sends && fs_lock(&record->receiver, LOCK_PATIENCE_NS) == 0, result = reads ? 0 : -EAGAIN;
    if (result == 0) {
        decide(connection, record, descriptor);
        struct fs_end *end = attached_end(connection, record);
        if (end != NULL) result = release(connection, record, end, descriptor);
        if (result >= 0 && end != NULL) {
            atomic_store(&record->out_pinned, 1);
            atomic_store(&record->state, FS_RELEASED);
        }
    }
    if (reads) fs_unlock(&record->receiver);
    if (sends) fs_unlock(&record->sender);
    if (result == 1) wake_sleepers(connection);
    fs_connection_exit(connection);
    return result < 0 ? result : 0;
}
