/* What the collectives of a team share. */
#ifndef FASTSOCK_TEAM_INTERNAL_H
#define FASTSOCK_TEAM_INTERNAL_H

#include <errno.h>
#include <string.h>

#include "copy.h"
#include "waiting.h"

static inline size_t fs_smaller(size_t one, size_t other) { return one < other ? one : other; }

/* How many steps so many bytes or elements take. */
static inline uint64_t fs_team_steps(size_t many, size_t step) { return many / step + (many % step != 0); }

/* What one step of a large transfer moves: enough to hide the handshake, little enough for both sides to be busy.  Where
 * members share a core they take turns: then longer turns are better. */
static inline size_t fs_team_piece(const struct fs_team *team, size_t bytes)
{
    (void)bytes;
    return team->crowded ? FS_TEAM_BUFFER : FS_TEAM_FRONT;
}

/* Up to this size all members reduce everything: that is one exchange instead of two. */
static inline size_t fs_team_small_reduction(const struct fs_team *team) { return team->crowded ? 4096 : 8192; }

/* ---- rounds.c ---- */
struct fs_team_rounds {
    uint64_t many; /* the same on every member, or who has fewer shows FS_TEAM_LAST_STEP after these */
    void *context;
    void (*show)(struct fs_team *team, void *context, size_t round,
                 unsigned char *buffer);                             /* fills it for that round */
    void (*take)(struct fs_team *team, void *context, size_t round); /* what the others have shown */
};
int fs_team_show(struct fs_team *team, const struct fs_team_rounds *rounds, uint64_t round);
int fs_team_run(struct fs_team *team, const struct fs_team_rounds *rounds, int shown); /* shown: the first one is */
int fs_team_part_after(struct fs_team *team, const uint64_t *addresses); /* of what was read directly; 0 for nothing */

/* ---- reductions ---- */
struct fs_reduction {
    size_t count, element;
    fs_kernel *kernel;
};
int fs_allreduce_buffered(struct fs_team *team, const unsigned char *source, unsigned char *target,
                          const struct fs_reduction *what);
int fs_allreduce_direct(struct fs_team *team, const unsigned char *source, unsigned char *target,
                        const struct fs_reduction *what, const uint64_t *sources, const uint64_t *targets);
/* Everybody reads all sources and keeps all results; nobody's target may be its source. */
int fs_allreduce_whole(struct fs_team *team, const unsigned char *source, unsigned char *target,
                       const struct fs_reduction *what, const uint64_t *sources);
int fs_team_have_scratch(struct fs_team *team);
/* Part of an array, of at most FS_TEAM_BLOCK bytes, out of the members' memory; `sources` are its arrays' addresses. */
int fs_team_reduce_block(struct fs_team *team, const struct fs_reduction *what, const uint64_t *sources,
                         const unsigned char *own, unsigned char *target, size_t first, size_t count);

/* ---- ways.c ---- */
/* Which of the first `many` ways messages of that size should go: asked by the member that decides, once. */
enum fs_team_way fs_team_choose(struct fs_team *team, enum fs_team_kind kind, size_t bytes, int many);

void fs_team_note(struct fs_team_times *times, uint64_t cost); /* of a timed call */

/* Everybody has come: the time that a member was late does not count. */
static inline void fs_team_time_from_here(struct fs_team *team)
{
    if (team->trial.fresh != NULL) team->trial.start = fs_ticks();
}

/* ---- cma_pull.c ---- */
/* Copies out of a member's memory; while it does, that member waits.  0 or -errno. */
int fs_team_pull(struct fs_team *team, int member, uint64_t address, void *target, size_t bytes);

#endif
