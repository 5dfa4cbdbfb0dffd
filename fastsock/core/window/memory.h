/* The memory of a window, mapped by all its members, and what each keeps for itself. */
#ifndef FASTSOCK_WINDOW_MEMORY_H
#define FASTSOCK_WINDOW_MEMORY_H

#include <stdatomic.h>
#include <stdint.h>

#include "cma.h"
#include "cma_guard.h"
#include "system.h"
#include "window.h"

enum {
    FS_WINDOW_STRIPES = 16,
    FS_WINDOW_BLOCK = 4096, /* bytes that have one stripe: elements that begin there */
};

/* What a member has to do with the lock of a target. */
enum fs_window_state {
    FS_NOT_THERE,
    FS_SHARES,
    FS_WANTS_SHARED,
    FS_WANTS_ALONE,
    FS_HANDED, /* it wanted the lock alone, and is about to be its owner */
};

/* tests/model/window_lock.pml is its model. */
struct fs_window_lock {
    _Alignas(FS_LINE) _Atomic uint32_t owner; /* member + 1, or 0 */
    _Atomic uint8_t states[FS_WINDOW_MOST];
};

struct fs_window_stripe {
    _Alignas(FS_LINE / 2) _Atomic uint32_t owner; /* member + 1, or 0 */
};

/* How the others reach the memory of a member's own process. */
struct fs_window_door {
    struct fs_cma_identity identity; /* address 0: not at all */
    uint64_t calls, gate;            /* pages that whoever writes must pass (cma_guard.h) */
};

/* Each word is written by the member that it is of, but for the lock's and the stripes'. */
struct fs_window_member {
    struct fs_window_lock lock;
    _Alignas(FS_LINE) _Atomic uint32_t fences;                    /* that it has come to */
    _Alignas(FS_LINE) _Atomic uint32_t posts[FS_WINDOW_MOST];     /* to each origin */
    _Alignas(FS_LINE) _Atomic uint32_t completes[FS_WINDOW_MOST]; /* with each target */
    _Alignas(FS_LINE) struct fs_window_stripe stripes[FS_WINDOW_STRIPES];
    struct fs_window_door door;
};

struct fs_window_header {
    uint64_t magic, data_bytes;
    uint32_t version, size, crowded;
    _Alignas(FS_LINE) _Atomic uint32_t sleepers;
    _Atomic uint32_t rung; /* a futex: changes for those who sleep */
    _Alignas(FS_LINE) struct fs_window_member members[];
};

struct fs_window {
    struct fs_window_header *header;
    struct fs_window_member *members, *own;
    unsigned char *data;
    size_t mapped;
    int index, size, crowded, at_once;
    uint32_t generation;              /* a forked child is no member */
    uint32_t fences;                  /* that this member has come to */
    uint32_t posted[FS_WINDOW_MOST];  /* by this member to each origin */
    uint32_t started[FS_WINDOW_MOST]; /* posts of each target that this member has used */
    _Atomic uint8_t dead[FS_WINDOW_MOST];
    int watches[FS_WINDOW_MOST];
    struct fs_window_doors *doors; /* of all, once they are open; NULL: the data lie in this memory */
};

#endif
