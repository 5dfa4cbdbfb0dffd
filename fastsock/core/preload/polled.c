#define _GNU_SOURCE
#include "polled.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "borrowed.h"
#include "next.h"
#include "process.h"
#include "switch/carry.h"
#include "switch/descriptor.h"
#include "switch/polling.h"
#include "switch/refusals.h"
#include "switch/switch.h"
#include "switch/table.h"
#include "switch/waiting.h"
#include "system.h"

#define READABLE FS_POLLED_READABLE
#define MOST_BUSY 64
#define BUSY_NS 1000000ull     /* another thread is at work there: then we look again */
#define KERNEL_EVERY_US 1000.0 /* while rings alone have something, and nothing else was asked for */
#define LOOP_PAYS 16           /* times that the kernel has told: a loop costs as much as many wake-ups */
#define SEATS_EVERY 16         /* waits: what has no bit yet may get one */
#define SEVERAL 2              /* connections for which a thread needs no token of each */
#define MOST_LOOPS 64          /* of threads of this process; each has four descriptors */
#define NUMBERS_A_LOOP 64      /* that the program may have (RLIMIT_NOFILE) */
#define RING_EVENTS \
    (READABLE | POLLRDBAND | POLLPRI | POLLRDHUP) /* of them a ring's bytes are the first to be heard of */

static struct fs_poller common = {.spin = {.success = 1.0f}}; /* what all have learned of waiting a moment */

/* ---- what a thread has ---- */

struct own {
    struct fs_poller poller;
    int busy;       /* a signal handler that polls meanwhile hears by tokens */
    int reported;   /* by the kernel, of one with memory among several, while there is no loop */
    uint64_t asked; /* the kernel, by the clock of ticks */
    uint32_t process;
};

static _Atomic int loops;
static _Thread_local struct own *own;
static pthread_key_t ending;
static pthread_once_t prepared = PTHREAD_ONCE_INIT;
static int cannot_end;

static int has_loop(const struct own *mine) { return mine != NULL && mine->poller.seats.loop != NULL; }

static void end(void *given)
{
    struct own *mine = given;
    own = NULL;
    if (has_loop(mine)) atomic_fetch_sub(&loops, 1);
    fs_seats_end(&mine->poller.seats);
    free(mine);
}

static void prepare(void) { cannot_end = pthread_key_create(&ending, end) != 0; }

/* NULL: without it tokens do. */
static struct own *make(void)
{
    if (fs_is_within > 0 || pthread_once(&prepared, prepare) != 0 || cannot_end) return NULL;
    fs_is_within++;
    struct own *made = calloc(1, sizeof *made);
    if (made != NULL && pthread_setspecific(ending, made) != 0) {
        free(made);
        made = NULL;
    }
    if (made != NULL) {
        made->poller = FS_POLLER_NEW;
        made->process = fs_generation();
    }
    fs_is_within--;
    return own = made;
}

/* A forked child has no loop of its parent's. */
static void begin_anew(struct own *mine)
{
    fs_seats_end(&mine->poller.seats);
    mine->reported = 0;
    mine->process = fs_generation();
    atomic_store(&loops, 0); /* it has this one thread, and forks are made by one */
}

static struct own *take_own(void)
{
    if (own == NULL || own->busy || fs_is_within > 0 || fs_is_borrowed()) return NULL;
    own->busy = 1;
    if (own->process != fs_generation()) begin_anew(own);
    return own;
}

static int may_make_loop(const struct own *mine)
{
    return !has_loop(mine) && !mine->poller.seats.never && mine->reported >= LOOP_PAYS;
}

static int most_loops(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / NUMBERS_A_LOOP >= MOST_LOOPS) return MOST_LOOPS;
    return (int)(limit.rlim_cur / NUMBERS_A_LOOP);
}

static void make_loop(struct own *mine)
{
    mine->reported = 0;
    fs_seats_moved(&mine->poller.seats); /* they are this process's */
    if (atomic_fetch_add(&loops, 1) >= most_loops() || fs_seats_make_loop(&mine->poller.seats) < 0)
        atomic_fetch_sub(&loops, 1);
}

static void show(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection != NULL) fs_carry_show(connection, descriptor);
}

/* All hear by tokens from now on. */
static void drop_loop(struct own *mine)
{
    struct fs_seats *seats = &mine->poller.seats;
    fs_seats_drop_loop(seats);
    for (int i = 0; (i = fs_seats_next(seats, i)) >= 0; i++) show(i);
    fs_seats_end(seats);
    seats->never = 1;
    atomic_fetch_sub(&loops, 1);
}

void fs_polled_give_back(void)
{
    if (has_loop(own) && !own->busy && own->process == fs_generation()) drop_loop(own);
}

/* ---- one wait ---- */

struct wait {
    struct pollfd *list;
    nfds_t count;
    const sigset_t *mask;
    uint64_t until; /* 0: it does not wait; UINT64_MAX: without an end */
    struct own *own;
    struct fs_poller *poller;
    int lost_loop;
    struct fs_polled counted[FS_POLLED_MOST]; /* as listeners, while it sleeps */
    int counted_count;
    struct pollfd few[FS_POLLED_FEW + 1], *with_bell; /* the list, and the loop's bell behind it; NULL: not made yet */
    int ready[FS_POLLED_MOST];
};

static int waits(const struct wait *wait) { return wait->until != 0; }

static uint64_t left_of(const struct wait *wait)
{
    if (wait->until == 0 || wait->until == UINT64_MAX) return wait->until;
    uint64_t now = fs_now_ns();
    return wait->until > now ? wait->until - now : 0;
}

int fs_polled_has_memory(int descriptor)
{
    const struct fs_connection *connection = fs_table_find(descriptor);
    return connection != NULL && fs_carry_is_attached(connection);
}

static int is_watched(const struct pollfd *one) { return one->fd >= 0 && one->events & READABLE; }
static int has_memory(const struct pollfd *one) { return is_watched(one) && fs_polled_has_memory(one->fd); }

/* Where it stands aside the pollers are Python's. */
int fs_polled_is_due(void)
{
    return fs_polling_is_due() && !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed);
}

int fs_polled_concerns(const struct pollfd *list, nfds_t count)
{
    if (!fs_polled_is_due()) return 0;
    for (nfds_t i = 0; i < count; i++)
        if (has_memory(&list[i])) return 1;
    return 0;
}

/* ---- those whose rings have something ---- */

static int mark(struct wait *wait, int found)
{
    int marked = 0;
    for (nfds_t i = 0; i < wait->count; i++) {
        struct pollfd *one = &wait->list[i];
        if (!is_watched(one)) continue;
        for (int j = 0; j < found; j++)
            if (one->fd == wait->ready[j]) {
                if (one->revents == 0) marked++;
                one->revents |= (short)(one->events & READABLE);
                break;
            }
    }
    return marked;
}

/* One that cannot have a bit, because another loop has it, is told by tokens. */
static void seat(struct wait *wait, int number)
{
    fs_seats_take(&wait->poller->seats, number, FS_HEARS_ANY);
    if (!fs_seats_has_bit(&wait->poller->seats, number)) fs_seats_leave(&wait->poller->seats, number);
}

/* Another thread may have closed the number of a seat since. */
static void note_all(struct wait *wait)
{
    struct fs_seats *seats = &wait->poller->seats;
    int seats_all = has_loop(wait->own) && wait->poller->turn++ % SEATS_EVERY == 0;
    for (nfds_t i = 0; i < wait->count; i++) {
        if (!is_watched(&wait->list[i])) continue;
        int number = wait->list[i].fd;
        if (fs_seats_has(seats, number) && fs_seats_flags(seats, number) == 0) fs_seats_leave(seats, number);
        if (seats_all && !fs_seats_has(seats, number) && fs_polled_has_memory(number)) seat(wait, number);
        if (!fs_poller_note(wait->poller, number)) show(number);
    }
}

/* Before a token is asked for: a loop that has the bit of one asks for a token, too. */
static void count_as_listener(struct wait *wait)
{
    for (int i = 0; i < wait->poller->count; i++) {
        const struct fs_polled *one = &wait->poller->among[i];
        if (fs_seats_has_bit(&wait->poller->seats, one->descriptor)) continue;
        fs_carry_listen(one->connection, one->descriptor, 1);
        wait->counted[wait->counted_count++] = *one;
    }
}

static void end_listening(struct wait *wait)
{
    for (int i = 0; i < wait->counted_count; i++) {
        const struct fs_polled *one = &wait->counted[i];
        if (!fs_connection_enter(one->connection, one->descriptor)) continue;
        if (atomic_load(&one->connection->generation) == one->generation)
            fs_carry_listen(one->connection, one->descriptor, -1);
        fs_connection_exit(one->connection);
    }
    wait->counted_count = 0;
}

static int look(struct wait *wait)
{
    struct fs_poller *poller = wait->poller;
    note_all(wait);
    int found = fs_poller_look(poller, wait->ready);
    if (found > 0 || poller->count == 0 || !waits(wait)) return found;
    struct fs_polled among[FS_POLLED_MOST];
    memcpy(among, poller->among, (size_t)poller->count * sizeof *among);
    if (fs_poller_await(&common, among, poller->count, left_of(wait))) found = fs_poller_look(poller, wait->ready);
    if (found > 0) return found;
    count_as_listener(wait);
    return fs_poller_settle(poller, wait->ready);
}

/* ---- those that the loop knows ---- */

static int is_listed(const struct wait *wait, int descriptor)
{
    for (nfds_t i = 0; i < wait->count; i++)
        if (wait->list[i].fd == descriptor && is_watched(&wait->list[i])) return 1;
    return 0;
}

/* The thread may wait for others than before: those would wake it for nothing. */
static int keep_listed(struct wait *wait, int found)
{
    int kept = 0;
    for (int i = 0; i < found; i++)
        if (is_listed(wait, wait->ready[i])) wait->ready[kept++] = wait->ready[i];
        else fs_seats_leave(&wait->poller->seats, wait->ready[i]);
    return kept;
}

/* A list longer than the limit of numbers is refused by the kernel. */
static int make_list_with_bell(struct wait *wait)
{
    struct rlimit limit;
    if (wait->with_bell != NULL) return 1;
    if (wait->count < FS_POLLED_FEW) wait->with_bell = wait->few;
    else if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && wait->count < limit.rlim_cur)
        wait->with_bell = malloc((wait->count + 1) * sizeof *wait->with_bell);
    return wait->with_bell != NULL;
}

/* How many of the list have something; 0: it sleeps in `asleep`, if there is a loop.  -EAGAIN: another look is due.
 * -EBUSY: one of them cannot be looked at. */
static int look_at_loop(struct wait *wait, struct fs_loop **asleep)
{
    *asleep = NULL;
    if (!has_loop(wait->own)) return 0;
    struct fs_seats *seats = &wait->poller->seats;
    if (!waits(wait))
        return wait->poller->count < FS_POLLED_MOST
                   ? 0
                   : keep_listed(wait, fs_seats_look(seats, wait->ready, FS_POLLED_MOST, FS_AT_ONCE));
    int keeps = !fs_descriptor_is_short() && make_list_with_bell(wait);
    int found = keeps ? fs_seats_sleep(seats, wait->ready, FS_POLLED_MOST, FS_AT_ONCE, asleep) : -ESTALE;
    if (found == -ESTALE) { /* the bell is closed, or may not be kept */
        drop_loop(wait->own);
        wait->lost_loop = 1;
        return -EAGAIN;
    }
    if (found <= 0) return found;
    found = keep_listed(wait, found);
    return found > 0 ? found : -EAGAIN;
}

/* ---- what the kernel tells ---- */

/* A wish for a bit instead of tokens comes when the kernel has told of one of several. */
static void hear(struct wait *wait, int number)
{
    struct fs_seats *seats = &wait->poller->seats;
    if (wait->poller->count < SEVERAL || !fs_polled_has_memory(number)) return;
    if (wait->own == NULL) {
        if (own == NULL && !fs_is_borrowed()) make();
        return; /* the next wait has it */
    }
    wait->own->reported += !has_loop(wait->own);
    if (may_make_loop(wait->own)) make_loop(wait->own);
    if (!has_loop(wait->own)) return;
    if (fs_seats_has_bit(seats, number)) {
        fs_seats_reported(seats, number);
        return;
    }
    seat(wait, number);
}

/* Who sleeps by a token is counted as a listener, but of what is beyond the places of those that are looked at. */
static int flags_of(const struct wait *wait, int descriptor)
{
    int flags = fs_seats_flags(&wait->poller->seats, descriptor);
    for (int i = 0; i < wait->poller->count && flags == 0; i++)
        if (wait->poller->among[i].descriptor == descriptor) flags = FS_COUNTED;
    return flags;
}

static int keep_what_is_so(struct wait *wait, int reported)
{
    for (nfds_t i = 0; i < wait->count && reported > 0; i++) {
        struct pollfd *one = &wait->list[i];
        if (one->fd < 0 || !(one->revents & READABLE)) continue;
        int stale = fs_polling_is_stale(one->fd, flags_of(wait, one->fd)) == 1;
        hear(wait, one->fd);
        if (!stale) continue;
        one->revents &= (short)~READABLE;
        if (one->revents == 0) reported--;
    }
    return reported;
}

static int ask_kernel(const struct wait *wait, struct pollfd *list, nfds_t count, uint64_t left, const sigset_t *mask)
{
    struct timespec limit = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    const struct timespec *until = left == UINT64_MAX ? NULL : &limit;
    int reported = mask == NULL ? fs_poll_on(list, count, until) : fs_next.ppoll(list, count, until, mask);
    if (wait->own != NULL) wait->own->asked = fs_ticks();
    return reported < 0 ? -errno : reported;
}

static int ask(struct wait *wait, uint64_t left, struct fs_loop *asleep, int *rung)
{
    *rung = 0;
    if (asleep == NULL) return ask_kernel(wait, wait->list, wait->count, left, wait->mask);
    struct pollfd *all = wait->with_bell;
    memcpy(all, wait->list, wait->count * sizeof *all);
    all[wait->count] = (struct pollfd){wait->poller->seats.bell, POLLIN, 0};
    int reported = ask_kernel(wait, all, wait->count + 1, left, wait->mask);
    *rung = reported < 0 || all[wait->count].revents != 0;
    fs_seats_awake(&wait->poller->seats, asleep, *rung);
    if (reported < 0) return reported;
    for (nfds_t i = 0; i < wait->count; i++) wait->list[i].revents = all[i].revents;
    return reported - *rung;
}

static int has_ring_alone(const struct pollfd *one)
{
    if (one->fd < 0) return 1;
    struct fs_connection *connection = one->events & ~RING_EVENTS ? NULL : fs_table_find(one->fd);
    if (connection == NULL || !fs_connection_enter(connection, one->fd)) return 0;
    const struct fs_end *end = connection->end;
    int result =
        end != NULL && !fs_record_is_plain(connection->record) && fs_switch_reads_ring(connection->record, end);
    fs_connection_exit(connection);
    return result;
}

/* What else the kernel would tell of such numbers comes from other processes: it may as well come a moment later. */
static int may_skip_kernel(const struct wait *wait)
{
    if (wait->count == 1 && !(wait->list[0].events & ~READABLE)) return 1;
    if (wait->own == NULL || (double)(fs_ticks() - wait->own->asked) > KERNEL_EVERY_US * fs_ticks_per_us()) return 0;
    for (nfds_t i = 0; i < wait->count; i++)
        if (!has_ring_alone(&wait->list[i])) return 0;
    return 1;
}

/* Those whose rings have something, and what the kernel has of all. */
static int report(struct wait *wait, int found)
{
    int reported = 0;
    if (may_skip_kernel(wait))
        for (nfds_t i = 0; i < wait->count; i++) wait->list[i].revents = 0;
    else reported = ask_kernel(wait, wait->list, wait->count, 0, NULL);
    if (reported < 0) return reported;
    reported = keep_what_is_so(wait, reported);
    return reported + mark(wait, found);
}

/* Those that had a bit are to be heard by tokens: they are counted, and asked for one. */
static int look_again(struct wait *wait)
{
    if (!wait->lost_loop) return fs_poller_look(wait->poller, wait->ready);
    wait->lost_loop = 0;
    end_listening(wait);
    return look(wait);
}

static int wait_for(struct wait *wait)
{
    int found = look(wait);
    for (int stale = 0, busy = 0;;) {
        struct fs_loop *asleep = NULL;
        int rung, state = found > 0 ? 0 : look_at_loop(wait, &asleep);
        if (state > 0) found = state;
        int reported = found > 0 ? report(wait, found) : 0;
        if (reported != 0) return reported;
        if (found > 0) state = -EAGAIN;
        uint64_t left = left_of(wait);
        if (left > BUSY_NS && state == -EBUSY) left = busy++ < MOST_BUSY ? 0 : BUSY_NS;
        if (state == -EAGAIN) left = 0;
        reported = ask(wait, left, asleep, &rung);
        if (reported < 0) return reported;
        int kept = keep_what_is_so(wait, reported);
        if (kept > 0 || left_of(wait) == 0) return kept;
        if (reported > 0 && ++stale > FS_MOST_STALE) return 0;
        found = look_again(wait);
    }
}

int fs_polled_wait(struct pollfd *list, nfds_t count, uint64_t limit_ns, const sigset_t *mask)
{
    struct fs_poller without_loop = FS_POLLER_NEW;
    struct wait wait;
    wait.list = list;
    wait.count = count;
    wait.mask = mask;
    wait.until = limit_ns == 0 || limit_ns == UINT64_MAX ? limit_ns : fs_now_ns() + limit_ns;
    wait.own = take_own();
    wait.poller = wait.own != NULL ? &wait.own->poller : &without_loop;
    wait.poller->count = 0;
    wait.poller->counted = FS_COUNTED;
    wait.lost_loop = wait.counted_count = 0;
    wait.with_bell = NULL;
    int result = wait_for(&wait);
    end_listening(&wait);
    if (wait.own != NULL) wait.own->busy = 0;
    if (wait.with_bell != NULL && wait.with_bell != wait.few) free(wait.with_bell);
    return result;
}
