/* The memory of a team, mapped by all its members, and what each member keeps for itself. */
#ifndef FASTSOCK_TEAM_MEMORY_H
#define FASTSOCK_TEAM_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

#include "system.h"
#include "team.h"

enum {
    FS_TEAM_CELLS = 64,
    FS_TEAM_INLINE = FS_LINE - 8, /* bytes that travel in the line that announces them */
    FS_TEAM_BUFFERS = 8,
    FS_TEAM_BUFFER = 128 * 1024,
    FS_TEAM_FRONT = FS_TEAM_BUFFER / 4, /* of it, filled at once */
    FS_TEAM_LONG = 32 * 1024,           /* bytes: to copy so many is a wait too */
    FS_TEAM_LOOKS = 64,                 /* before a wait begins to cost anything else */
    FS_TEAM_STEP_BITS = 40, /* steps of the smallest part, 1 KiB: more bytes than a process has addresses for */
    FS_TEAM_NUMBER_BITS = 64 - FS_TEAM_STEP_BITS,
    FS_TEAM_RENEWED = 1 << 20,                       /* collectives after which no place is older */
    FS_TEAM_FIRST = (1 << FS_TEAM_NUMBER_BITS) - 16, /* so each team sees early what is rare: places wrap around */
    FS_TEAM_CMA = 8 * 1024,    /* bytes from which reading another's memory may be worth a system call */
    FS_TEAM_BLOCK = 64 * 1024, /* bytes that are read from one member and reduced, then from the next */
    FS_TEAM_CLASSES = 10,      /* of sizes, each the double of the one before */
};

#define FS_TEAM_LAST_STEP (((uint64_t)1 << FS_TEAM_STEP_BITS) - 1)

/* How far a member has come: which collective, by the last bits of its number, and which step in it.  Such words only
 * move on, and wrap around.  No two that are compared lie far apart: see fs_team_renew(). */
static inline uint64_t fs_place(uint64_t number, uint64_t step) { return number << FS_TEAM_STEP_BITS | step; }

/* Of two places, or two numbers: whether it is the other one or comes after it. */
static inline int fs_has_come(uint64_t place, uint64_t least) { return (int64_t)(place - least) >= 0; }

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

/* What is timed apart: in place, a reduction has a wait more. */
enum fs_team_kind {
    FS_KIND_BCAST,
    FS_KIND_REDUCE,
    FS_KIND_ALLREDUCE,
    FS_KIND_ALLREDUCE_IN_PLACE,
    FS_KIND_REDUCE_SCATTER,
    FS_KIND_ALLGATHER,
    FS_KIND_ALLTOALL,
    FS_KINDS
};

/* How long data go: through the buffers; read out of their givers' memory; the same, and nobody reads any results. */
enum fs_team_way { FS_WAY_BUFFERS, FS_WAY_DIRECT, FS_WAY_WHOLE, FS_WAYS };

struct fs_team_ways {
    uint64_t cost[FS_WAYS]; /* ticks for 16 KiB until everybody was done, lately; 0: unknown */
    struct fs_team_times {  /* of the trial under way: the least and the next one; 0: none */
        uint64_t least, next;
    } fresh[FS_WAYS];
    uint32_t uses;
    uint8_t best, sits_out[FS_WAYS]; /* trials */
};

struct fs_team_trial {
    struct fs_team_times *fresh; /* that this collective's duration will change, or NULL */
    uint64_t start;
    size_t bytes;
};

struct fs_team {
    struct fs_team_header *header;
    struct fs_team_member *own;
    unsigned char *buffers; /* of member 0; the others' follow */
    size_t mapped;
    int index, size, crowded, at_once;
    uint32_t generation;             /* a forked child is no member */
    uint64_t number;                 /* of the collective under way or next */
    uint64_t all_done;               /* everybody is known to be done up to this place */
    uint64_t until[FS_TEAM_BUFFERS]; /* my buffer is free when its readers are done up to this place */
    int reader[FS_TEAM_BUFFERS];     /* its only reader, or -1 */
    enum fs_team_kept kept;
    struct fs_team_ways ways[FS_KINDS][FS_TEAM_CLASSES];
    struct fs_team_trial trial;
    unsigned char *scratch;             /* two blocks, once they were needed */
    struct fs_cma_identity *identities; /* NULL: nobody reads another's memory */
    struct fs_team_hooks hooks;
    uint64_t moved_at;
    uint32_t yields_beside;
    int left; /* the leave hook was called */
    int failure, culprit;
    int *bells;
    int *watches;
    unsigned char dead[FS_TEAM_MOST];
    struct pollfd *polled;
};

static inline struct fs_team_cell *fs_team_cell(struct fs_team *team, int member)
{
    return &team->header->members[member].cells[team->number % FS_TEAM_CELLS];
}

/* Buffers are used in turn, by collectives and by the steps of one. */
static inline int fs_team_slot(const struct fs_team *team, uint64_t step)
{
    return (int)((team->number + step) % FS_TEAM_BUFFERS);
}

static inline unsigned char *fs_team_buffer(const struct fs_team *team, int member, uint64_t step)
{
    return team->buffers + ((size_t)member * FS_TEAM_BUFFERS + (size_t)fs_team_slot(team, step)) * FS_TEAM_BUFFER;
}

/* A buffer, or a cell, cut into a part for each member. */
static inline size_t fs_team_part(const struct fs_team *team) { return FS_TEAM_BUFFER / (size_t)team->size / 64 * 64; }
static inline size_t fs_team_share(const struct fs_team *team, size_t bytes)
{
    return bytes / (size_t)team->size / 8 * 8;
}

#endif
