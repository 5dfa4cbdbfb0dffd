/* Waiting for a word of another member: look, hand the core over where members share one, and sleep after long. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "patience.h"
#include "waiting.h"

#define YIELDS_BESIDE 32u /* answered by the other member, on the same core */
#define MOVE_EVERY_US 50000.0
#define LONGEST_DEATH_MS 500

enum { NOBODY = 127 }; /* is to blame: the communicator was revoked */

static int reached(const _Atomic uint64_t *word, uint64_t least)
{
    return fs_has_come(atomic_load_explicit(word, memory_order_acquire), least);
}

void fs_team_wake(struct fs_team *team)
{
    const uint64_t one = 1;
    for (int i = 0; i < team->size; i++) {
        _Atomic uint32_t *asleep = &team->header->members[i].asleep;
        if (i == team->index || atomic_load_explicit(asleep, memory_order_relaxed) == 0) continue;
        if (atomic_exchange(asleep, 0) != 0 && write(team->bells[i], &one, sizeof one) < 0) continue; /* rung already */
    }
}

static uint64_t failure_word(uint64_t number, int culprit, int died)
{
    return number << 8 | (uint64_t)culprit << 1 | (uint64_t)died;
}

/* The others are told of the first failure only: whoever gave up because of it is not to blame. */
void fs_team_fail(struct fs_team *team, int error)
{
    uint64_t none = 0;
    int culprit = error == -ECANCELED ? NOBODY : team->culprit >= 0 ? team->culprit : team->index;
    if (team->failure == 0) team->failure = error;
    if (error == -EOWNERDEAD && team->culprit < 0) return; /* by the hook, as the others are told by theirs */
    uint64_t word = failure_word(team->number, culprit, error == -EOWNERDEAD);
    atomic_compare_exchange_strong(&team->header->failure, &none, word);
    fs_team_wake(team);
}

static int blame(struct fs_team *team, int member, int died)
{
    team->culprit = member;
    return died ? -EOWNERDEAD : -ECONNABORTED;
}

/* A member that finished the collective under way before it ended is nobody's loss yet. */
static int look_for_losses(struct fs_team *team)
{
    uint64_t failure = atomic_load(&team->header->failure);
    int culprit = (int)(failure >> 1 & 127);
    if (failure != 0 && culprit == NOBODY) return -ECANCELED;
    if (failure != 0 && failure >> 8 <= team->number && culprit < team->size) return blame(team, culprit, failure & 1);
    for (int i = 0; i < team->size; i++)
        if (team->dead[i] && !reached(&team->header->members[i].done, fs_place(team->number + 1, 0)))
            return blame(team, i, 1);
    return 0;
}

/* Memory goes a moment before the process is seen to end. */
int fs_team_lost(struct fs_team *team, int member)
{
    struct pollfd watch = {team->watches[member], POLLIN, 0};
    if (poll(&watch, 1, LONGEST_DEATH_MS) <= 0) return -EPROTO;
    return blame(team, member, 1);
}

/* Sleeps up to that long, or looks at once for 0. */
static int look_around(struct fs_team *team, int milliseconds)
{
    for (int i = 0; i < team->size; i++)
        team->polled[i] = (struct pollfd){team->dead[i] ? -1 : team->watches[i], POLLIN, 0};
    team->polled[team->size] = (struct pollfd){team->bells[team->index], POLLIN, 0};
    int count = poll(team->polled, (nfds_t)team->size + 1, milliseconds);
    for (int i = 0; count > 0 && i < team->size; i++)
        if (team->polled[i].revents != 0) team->dead[i] = 1;
    int result = look_for_losses(team);
    if (result == 0 && team->hooks.interrupted != NULL) result = team->hooks.interrupted(team->hooks.context);
    return result;
}

/* ---- a wait for a word ---- */

struct wait {
    struct fs_team *team;
    const _Atomic uint64_t *word;
    uint64_t least;
};

static int has_come(void *self)
{
    const struct wait *wait = self;
    return reached(wait->word, wait->least);
}

/* It may have been published before its author went. */
static int settle(const struct wait *wait, int result)
{
    if (result == 0 || result == -EINTR || !reached(wait->word, wait->least)) return result;
    wait->team->culprit = -1;
    return 0;
}

static int look_at_once(void *self) { return settle(self, look_around(((struct wait *)self)->team, 0)); }

static int sleep_a_while(void *self, int most_ms)
{
    const struct wait *wait = self;
    struct fs_team *team = wait->team;
    uint64_t rung;
    atomic_store(&team->own->asleep, 1);
    atomic_fetch_add(&team->header->sleepers, 1);
    sched_yield(); /* stores that were under way arrive */
    int result = reached(wait->word, wait->least) ? 0 : look_around(team, most_ms);
    atomic_fetch_sub(&team->header->sleepers, 1);
    atomic_store(&team->own->asleep, 0);
    if (read(team->bells[team->index], &rung, sizeof rung) < 0 && errno != EAGAIN) result = -errno;
    return settle(wait, result);
}

/* The member that the word belongs to last waited on the core that this one runs on, or that is how it looks. */
static int is_beside(void *self)
{
    const struct wait *wait = self;
    struct fs_team *team = wait->team;
    size_t at = (size_t)((const unsigned char *)wait->word - (const unsigned char *)team->header->members);
    uint32_t cpu = fs_show_cpu(&team->own->cpu);
    const struct fs_team_member *other = &team->header->members[at / sizeof *other];
    return cpu != 0 && atomic_load_explicit(&other->cpu, memory_order_relaxed) == cpu;
}

/* Others that compute may keep the kernel from spreading two members who always wait for each other: one of them moves,
 * and is free to be moved back. */
static void move_away(void *self, uint64_t now)
{
    struct fs_team *team = ((struct wait *)self)->team;
    cpu_set_t before, others;
    if (team->index == 0 || ++team->yields_beside < YIELDS_BESIDE ||
        now - team->moved_at < (uint64_t)(MOVE_EVERY_US * fs_ticks_per_us()))
        return;
    team->yields_beside = 0;
    team->moved_at = now;
    int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before) != 0) return;
    others = before;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
        sched_setaffinity(0, sizeof before, &before);
}

static void leave(void *self) { fs_team_leave(((struct wait *)self)->team); }

static int progress(void *self)
{
    const struct fs_team_hooks *hooks = &((struct wait *)self)->team->hooks;
    return hooks->progress != NULL && hooks->progress(hooks->context);
}

int fs_team_wait_slowly(struct fs_team *team, const _Atomic uint64_t *word, uint64_t least)
{
    static const struct fs_waiter waiter = {has_come, is_beside,    move_away,    leave,
                                            progress, look_at_once, sleep_a_while};
    struct wait wait = {team, word, least};
    return fs_wait_patiently(&waiter, &wait, team->crowded, !team->left && team->hooks.leave != NULL);
}

int fs_team_await_done(struct fs_team *team, uint64_t least)
{
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++)
        if (i != team->index) result = fs_team_await(team, &team->header->members[i].done, least);
    if (result == 0) team->all_done = least;
    return result;
}

int fs_team_await_cells(struct fs_team *team)
{
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++)
        if (i != team->index) result = fs_team_await_cell(team, i);
    if (result == 0) fs_team_met(team);
    return result;
}

int fs_team_await_all_ready(struct fs_team *team, uint64_t step)
{
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++)
        if (i != team->index) result = fs_team_await_ready(team, i, step);
    if (result == 0) fs_team_met(team);
    return result;
}

int fs_team_claim(struct fs_team *team, uint64_t step, int reader, uint64_t until)
{
    int slot = fs_team_slot(team, step), before = team->reader[slot], result = 0;
    uint64_t free_at = team->until[slot];
    if (!fs_has_come(team->all_done, free_at)) {
        if (before >= 0) result = fs_team_await(team, &team->header->members[before].done, free_at);
        else result = fs_team_await_done(team, free_at);
    }
    team->until[slot] = until;
    team->reader[slot] = reader;
    return result;
}

/* Members are never far from each other, but a place may lie still for long: that of buffers while cells are used.  In
 * the end it would seem to come after all others.  So it is moved on, as far as everybody is done. */
void fs_team_renew(struct fs_team *team)
{
    uint64_t here = fs_place(team->number, 0), least = here;
    for (int i = 0; i < team->size; i++) {
        uint64_t done = atomic_load_explicit(&team->header->members[i].done, memory_order_acquire);
        if (i != team->index && !fs_has_come(done, least)) least = done;
    }
    team->all_done = least;
    for (int i = 0; i < FS_TEAM_BUFFERS; i++)
        if (fs_has_come(least, team->until[i])) team->until[i] = least;
    fs_team_publish(team, &team->own->ready, here);
}
