/* What a process shows of its connections, its ranks and its daemons to other processes of its user: `fastsock top` reads it.
 *
 * It is a file in /dev/shm/fastsock-UID, a folder that only that user may enter.  The process maps it and stores counts
 * there, in its own calls: there is no thread, no port and no lock.  It never reads them.  A reader checks each word.
 *
 * The file's name is the process's number and that of its PID namespace.  It goes when the process ends.  Where the process
 * was killed, the words `started` and `stack` tell that it is nobody's: a reader, or the next process that makes a file,
 * removes it.  A forked child begins with a file of its own, once one of its connections lasts.
 *
 * A file is a head and places of one size.  The word `role` says what a place is of.
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

enum { FS_SHOWN_RANK = 3, FS_SHOWN_DAEMON = 4 }; /* roles behind those of connections (enum fs_role) */

/* What went through the message engine of a rank, since it began. */
struct fs_shown_rank {
    _Alignas(FS_LINE) _Atomic uint32_t serial;
    _Atomic int32_t process; /* whose it is: a forked child has its parent's */
    _Atomic uint32_t role, rank, size, unused;
    _Atomic uint64_t bytes_out, messages_out, collectives;
    _Alignas(FS_LINE) _Atomic uint64_t bytes_in;
    _Atomic uint64_t messages_in;
};

/* A daemon of remote objects. */
struct fs_shown_daemon {
    _Alignas(FS_LINE) _Atomic uint32_t serial;
    _Atomic int32_t process;
    _Atomic uint32_t role, port, connections, unused;
    _Atomic uint64_t calls, errors;
    _Alignas(FS_LINE) _Atomic uint64_t host[2]; /* an IPv6 address as it travels; IPv4's are mapped into those */
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
_Static_assert(sizeof(struct fs_shown_rank) == FS_SHOWN_EACH, "so does it here");
_Static_assert(sizeof(struct fs_shown_daemon) == FS_SHOWN_EACH, "and here");
_Static_assert(sizeof(struct fs_shown_head) <= FS_SHOWN_EACH, "the first place is the head");

/* How many there are now.  A lost count is only a statistic. */
static inline uint64_t fs_count(_Atomic uint64_t *counter, uint64_t amount)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed) + amount;
    atomic_store_explicit(counter, now, memory_order_relaxed);
    return now;
}

static inline void fs_show(_Atomic uint64_t *shown, uint64_t now)
{
    atomic_store_explicit(shown, now, memory_order_relaxed);
}

/* As it is now.  Nobody else stores there. */
static inline void fs_show_count(_Atomic uint64_t *shown, const _Atomic uint64_t *counted)
{
    fs_show(shown, atomic_load_explicit(counted, memory_order_relaxed));
}

/* NULL: there is no memory, or no place.  Then nothing is shown of it, and nothing else changes. */
struct fs_shown *fs_shown_take(int descriptor, uint32_t role);
struct fs_shown_rank *fs_shown_take_rank(int rank, int size);
struct fs_shown_daemon *fs_shown_take_daemon(const uint64_t host[2], uint32_t port);
void fs_shown_give(void *shown); /* one of the three, or NULL */

#endif
