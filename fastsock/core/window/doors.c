#define _GNU_SOURCE
#include "doors.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copy.h"
#include "waiting.h"

enum { LONG = 32 * 1024, PLACES = 128 };
_Static_assert(FS_WINDOW_MOST <= FS_GUARD_WRITERS, "each member has a count in the guard's page");
#define MOST_AT_ONCE ((size_t)1 << 30) /* the kernel moves less than 2 GiB */
#define LONGEST_DEATH_MS 500
#define LONGEST_END_NS 1000000000ull

int fs_window_open_door(struct fs_window *window)
{
    struct fs_window_doors *doors = calloc(1, sizeof *doors);
    if (doors == NULL) return -ENOMEM;
    pthread_mutex_init(&doors->writing, NULL);
    fs_guard_open(&doors->guard, FS_WINDOW_MOST);
    struct fs_window_door *own = &window->own->door;
    fs_team_identify(&own->identity);
    own->calls = (uint64_t)(uintptr_t)doors->guard.calls;
    own->gate = (uint64_t)(uintptr_t)doors->guard.gate;
    if (own->gate == 0) own->identity.address = 0;
    window->doors = doors;
    return 0;
}

static int is_same(const struct fs_cma_identity *one, const struct fs_cma_identity *other)
{
    return one->process == other->process && one->address == other->address && one->nonce == other->nonce;
}

static const struct fs_cma_identity *identity_of(const struct fs_window *window, int target)
{
    return &window->members[target].door.identity;
}

static struct fs_guard_place guard_of(const struct fs_window *window, int target)
{
    const struct fs_window_door *door = &window->members[target].door;
    const uint64_t own = door->calls + (uint64_t)window->index * sizeof(struct fs_guard_calls);
    return (struct fs_guard_place){door->identity.process, own, door->gate};
}

static int can_read(const struct fs_window *window, int target)
{
    struct iovec none[2];
    return identity_of(window, target)->address != 0 && fs_cma_gather(identity_of(window, target), none, 0, NULL, 0);
}

static int can_write(struct fs_window *window, int target)
{
    const struct fs_guard_place there = guard_of(window, target);
    return fs_guarded_write(&there, ++window->doors->calls[target], NULL, 0, 0);
}

int fs_window_meet_doors(struct fs_window *window)
{
    for (int i = 0; i < window->size; i++) {
        window->doors->is_here[i] = i == window->index || is_same(identity_of(window, i), &window->own->door.identity);
        if (!window->doors->is_here[i] && !(can_read(window, i) && can_write(window, i))) return 0;
    }
    return 1;
}

void fs_window_shut_door(struct fs_window *window)
{
    struct fs_window_doors *doors = window->doors;
    if (doors == NULL) return;
    const uint64_t until = fs_now_ns() + LONGEST_END_NS;
    fs_guard_shut(&doors->guard);
    /* what a member writes that is about to die: it is in the kernel, where no stop holds it */
    while (!fs_guard_is_quiet(&doors->guard) && fs_now_ns() < until) sched_yield();
    fs_guard_close(&doors->guard);
    pthread_mutex_destroy(&doors->writing);
    free(doors);
    window->doors = NULL;
}

/* ---- copies ---- */

static int check(const struct fs_window *window, int target)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    return target < 0 || target >= window->size || window->doors == NULL ? -EINVAL : 0;
}

/* Why a copy failed: its process is gone, or only the memory is.  Memory goes a moment before the process is seen to end. */
static int loss(struct fs_window *window, struct fs_window_call *call, int target)
{
    struct pollfd watch = {window->watches[target], POLLIN, 0};
    if (can_read(window, target)) return -EFAULT;
    if (poll(&watch, 1, LONGEST_DEATH_MS) <= 0) return -EFAULT;
    atomic_store(&window->dead[target], 1);
    call->culprit = target;
    return -EOWNERDEAD;
}

/* Of the arrays of places, those given begin behind FS_GUARD_BEFORE ones. */
static int gather(struct fs_window *window, struct fs_window_call *call, int target, struct iovec *places, int count,
                  void *into, size_t bytes)
{
    return fs_cma_gather(identity_of(window, target), places + FS_GUARD_BEFORE, count, into, bytes)
               ? 0
               : loss(window, call, target);
}

static int scatter(struct fs_window *window, struct fs_window_call *call, int target, struct iovec *places, int count,
                   const void *from, size_t bytes)
{
    struct fs_window_doors *doors = window->doors;
    const struct fs_guard_place there = guard_of(window, target);
    pthread_mutex_lock(&doors->writing);
    const uint64_t number = ++doors->calls[target];
    int written = fs_guarded_scatter(&there, number, from, bytes, places, count);
    if (!written) fs_guarded_end(&there, number);
    pthread_mutex_unlock(&doors->writing);
    return written ? 0 : loss(window, call, target);
}

int fs_window_read(struct fs_window *window, struct fs_window_call *call, int target, const void *memory, void *into,
                   size_t bytes)
{
    struct iovec places[FS_GUARD_AROUND + 1];
    int error = check(window, target), left = error == 0 && bytes >= LONG && fs_window_leave(call);
    for (size_t at = 0; error == 0 && at < bytes; at += MOST_AT_ONCE) {
        size_t length = bytes - at < MOST_AT_ONCE ? bytes - at : MOST_AT_ONCE;
        places[FS_GUARD_BEFORE] = (struct iovec){(char *)(uintptr_t)memory + at, length};
        if (fs_window_is_far(window, target))
            error = gather(window, call, target, places, 1, (char *)into + at, length);
        else fs_move((char *)into + at, (const char *)memory + at, length);
    }
    if (left) fs_window_enter(call);
    return error;
}

int fs_window_write(struct fs_window *window, struct fs_window_call *call, int target, void *memory, const void *from,
                    size_t bytes)
{
    struct iovec places[FS_GUARD_AROUND + 1];
    int error = check(window, target), left = error == 0 && bytes >= LONG && fs_window_leave(call);
    for (size_t at = 0; error == 0 && at < bytes; at += MOST_AT_ONCE) {
        size_t length = bytes - at < MOST_AT_ONCE ? bytes - at : MOST_AT_ONCE;
        places[FS_GUARD_BEFORE] = (struct iovec){(char *)memory + at, length};
        if (fs_window_is_far(window, target))
            error = scatter(window, call, target, places, 1, (const char *)from + at, length);
        else fs_move((char *)memory + at, (const char *)from + at, length);
    }
    if (left) fs_window_enter(call);
    return error;
}

int fs_window_read_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                         const struct fs_layout *layout, int64_t extent, unsigned char *packed, size_t from,
                         size_t bytes)
{
    struct iovec places[FS_GUARD_AROUND + PLACES];
    int error = check(window, target), left = error == 0 && bytes >= LONG && fs_window_leave(call);
    if (error == 0 && !fs_window_is_far(window, target)) {
        fs_pack(packed, memory, layout, extent, (int64_t)from, (int64_t)bytes);
        bytes = 0;
    }
    for (int64_t listed = 0; error == 0 && bytes > 0;
         packed += listed, from += (size_t)listed, bytes -= (size_t)listed) {
        const int64_t wanted = (int64_t)(bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE);
        int count = fs_list(places + FS_GUARD_BEFORE, PLACES, memory, layout, extent, (int64_t)from, wanted, &listed);
        error = gather(window, call, target, places, count, packed, (size_t)listed);
    }
    if (left) fs_window_enter(call);
    return error;
}

int fs_window_write_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                          const struct fs_layout *layout, int64_t extent, const unsigned char *packed, size_t from,
                          size_t bytes)
{
    struct iovec places[FS_GUARD_AROUND + PLACES];
    int error = check(window, target), left = error == 0 && bytes >= LONG && fs_window_leave(call);
    if (error == 0 && !fs_window_is_far(window, target)) {
        fs_unpack(packed, memory, layout, extent, (int64_t)from, (int64_t)bytes);
        bytes = 0;
    }
    for (int64_t listed = 0; error == 0 && bytes > 0;
         packed += listed, from += (size_t)listed, bytes -= (size_t)listed) {
        const int64_t wanted = (int64_t)(bytes < MOST_AT_ONCE ? bytes : MOST_AT_ONCE);
        int count = fs_list(places + FS_GUARD_BEFORE, PLACES, memory, layout, extent, (int64_t)from, wanted, &listed);
        error = scatter(window, call, target, places, count, packed, (size_t)listed);
    }
    if (left) fs_window_enter(call);
    return error;
}
