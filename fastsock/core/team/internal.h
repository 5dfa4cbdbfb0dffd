/* What the collectives of a team share: the memory's layout, and how a member publishes, waits and claims. */
#ifndef FASTSOCK_TEAM_INTERNAL_H
#define FASTSOCK_TEAM_INTERNAL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "system.h"
#include "team.h"

enum {
    FS_TEAM_CELLS = 64,
    FS_TEAM_INLINE = FS_LINE - 8,       /* bytes that travel in the line that announces them */
    FS_TEAM_BUFFERS = 8,
    FS_TEAM_BUFFER = 128 * 1024,
    FS_TEAM_LONG = 32 * 1024,           /* bytes: to copy so many is a wait too */
    FS_TEAM_LOOKS = 64,                 /* before a wait begins to cost anything else */
    FS_TEAM_STEP_BITS = 20,
    FS_TEAM_LAST_STEP = (1 << FS_TEAM_STEP_BITS) - 1,
    FS_TEAM_CMA = 8 * 1024,          /* bytes from which reading another's memory may be worth a system call */
    FS_TEAM_BLOCK = 64 * 1024,          /* bytes that are read from one member and reduced, then from the next */
    FS_TEAM_CLASSES = 10,               /* of sizes, each the double of the one before */
};

/* How far a member has come: which collective, and which step in it.  Such words only grow. */
static inline uint64_t fs_place(uint64_t number, uint64_t step) { return number << FS_TEAM_STEP_BITS | step; }

struct fs_team_cell {
    _Alignas(FS_LINE) _Atomic uint64_t number; /* of the collective that filled it */
    unsigned char data[FS_TEAM_INLINE];
};

struct fs_team_member {
    _Alignas(FS_LINE) _Atomic uint64_t ready; /* its buffers are filled up to this place */
    _Alignas(FS_LINE) _Atomic uint64_t done;  /* and it has read the others' up to this one */
    _Alignas(FS_LINE) _Atomic uint32_t asleep;
    _Atomic uint32_t cpu; /* where it last waited, plus one */
    _Alignas(FS_LINE) struct fs_team_cell cells[FS_TEAM_CELLS];
    _Alignas(FS_LINE) unsigned char apart[FS_LINE]; /* members' cells fall into different sets of a cache */
};

struct fs_team_header {
    uint64_t magic;
    uint32_t version, size, crowded;
    _Atomic uint32_t readers; /* members who can read all the others' memory */
    _Alignas(FS_LINE) _Atomic uint32_t sleepers;
    _Atomic uint64_t failure; /* the first: in which collective, through whom, how; 0 for none */
    _Alignas(FS_LINE) struct fs_team_member members[];
};

enum fs_team_kind { FS_KIND_BCAST, FS_KIND_REDUCE, FS_KIND_ALLREDUCE, FS_KIND_ALLGATHER, FS_KIND_ALLTOALL, FS_KINDS };

struct fs_team_ways {
    uint64_t cost[2]; /* ticks for 16 KiB, lately, through buffers and directly */
    uint32_t uses;
};

struct fs_team_trial {
    uint64_t *cost; /* that this collective's duration will change, or NULL */
    uint64_t start;
    size_t bytes;
};

struct fs_team {
    struct fs_team_header *header;
    struct fs_team_member *own;
    unsigned char *buffers;            /* of member 0; the others' follow */
    size_t mapped;
    int index, size, crowded, at_once;
    uint32_t generation;               /* a forked child is no member */
    uint64_t number;                   /* of the collective under way or next */
    uint64_t all_done;                 /* everybody is known to be done up to this place */
    uint64_t until[FS_TEAM_BUFFERS];   /* my buffer is free when its readers are done up to this place */
    int reader[FS_TEAM_BUFFERS];       /* its only reader, or -1 */
    struct fs_team_ways ways[FS_KINDS][FS_TEAM_CLASSES];
    struct fs_team_trial trial;
    unsigned char *scratch;              /* two blocks, once they were needed */
    struct fs_cma_identity *identities; /* NULL: nobody reads another's memory */
    struct fs_team_hooks hooks;
    uint64_t moved_at;
    uint32_t yields_beside;
    int left;                          /* the leave hook was called */
    int failure, culprit;
    int *bells;
    int *watches;
    unsigned char dead[FS_TEAM_MOST];
    struct pollfd *polled;
};

/* ---- waiting.c ---- */
int fs_team_wait_slowly(struct fs_team *team, const _Atomic uint64_t *word, uint64_t least);
void fs_team_wake(struct fs_team *team);
void fs_team_fail(struct fs_team *team, int error); /* inside a collective: nobody waits for this member any more */
int fs_team_await_done(struct fs_team *team, uint64_t least); /* of everybody */
int fs_team_lost(struct fs_team *team, int member); /* its memory cannot be read: the error for that */

static inline int fs_team_await(struct fs_team *team, const _Atomic uint64_t *word, uint64_t least)
{
    for (int i = 0; i < FS_TEAM_LOOKS; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) >= least) return 0;
        if (team->crowded) break;
        fs_pause();
    }
    return fs_team_wait_slowly(team, word, least);
}

/* A sleeper looks again when it has said that it sleeps, and from time to time: so no fence is needed here, although a
 * store that is still under way may make this miss it. */
static inline void fs_team_publish(struct fs_team *team, _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    if (atomic_load_explicit(&team->header->sleepers, memory_order_relaxed) != 0) fs_team_wake(team);
}

/* ---- the course of a collective ---- */

static inline void fs_team_leave(struct fs_team *team)
{
    if (team->left || team->hooks.leave == NULL) return;
    team->left = 1;
    team->hooks.leave(team->hooks.context);
}

static inline int fs_team_begin(struct fs_team *team, size_t bytes)
{
    if (team->generation != fs_generation()) return -ESTALE;
    if (team->failure == 0 && (team->at_once || bytes >= FS_TEAM_LONG)) fs_team_leave(team);
    return team->failure;
}

void fs_team_learn(struct fs_team *team); /* cma_pull.c */

/* The end of a collective that the others know this member to be done with. */
static inline int fs_team_leave_collective(struct fs_team *team, int result)
{
    if (team->trial.cost != NULL) fs_team_learn(team);
    if (result == 0) team->number++;
    else fs_team_fail(team, result);
    if (team->left) team->hooks.enter(team->hooks.context);
    team->left = 0;
    return result;
}

static inline int fs_team_end(struct fs_team *team, int result)
{
    if (result == 0) fs_team_publish(team, &team->own->done, fs_place(team->number + 1, 0));
    return fs_team_leave_collective(team, result);
}

/* Everybody has entered this collective, so everybody is done with those before it. */
static inline void fs_team_met(struct fs_team *team)
{
    uint64_t here = fs_place(team->number, 0);
    if (team->all_done < here) team->all_done = here;
}

static inline struct fs_team_cell *fs_team_cell(struct fs_team *team, int member)
{
    return &team->header->members[member].cells[team->number % FS_TEAM_CELLS];
}

/* My cell, free to be filled.  When it was not, half of them are before it goes on, so that members take turns rarely. */
static inline int fs_team_claim_cell(struct fs_team *team)
{
    if (team->all_done >= fs_place(team->number - FS_TEAM_CELLS + 1, 0)) return 0;
    return fs_team_await_done(team, fs_place(team->number - FS_TEAM_CELLS / 2, 0));
}

static inline void fs_team_publish_cell(struct fs_team *team)
{
    fs_team_publish(team, &fs_team_cell(team, team->index)->number, team->number);
}

static inline int fs_team_await_cell(struct fs_team *team, int member)
{
    return fs_team_await(team, &fs_team_cell(team, member)->number, team->number);
}

int fs_team_await_cells(struct fs_team *team); /* of all */

/* Buffers are used in turn, by collectives and by the steps of one. */
static inline int fs_team_slot(const struct fs_team *team, uint64_t step)
{
    return (int)((team->number + step) % FS_TEAM_BUFFERS);
}

static inline unsigned char *fs_team_buffer(const struct fs_team *team, int member, uint64_t step)
{
    return team->buffers + ((size_t)member * FS_TEAM_BUFFERS + (size_t)fs_team_slot(team, step)) * FS_TEAM_BUFFER;
}

/* My buffer for that step, free to be filled; it stays taken until `reader` (-1: everybody) is done up to `until`. */
int fs_team_claim(struct fs_team *team, uint64_t step, int reader, uint64_t until);

static inline void fs_team_publish_ready(struct fs_team *team, uint64_t step)
{
    fs_team_publish(team, &team->own->ready, fs_place(team->number, step));
}

static inline void fs_team_publish_done(struct fs_team *team, uint64_t step)
{
    fs_team_publish(team, &team->own->done, fs_place(team->number, step));
}

static inline int fs_team_await_ready(struct fs_team *team, int member, uint64_t step)
{
    return fs_team_await(team, &team->header->members[member].ready, fs_place(team->number, step));
}

int fs_team_await_all_ready(struct fs_team *team, uint64_t step);

static inline size_t fs_smaller(size_t one, size_t other) { return one < other ? one : other; }

/* What one step of a large transfer moves: enough to hide the handshake, little enough for both sides to be busy.  Where
 * members share a core they take turns: then longer turns are better. */
static inline size_t fs_team_piece(const struct fs_team *team, size_t bytes)
{
    (void)bytes;
    return team->crowded ? FS_TEAM_BUFFER : FS_TEAM_BUFFER / 4;
}

/* Up to this size all members reduce everything: that is one exchange instead of two. */
static inline size_t fs_team_small_reduction(const struct fs_team *team)
{
    return team->crowded ? 4096 : 8192;
}

/* ---- rounds.c ---- */
struct fs_team_rounds {
    int many; /* the same on every member, or a negative errno */
    void *context;
    void (*show)(struct fs_team *team, void *context, size_t round, unsigned char *buffer); /* fills it for that round */
    void (*take)(struct fs_team *team, void *context, size_t round); /* what the others have shown */
};
int fs_team_show(struct fs_team *team, const struct fs_team_rounds *rounds, int round);
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
int fs_team_have_scratch(struct fs_team *team);
/* Part of an array, of at most FS_TEAM_BLOCK bytes, out of the members' memory; `sources` are its arrays' addresses. */
int fs_team_reduce_block(struct fs_team *team, const struct fs_reduction *what, const uint64_t *sources,
                         const unsigned char *own, unsigned char *target, size_t first, size_t count);

/* ---- cma_pull.c ---- */
/* Whether messages of that size should be read out of their givers' memory: asked by the member that decides, once. */
int fs_team_choose(struct fs_team *team, enum fs_team_kind kind, size_t bytes);
/* Copies out of a member's memory; while it does, that member waits.  0 or -errno. */
int fs_team_pull(struct fs_team *team, int member, uint64_t address, void *target, size_t bytes);

/* A buffer, or a cell, cut into a part for each member. */
static inline size_t fs_team_part(const struct fs_team *team) { return FS_TEAM_BUFFER / (size_t)team->size / 64 * 64; }
static inline size_t fs_team_share(const struct fs_team *team, size_t bytes) { return bytes / (size_t)team->size / 8 * 8; }

/* How many steps so many bytes take, or a negative errno. */
int fs_team_steps(size_t bytes, size_t step);

#endif
