/* What a process shows of its connections to other processes of its user: `fastsock top` reads it.
 *
 * It is a file in /dev/shm/fastsock-UID, a folder that only that user may enter.  The process maps it and stores counts
 * there, in its own calls: there is no thread, no port and no lock.  It never reads them.  A reader checks each word.
 *
 * The file's name is the process's number and that of its PID namespace.  It goes when the process ends.  Where the process
 * was killed, the words `started` and `stack` tell that it is nobody's: a reader, or the next process that makes a file,
 * removes it.  A forked child begins with a file of its own, once one of its connections lasts.
 */
#ifndef FASTSOCK_SHOWN_H
#define FASTSOCK_SHOWN_H

#include <stdatomic.h>
#include <stdint.h>

#include "system.h"

#define FS_SHOWN_MAGIC 0x314e574f48535346ull /* "FSSHOWN1" */

enum { FS_SHOWN_BYTES = 1 << 18, FS_SHOWN_EACH = 2 * FS_LINE, FS_SHOWN_MOST = FS_SHOWN_BYTES / FS_SHOWN_EACH - 1 };

/* One connection, from when it first looks for its other end until it is closed.  What others write is all in one line: that
 * of who sends, or of who receives. */
struct fs_shown {
    _Alignas(FS_LINE) _Atomic uint32_t serial; /* 0: none; another number for each connection */
    _Atomic int32_t descriptor;
    _Atomic uint32_t role, why, state;                       /* enum fs_role, fs_why, fs_record_state */
    _Atomic uint32_t peer;                                   /* the other end's process, 0: unknown */
    _Atomic uint64_t bytes_out, calls_out, wakes, extra_out; /* by memory; of TCP's bytes, those that are tokens */
    _Alignas(FS_LINE) _Atomic uint64_t bytes_in;
    _Atomic uint64_t calls_in, waits, extra_in;
};

struct fs_shown_head {
    _Atomic uint64_t magic; /* stored last */
    uint32_t bytes_each, most;
    int32_t process;
    uint32_t namespace;      /* of process numbers */
    uint64_t started, stack; /* as /proc/PID/stat has them; the stack is another one after exec */
    _Atomic uint32_t made;   /* places that have ever been taken: none behind them is */
    _Atomic uint32_t missed; /* connections that found no place */
};

_Static_assert(sizeof(struct fs_shown) == FS_SHOWN_EACH, "a reader knows where each lies");
_Static_assert(sizeof(struct fs_shown_head) <= FS_SHOWN_EACH, "the first place is the head");

/* As it is now.  Nobody else stores there. */
static inline void fs_show_count(_Atomic uint64_t *shown, const _Atomic uint64_t *counted)
{
    atomic_store_explicit(shown, atomic_load_explicit(counted, memory_order_relaxed), memory_order_relaxed);
}

/* NULL: there is no memory, or no place.  Then nothing is shown of the connection, and nothing else changes. */
struct fs_shown *fs_shown_take(int descriptor, uint32_t role);
void fs_shown_give(struct fs_shown *shown);

#endif
