/* Which way long data go: through buffers that both sides copy at once, or straight out of the givers' memory.
 *
 * Which one is fastest depends on the operation, the size, what the program does between its calls, and how far the cores
 * are from each other; and it changes while the program runs.  So one member decides, and tells the others in the cell
 * that they await anyway.  From time to time it times a few calls of each way, by turns, until everybody is done: the
 * slowest member counts.  Then the fastest way is taken until the next trial.
 */
#include "internal.h"

#define PIECE (16u * 1024)
#define TRIES 3u   /* timed calls of each way in a trial; the middle one counts: members may come late, or be lucky */
#define EVERY 256u /* calls, the first of which are the trial: more than two ways cost few of them */
#define FIRST_USES 32u /* calls before the first trial, where one way is known to be good and the other may be bad */
#define CLEARLY 2u     /* times as slow: then a way sits out */
#define SITS_OUT 15u   /* so many trials */
#define LONG ((size_t)1 << 20)     /* of so many bytes, buffers that cores far apart share take several times as long */
#define CROWDED ((size_t)32 << 10) /* of so many bytes, a turn more is little */

static int class_of(size_t bytes)
{
    int class = 0;
    for (size_t limit = 2 * FS_TEAM_CMA; limit <= bytes && class < FS_TEAM_CLASSES - 1; limit *= 2) class ++;
    return class;
}

/* Before anything was timed.  Members that take turns on a core have in its cache what all of them read, and each system
 * call is another turn.  Not so in an alltoall: of a block that one member alone reads the second copy is for nothing. */
static enum fs_team_way first_way(const struct fs_team *team, enum fs_team_kind kind, size_t bytes)
{
    if (!team->crowded) return bytes >= LONG ? FS_WAY_DIRECT : FS_WAY_BUFFERS;
    return kind == FS_KIND_ALLTOALL && bytes >= CROWDED ? FS_WAY_DIRECT : FS_WAY_BUFFERS;
}

static int has_changed(uint64_t before, uint64_t now) { return now > before + before / 2 || before > now + now / 2; }

/* After a trial.  Where the way that is taken now costs something else than before, all ways may: none sits out. */
static void settle(struct fs_team_ways *ways, int many)
{
    uint64_t before = ways->cost[ways->best];
    int changed = before != 0 && has_changed(before, ways->fresh[ways->best].next);
    for (int way = 0; way < many; way++) {
        uint64_t fresh = ways->fresh[way].next, *cost = &ways->cost[way];
        if (fresh != 0) *cost = *cost == 0 || changed ? fresh : *cost / 2 + fresh / 2;
    }
    for (int way = 0; way < many; way++)
        if (ways->cost[way] != 0 && ways->cost[way] < ways->cost[ways->best]) ways->best = (uint8_t)way;
    for (int way = 0; way < many; way++) {
        int slow = ways->cost[way] / CLEARLY > ways->cost[ways->best];
        if (changed || way == ways->best) ways->sits_out[way] = 0;
        else if (ways->sits_out[way] > 0) ways->sits_out[way]--;
        else if (slow) ways->sits_out[way] = SITS_OUT, ways->cost[way] = 0; /* by the next time that is long ago */
        ways->fresh[way] = (struct fs_team_times){0, 0};
    }
}

/* The way of the next call, and whether it is timed. */
static int next_way(struct fs_team_ways *ways, int many, int *timed)
{
    uint32_t at = ways->uses++ % EVERY;
    if (at == TRIES * (uint32_t)many) settle(ways, many);
    *timed = at < TRIES * (uint32_t)many && ways->sits_out[at % (uint32_t)many] == 0;
    return *timed ? (int)(at % (uint32_t)many) : ways->best;
}

enum fs_team_way fs_team_choose(struct fs_team *team, enum fs_team_kind kind, size_t bytes, int many)
{
    if (bytes < FS_TEAM_CMA || team->identities == NULL || team->kept == FS_TEAM_BUFFERED) return FS_WAY_BUFFERS;
    if (atomic_load_explicit(&team->header->readers, memory_order_relaxed) != (uint32_t)team->size)
        return FS_WAY_BUFFERS;
    if (team->kept == FS_TEAM_DIRECT) return FS_WAY_DIRECT;
    /* each member decides for itself: those who share a core delay each other, and would not come to the same end */
    if (team->crowded && kind == FS_KIND_ALLTOALL) return first_way(team, kind, bytes);
    struct fs_team_ways *ways = &team->ways[kind][class_of(bytes)];
    if (ways->uses == 0) {
        ways->best = (uint8_t)first_way(team, kind, bytes);
        ways->uses = team->crowded || bytes >= LONG ? EVERY - FIRST_USES : EVERY;
    }
    int timed, way = next_way(ways, many, &timed);
    if (timed) team->trial = (struct fs_team_trial){&ways->fresh[way], fs_ticks(), bytes};
    return (enum fs_team_way)way;
}

void fs_team_note(struct fs_team_times *times, uint64_t cost)
{
    if (times->least == 0 || cost < times->least) {
        times->next = times->least;
        times->least = cost;
    } else if (times->next == 0 || cost < times->next) {
        times->next = cost;
    }
}

/* Nobody waits for what this waits for: a member that dies here is the next call's loss. */
int fs_team_learn(struct fs_team *team)
{
    struct fs_team_trial trial = team->trial;
    team->trial.fresh = NULL;
    int result = fs_team_await_done(team, fs_place(team->number + 1, 0));
    if (result == -EOWNERDEAD || result == -ECONNABORTED) {
        team->culprit = -1;
        return 0;
    }
    fs_team_note(trial.fresh, (fs_ticks() - trial.start) * PIECE / trial.bytes + 1);
    return result;
}
