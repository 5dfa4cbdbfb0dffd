#define _GNU_SOURCE
#include "cma_guard.h"

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "cma.h"
#include "system.h"

#define PAGE 4096u
#define TRIES 8
#define LONGEST_WRITE_NS 1000000000ull

/* Programs map nothing here by themselves.  Thread sanitizers let nobody map outside the first range, address
 * sanitizers have that one for themselves. */
static const struct {
    uint64_t lowest, pages;
} ranges[] = {{0x001000000000, 0x007000000000 / PAGE}, {0x200000000000, 0x300000000000 / PAGE}};

static void *map_within(uint64_t lowest, uint64_t pages)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t place;
        if (getrandom(&place, sizeof place, GRND_NONBLOCK) != sizeof place) return NULL;
        void *wanted = (void *)(uintptr_t)(lowest + place % pages * PAGE);
        void *page =
            mmap(wanted, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (page == MAP_FAILED) continue;
        if (page == wanted && madvise(page, PAGE, MADV_DONTFORK) == 0) return page; /* a child is somebody else */
        munmap(page, PAGE);
    }
    return NULL;
}

static void *map_anywhere(void)
{
    void *page = NULL;
    for (size_t i = 0; page == NULL && i < sizeof ranges / sizeof *ranges; i++)
        page = map_within(ranges[i].lowest, ranges[i].pages);
    return page;
}

static void unmap(const struct fs_guard *guard, void *page)
{
    if (page != NULL && guard->generation == fs_generation()) munmap(page, PAGE);
}

void fs_guard_open(struct fs_guard *guard, uint32_t writers)
{
    *guard = (struct fs_guard){.calls = map_anywhere(), .generation = fs_generation(), .writers = writers};
    guard->gate = guard->calls != NULL ? map_anywhere() : NULL;
}

void fs_guard_shut(struct fs_guard *guard)
{
    unmap(guard, guard->gate);
    guard->gate = NULL;
}

void fs_guard_close(struct fs_guard *guard)
{
    fs_guard_shut(guard);
    unmap(guard, guard->calls);
    guard->calls = NULL;
}

int fs_guard_is_quiet(const struct fs_guard *guard)
{
    if (guard->calls == NULL || guard->generation != fs_generation()) return 1;
    for (uint32_t i = 0; i < guard->writers; i++)
        if (atomic_load(&guard->calls[i].begun) != atomic_load(&guard->calls[i].ended)) return 0;
    return 1;
}

int fs_guard_revoke(struct fs_guard *guard, int *late)
{
    if (guard->gate != NULL) guard->shut_at = fs_now_ns();
    fs_guard_shut(guard);
    *late = 0;
    if (fs_guard_is_quiet(guard)) return 1;
    *late = fs_now_ns() - guard->shut_at > LONGEST_WRITE_NS;
    return *late;
}

static void *place_of(uint64_t address) { return (void *)(uintptr_t)address; }

int fs_guarded_scatter(const struct fs_guard_place *there, uint64_t call, const void *source, size_t length,
                       struct iovec *places, int count)
{
    char one = 1;
    struct iovec from[] = {{&call, sizeof call}, {&one, 1}, {(void *)(uintptr_t)source, length}, {&call, sizeof call}};
    places[0] = (struct iovec){place_of(there->calls + offsetof(struct fs_guard_calls, begun)), sizeof call};
    places[1] = (struct iovec){place_of(there->gate), 1};
    places[FS_GUARD_BEFORE + count] =
        (struct iovec){place_of(there->calls + offsetof(struct fs_guard_calls, ended)), sizeof call};
    return fs_cma_write(there->process, from, 4, places, FS_GUARD_AROUND + count);
}

int fs_guarded_write(const struct fs_guard_place *there, uint64_t call, const void *source, uint64_t target,
                     size_t length)
{
    struct iovec places[FS_GUARD_AROUND + 1];
    places[FS_GUARD_BEFORE] = (struct iovec){place_of(target), length};
    return fs_guarded_scatter(there, call, source, length, places, 1);
}

int fs_guarded_end(const struct fs_guard_place *there, uint64_t call)
{
    char one = 1;
    struct iovec from[] = {{&one, 1}, {&call, sizeof call}};
    struct iovec to[] = {{place_of(there->gate), 1},
                         {place_of(there->calls + offsetof(struct fs_guard_calls, ended)), sizeof call}};
    return fs_cma_write(there->process, from, 2, to, 2);
}
