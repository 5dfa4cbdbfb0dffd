/* The pointer that the members of a file share: a number in memory that each of them maps, and may write anything to.
 *
 * It counts etypes.  What is no place in a file is refused, and left as it is. */
#ifndef FASTSOCK_FILES_POINTER_H
#define FASTSOCK_FILES_POINTER_H

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

struct fs_file_pointer {
    _Atomic int64_t place;
};

/* Where it is, or -EOVERFLOW. */
static inline int64_t fs_file_pointer_read(struct fs_file_pointer *pointer)
{
    const int64_t place = atomic_load_explicit(&pointer->place, memory_order_acquire);
    return place < 0 ? -EOVERFLOW : place;
}

/* Moves it by so many.  Where it was, or -EOVERFLOW. */
static inline int64_t fs_file_pointer_take(struct fs_file_pointer *pointer, int64_t count)
{
    int64_t place = atomic_load_explicit(&pointer->place, memory_order_relaxed), after;
    do {
        if (place < 0 || count < 0 || __builtin_add_overflow(place, count, &after)) return -EOVERFLOW;
    } while (!atomic_compare_exchange_weak_explicit(&pointer->place, &place, after, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return place;
}

static inline void fs_file_pointer_set(struct fs_file_pointer *pointer, int64_t place)
{
    atomic_store_explicit(&pointer->place, place, memory_order_release);
}

#endif
