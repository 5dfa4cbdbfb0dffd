/* Large messages: through buffers that both sides copy at once, or read straight out of the other's memory by the kernel.
 *
 * Which is faster depends on the operation, the size, and how far the two cores are from each other, and it changes while
 * the program runs.  So whoever decides in a collective measures how long it took, and takes the way that was faster
 * lately; the other one is tried again from time to time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cost.h"
#include "internal.h"

#define PIECE (16u * 1024)
#define LEARNING 8u                /* uses at the start, by turns, until one way is clearly better */
#define LEARNING_LEAST 4u          /* of these: in the first one memory may be touched for the first time */
#define LONG ((size_t)1 << 20)     /* of so many bytes, buffers that cores far apart share take several times as long */
#define CROWDED ((size_t)32 << 10) /* of so many bytes, a turn more is little */
#define LONG_FIRST 32u             /* uses before such a trial: what it may lose is little beside what they took */
#define TRY_EVERY 128u             /* uses, a few of which go the other way */
#define TRIES 3u
#define SELDOM 16u /* times as seldom where it costs much */
#define LONGEST_READ ((size_t)1 << 30)

static uint64_t own_nonce;
static uint32_t
    own_nonce_generation; /* a forked process has its own: numbers alone tell none of other PID namespaces */

void fs_team_identify(struct fs_cma_identity *own)
{
    if (own_nonce_generation != fs_generation()) own_nonce = fs_cma_nonce();
    own_nonce_generation = fs_generation();
    *own = (struct fs_cma_identity){getpid(), (uint64_t)(uintptr_t)&own_nonce, own_nonce};
}

static int read_there(const struct fs_cma_identity *there, uint64_t address, void *target, size_t bytes)
{
    struct iovec parts[2] = {{target, bytes}};
    return fs_cma_read(there, address, parts, 1);
}

/* The way through buffers is timed, so they are no memory that is touched for the first time.  A crowded team has nothing
 * to compare, and of many members few would use theirs. */
static void make_buffers(struct fs_team *team)
{
    if (team->crowded || team->size > FS_FEW_PROCESSES) return;
    for (uint64_t step = 0; step < FS_TEAM_BUFFERS; step++)
        fs_populate(fs_team_buffer(team, team->index, step), FS_TEAM_FRONT);
}

int fs_team_meet(struct fs_team *team, const struct fs_cma_identity *all)
{
    for (int i = 0; i < team->size; i++) {
        if (i == team->index) continue;
        if (all[i].address == 0 || !read_there(&all[i], all[i].address, &(uint64_t){0}, sizeof(uint64_t))) return 0;
    }
    team->identities = malloc((size_t)team->size * sizeof *all);
    if (team->identities == NULL) return 0;
    memcpy(team->identities, all, (size_t)team->size * sizeof *all);
    make_buffers(team);
    atomic_fetch_add(&team->header->readers, 1);
    return 1;
}

int fs_team_pull(struct fs_team *team, int member, uint64_t address, void *target, size_t bytes)
{
    if (team->identities == NULL) return -EPROTO;
    for (size_t at = 0; at < bytes; at += LONGEST_READ)
        if (!read_there(&team->identities[member], address + at, (unsigned char *)target + at,
                        fs_smaller(bytes - at, LONGEST_READ)))
            return fs_team_lost(team, member);
    return 0;
}

/* ---- which way ---- */

static int class_of(size_t bytes)
{
    int class = 0;
    for (size_t limit = 2 * FS_TEAM_CMA; limit <= bytes && class < FS_TEAM_CLASSES - 1; limit *= 2) class ++;
    return class;
}

/* What has been seen says, or the turn of the way that is to be tried. */
static int learned(const struct fs_team_ways *ways, uint32_t use)
{
    int better = ways->cost[1] < ways->cost[0];
    uint64_t least = ways->cost[better], most = ways->cost[!better];
    if (use < LEARNING) return use < LEARNING_LEAST || least > most / 2 ? use % 2 == 0 : better;
    return use % (least < most / 3 ? TRY_EVERY * SELDOM : TRY_EVERY) < TRIES ? !better : better;
}

/* Members that take turns on a core have in its cache what all of them read, and each system call is another turn.  Not so
 * in an alltoall: of a block that one member alone reads the second copy is for nothing. */
static int is_better_shared(const struct fs_team *team, enum fs_team_kind kind, size_t bytes)
{
    return team->crowded && (kind != FS_KIND_ALLTOALL || bytes < CROWDED);
}

int fs_team_choose(struct fs_team *team, enum fs_team_kind kind, size_t bytes)
{
    if (bytes < FS_TEAM_CMA || team->identities == NULL || is_better_shared(team, kind, bytes)) return 0;
    if (atomic_load_explicit(&team->header->readers, memory_order_relaxed) != (uint32_t)team->size) return 0;
    struct fs_team_ways *ways = &team->ways[kind][class_of(bytes)];
    int direct = bytes >= LONG && ways->uses < LONG_FIRST;
    if (!direct) direct = learned(ways, ways->uses - (bytes >= LONG ? LONG_FIRST : 0));
    ways->uses++;
    team->trial = (struct fs_team_trial){&ways->cost[direct], fs_ticks(), bytes};
    return direct;
}

/* Times much longer than lately mean that somebody came late, or computed. */
void fs_team_learn(struct fs_team *team)
{
    struct fs_team_trial *trial = &team->trial;
    fs_cost_learn(trial->cost, (fs_ticks() - trial->start) * PIECE / trial->bytes + 1, FS_COST_ALL);
    trial->cost = NULL;
}
