/* Large messages: through buffers that both sides copy at once, or read straight out of the other's memory by the kernel.
 *
 * Which is faster depends on the size, on how far the two cores are from each other, and changes while the program runs.
 * So copies are timed, readers publish what theirs cost, and whoever gives chooses for what it gives.  The way that is
 * not taken is tried again from time to time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "inside.h"

#define PIECE (16u * 1024)
#define LEARNING 8u    /* uses at the start, by turns */
#define TRY_EVERY 128u /* uses, a few of which go the other way */
#define TRIES 3u
#define TIMED 4096     /* bytes: less says little */
#define LONGEST_READ ((size_t)1 << 30)

static uint64_t own_nonce;

void fs_team_identify(struct fs_team_identity *own)
{
    if (own_nonce == 0 && getrandom(&own_nonce, sizeof own_nonce, GRND_NONBLOCK) < 0) own_nonce = 0;
    *own = (struct fs_team_identity){getpid(), own_nonce != 0 ? (uint64_t)(uintptr_t)&own_nonce : 0, own_nonce};
}

static int read_there(const struct fs_team_identity *there, uint64_t address, void *target, size_t bytes)
{
    uint64_t nonce = 0;
    struct iovec into[2] = {{&nonce, sizeof nonce}, {target, bytes}};
    struct iovec out_of[2] = {{(void *)(uintptr_t)there->address, sizeof nonce}, {(void *)(uintptr_t)address, bytes}};
    ssize_t count = process_vm_readv((pid_t)there->process, into, 2, out_of, 2, 0);
    return count == (ssize_t)(bytes + sizeof nonce) && nonce == there->nonce;
}

int fs_team_meet(struct fs_team *team, const struct fs_team_identity *all)
{
    for (int i = 0; i < team->size; i++) {
        if (i == team->index) continue;
        if (all[i].address == 0 || !read_there(&all[i], all[i].address, &(uint64_t){0}, sizeof(uint64_t))) return 0;
    }
    team->identities = malloc((size_t)team->size * sizeof *all);
    if (team->identities == NULL) return 0;
    memcpy(team->identities, all, (size_t)team->size * sizeof *all);
    atomic_fetch_add(&team->header->readers, 1);
    return 1;
}

/* ---- what the ways cost ---- */

static int class_of(size_t bytes)
{
    int class = 0;
    for (size_t limit = 2 * FS_TEAM_DIRECT; limit <= bytes && class < FS_TEAM_CLASSES - 1; limit *= 2) class++;
    return class;
}

/* Slow copies may only have been interrupted: they count little.  `rare`: there are few of that kind, the first of them
 * slow because the memory was new, so a fast one counts at once. */
static void note(uint32_t *cost, uint64_t ticks, size_t bytes, int rare)
{
    uint64_t scaled = ticks * PIECE / bytes + 1, most = 2 * (uint64_t)*cost;
    if (*cost == 0) *cost = scaled < UINT32_MAX / 2 ? (uint32_t)scaled : UINT32_MAX / 2;
    else if (scaled < *cost) *cost = (uint32_t)(rare ? scaled : (*cost + scaled) / 2);
    else *cost += (uint32_t)(((scaled < most ? scaled : most) - *cost) / 8);
}

static int is_timed(const struct fs_team *team, size_t bytes, size_t whole)
{
    return team->identities != NULL && bytes >= TIMED && whole >= FS_TEAM_DIRECT;
}

static void publish(_Atomic uint32_t *costs, int class, uint32_t cost)
{
    if (atomic_load_explicit(&costs[class], memory_order_relaxed) != cost)
        atomic_store_explicit(&costs[class], cost, memory_order_relaxed);
}

void fs_team_put(struct fs_team *team, void *buffer, const void *source, size_t bytes, size_t whole)
{
    uint64_t start = fs_ticks();
    memcpy(buffer, source, bytes);
    if (is_timed(team, bytes, whole)) note(&team->costs[class_of(whole)].put, fs_ticks() - start, bytes, 0);
}

void fs_team_take(struct fs_team *team, void *target, const void *buffer, size_t bytes, size_t whole)
{
    int class = class_of(whole);
    uint64_t start = fs_ticks();
    memcpy(target, buffer, bytes);
    if (!is_timed(team, bytes, whole)) return;
    note(&team->costs[class].take, fs_ticks() - start, bytes, 0);
    publish(team->own->take_cost, class, team->costs[class].take);
}

int fs_team_pull(struct fs_team *team, int member, uint64_t address, void *target, size_t bytes)
{
    int class = class_of(bytes);
    if (team->identities == NULL) return -EPROTO;
    uint64_t start = fs_ticks();
    for (size_t at = 0; at < bytes; at += LONGEST_READ)
        if (!read_there(&team->identities[member], address + at, (unsigned char *)target + at,
                        fs_smaller(bytes - at, LONGEST_READ)))
            return fs_team_lost(team, member);
    note(&team->costs[class].pull, fs_ticks() - start, bytes, 1);
    publish(team->own->pull_cost, class, team->costs[class].pull);
    return 0;
}

/* Of the other members the slowest. */
static uint32_t published(const struct fs_team *team, size_t costs, int class)
{
    uint32_t most = 0;
    for (int i = 0; i < team->size; i++) {
        const _Atomic uint32_t *theirs = (const void *)((const unsigned char *)&team->header->members[i] + costs);
        uint32_t cost = atomic_load_explicit(&theirs[class], memory_order_relaxed);
        if (i != team->index && cost > most) most = cost;
    }
    return most;
}

int fs_team_is_direct(struct fs_team *team, size_t bytes, int both_ways)
{
    if (bytes < FS_TEAM_DIRECT || team->identities == NULL) return 0;
    if (atomic_load_explicit(&team->header->readers, memory_order_relaxed) != (uint32_t)team->size) return 0;
    int class = class_of(bytes);
    struct fs_team_costs *costs = &team->costs[class];
    uint64_t put = costs->put, through;
    uint64_t take = published(team, offsetof(struct fs_team_member, take_cost), class);
    uint64_t pull = published(team, offsetof(struct fs_team_member, pull_cost), class);
    uint32_t use = costs->uses++;
    if (use < LEARNING) return use % 2 == 0;
    if (both_ways) through = put + take;
    else if (team->crowded) through = take + put / (uint64_t)(team->size - 1); /* cores are shared: the work counts */
    else through = put > take ? put : take; /* both sides copy at once */
    int better = pull != 0 && pull < through;
    return use % TRY_EVERY < TRIES ? !better : better;
}
