/* Waiting for requests: look, hand the core over, sleep.
 *
 * Any thread that waits drives progress while it is awake.  One at a time, the driver, sleeps on the descriptors; the
 * others sleep on the count of events, which moves when a request completes and when the driver leaves.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"
#include "looking.h"

#define SLICE_NS 200000000ull /* longest sleep without a look at the world */
#define LOOK_US 15.0          /* with the interpreter's lock, before it is given up for a wait */
#define LOOKS_PER_CLOCK 8
#define LONGEST_WORK_US 20000.0 /* of progress for others, until the caller looks for signals */
#define HANG_UP_US 1000.0       /* how old the knowledge of the other ends' lives may be while spinning */
#define POLLED_ON_STACK 64
#define LOOKS_PER_YIELD 64 /* for those that need this core, and were on another one when they were last seen */

/* As one of several who wait: whoever has the lock is at it already. */
static int links_if_free(struct fs_engine *engine)
{
    if (!fs_links_have_work(engine)) return 0;
    if (atomic_load_explicit(&engine->contenders, memory_order_relaxed) != 0) {
        sched_yield();
        return 0;
    }
    if (!fs_engine_try_lock(engine)) return 0;
    int done = fs_links_progress(engine);
    fs_engine_unlock(engine);
    return done;
}

static int progress_if_free(struct fs_engine *engine)
{
    int done = links_if_free(engine);
    return fs_collectives_have_work(engine) ? done + fs_collectives_advance(engine) : done;
}

/* Whoever is to answer is on this core, or may be. */
static int shares_core(const struct fs_engine *engine) { return engine->options.crowded || fs_links_are_near(engine); }

/* The request is done; without one, messages have arrived since. */
static int is_answered(const struct fs_engine *engine, const struct fs_request *request, uint32_t arrivals)
{
    return request ? fs_request_is_done(request) : fs_engine_arrivals(engine) != arrivals;
}

static int look_for(struct fs_engine *engine, const struct fs_request *request, uint32_t arrivals, uint64_t start,
                    uint64_t ticks)
{
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
            if (is_answered(engine, request, arrivals)) return 1;
            if (!progress_if_free(engine)) fs_pause();
        }
        if (shares_core(engine)) break;
    } while (fs_ticks() - start < ticks);
    return is_answered(engine, request, arrivals);
}

static int look(struct fs_engine *engine, const struct fs_request *request, uint32_t arrivals)
{
    uint64_t start = fs_ticks(), ticks = 0;
    if (!fs_is_time_to_offer(start)) ticks = fs_look_granted(start, (uint64_t)(LOOK_US * fs_ticks_per_us()));
    if (ticks == 0) { /* what is there already needs no look */
        progress_if_free(engine);
        return is_answered(engine, request, arrivals);
    }
    int answered = look_for(engine, request, arrivals, start, ticks);
    fs_look_ended(start, answered);
    return answered;
}

int fs_engine_look(struct fs_engine *engine, const struct fs_request *request) { return look(engine, request, 0); }

int fs_engine_look_out(struct fs_engine *engine, uint32_t arrivals) { return look(engine, NULL, arrivals); }

/* Threads of this process need the interpreter's lock. The core is handed over as for a connection: as often as pays. */
int fs_engine_is_in_the_way(struct fs_engine *engine)
{
    const uint32_t looks = atomic_fetch_add_explicit(&engine->looks_in_vain, 1, memory_order_relaxed);
    if (atomic_load_explicit(&engine->has_local, memory_order_relaxed) || fs_is_time_to_offer(fs_ticks())) return 1;
    return (looks % LOOKS_PER_YIELD == 0 || shares_core(engine)) && fs_yield_is_due(&engine->yielding);
}

void fs_engine_give_way(struct fs_engine *engine)
{
    const uint64_t start = fs_ticks();
    sched_yield();
    fs_yield_learn(&engine->yielding, start, fs_links_have_work(engine), 1);
}

void fs_wait_prepare(struct fs_wait *wait, struct fs_engine *engine, struct fs_request *const *requests, size_t count,
                     int all, uint64_t deadline_ns)
{
    *wait = (struct fs_wait){
        .engine = engine, .requests = requests, .count = count, .all = all, .deadline_ns = deadline_ns};
}

static int is_satisfied(struct fs_wait *wait)
{
    if (wait->any_message)
        return atomic_load(&wait->engine->arrivals) != wait->events || atomic_load(&wait->engine->closed);
    if (wait->any_finished) return fs_engine_has_finished(wait->engine) || atomic_load(&wait->engine->closed);
    if (wait->all) {
        while (wait->first < wait->count && fs_request_is_done(wait->requests[wait->first])) wait->first++;
        return wait->first == wait->count;
    }
    for (size_t i = 0; i < wait->count; i++)
        if (fs_request_is_done(wait->requests[i])) {
            wait->first = i;
            return 1;
        }
    return 0;
}

static uint64_t left_until(uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) return SLICE_NS;
    uint64_t now = fs_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    return left < SLICE_NS ? left : SLICE_NS;
}

static int must_return(struct fs_wait *wait)
{
    const struct fs_engine *engine = wait->engine;
    return atomic_load(&engine->finished_callbacks) != 0 || atomic_load(&engine->ready) != 0 || is_satisfied(wait);
}

static int sleep_on_events(struct fs_wait *wait, uint64_t left)
{
    struct fs_engine *engine = wait->engine;
    int result = 0;
    atomic_fetch_add(&engine->sleepers, 1);
    uint32_t events = atomic_load(&engine->events);
    /* who drives may have left before it could see us */
    int driven = fs_engine_only_local(engine) || atomic_load(&engine->driver) != 0;
    if (driven && !must_return(wait) && fs_futex_wait(&engine->events, events, left) != 0 && errno == EINTR)
        result = -EINTR;
    atomic_fetch_sub(&engine->sleepers, 1);
    return result;
}

static int poll_all(struct fs_wait *wait, struct pollfd *list, int most, uint64_t left)
{
    struct fs_engine *engine = wait->engine;
    fs_engine_lock(engine);
    if (engine->kick < 0) engine->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_store(&engine->asleep, 1);
    int count = fs_links_watch(engine, list + 1, most - 1);
    fs_engine_unlock(engine);
    int result = 0;
    if (count >= 0 && !must_return(wait) && !atomic_load(&engine->closed)) {
        list[0] = (struct pollfd){engine->kick, POLLIN, 0};
        struct timespec limit = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
        int ready = ppoll(list, (nfds_t)count + 1, &limit, NULL);
        if (ready < 0 && errno == EINTR) result = -EINTR;
    }
    atomic_store(&engine->asleep, 0);
    uint64_t drop;
    if (engine->kick >= 0 && read(engine->kick, &drop, sizeof drop) < 0 && errno == EBADF) result = -EINTR;
    if (count >= 0) fs_links_look(engine);
    return result;
}

static int sleep_on_descriptors(struct fs_wait *wait, uint64_t left)
{
    struct fs_engine *engine = wait->engine;
    struct pollfd here[POLLED_ON_STACK], *list = here;
    int most = atomic_load(&engine->link_count) + 1, result = 0;
    if (most > POLLED_ON_STACK) list = malloc((size_t)most * sizeof *list);
    if (list) result = poll_all(wait, list, most, left);
    else sched_yield();
    if (list != here) free(list);
    return result;
}

static int sleep_a_while(struct fs_wait *wait)
{
    struct fs_engine *engine = wait->engine;
    uint64_t left = left_until(wait->deadline_ns);
    if (left == 0) return -ETIMEDOUT;
    if (fs_engine_only_local(engine)) return sleep_on_events(wait, left);
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&engine->driver, &nobody, 1)) return sleep_on_events(wait, left);
    int result = sleep_on_descriptors(wait, left);
    atomic_store(&engine->driver, 0);
    if (atomic_load(&engine->sleepers) != 0) fs_wake(engine); /* one of them drives now */
    return result;
}

/* Traffic with others may keep us awake for long. */
static void look_if_due(struct fs_engine *engine)
{
    uint64_t now = fs_ticks(), last = atomic_load_explicit(&engine->looked_at, memory_order_relaxed);
    if ((double)(now - last) < HANG_UP_US * fs_ticks_per_us()) return;
    atomic_store_explicit(&engine->looked_at, now, memory_order_relaxed);
    if (last != 0) fs_links_look(engine);
}

/* A busy wait ends when its time is over: 1, or 0 to look again. */
static int spun_enough(struct fs_wait *wait, unsigned round)
{
    struct fs_engine *engine = wait->engine;
    if (round % LOOKS_PER_CLOCK == 0) {
        uint64_t now = fs_ticks();
        if (wait->spin_until == 0) wait->spin_until = now + engine->spin_ticks;
        if (now >= wait->spin_until) return 1;
    }
    if (shares_core(engine)) sched_yield();
    else fs_pause();
    return 0;
}

/* Progress for others that never ends: whoever waits is not kept from signals, nor beyond its deadline. */
static int worked_enough(struct fs_wait *wait)
{
    uint64_t now = fs_ticks();
    if (wait->working_since == 0) wait->working_since = now;
    if ((double)(now - wait->working_since) < LONGEST_WORK_US * fs_ticks_per_us()) return 0;
    wait->working_since = 0;
    return left_until(wait->deadline_ns) == 0 ? -ETIMEDOUT : FS_LOOK_UP;
}

static int wait_on(struct fs_wait *wait)
{
    struct fs_engine *engine = wait->engine;
    wait->working_since = 0;
    for (unsigned round = 0;; round++) {
        if (is_satisfied(wait)) return FS_SATISFIED;
        if (atomic_load_explicit(&engine->finished_callbacks, memory_order_relaxed) != 0) return FS_FINISHED_SOME;
        if (round % FS_IDLE_ROUNDS == FS_IDLE_ROUNDS - 1) look_if_due(engine);
        if (progress_if_free(engine)) {
            wait->spin_until = 0;
            int enough = ++wait->worked % LOOKS_PER_CLOCK == 0 ? worked_enough(wait) : 0;
            if (enough != 0) return is_satisfied(wait) ? FS_SATISFIED : enough;
            continue;
        }
        if (!spun_enough(wait, round)) continue;
        if (!wait->looked_up) {
            wait->looked_up = 1;
            return FS_LOOK_UP;
        }
        int result = sleep_a_while(wait);
        wait->looked_up = 0;
        if (result == -EINTR) return result;
        if (result == -ETIMEDOUT) return is_satisfied(wait) ? FS_SATISFIED : result;
    }
}

int fs_wait(struct fs_wait *wait)
{
    if (!wait->any_message) return wait_on(wait);
    atomic_fetch_add(&wait->engine->watchers, 1);
    int result = wait_on(wait);
    atomic_fetch_sub(&wait->engine->watchers, 1);
    return result;
}
