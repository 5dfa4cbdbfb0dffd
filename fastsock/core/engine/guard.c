/* What another process may write here, and until when.
 *
 * A process number can come to name somebody else between any look at it and the write, and a sender that was stopped
 * before its write would make it whenever it goes on.  So every write of a sender passes, in one system call, two pages
 * whose random addresses only the greeting told: where they are not mapped, the call ends before anything else is
 * written.  The first page counts the calls that began and, behind the bytes, those that ended.  The second one is a gate:
 * once it is taken away no call passes any more, and since the kernel looks for it after it has counted, equal
 * counts say from then on that none is between the two. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>

#include "cma.h"
#include "link.h"

#define PAGE 4096u
#define TRIES 8

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

void fs_guard_open(struct fs_link *link)
{
    struct fs_guard *guard = &link->guard;
    guard->calls = map_anywhere();
    guard->gate = guard->calls ? map_anywhere() : NULL;
}

void fs_guard_shut(struct fs_link *link)
{
    if (link->guard.gate) munmap(link->guard.gate, PAGE);
    link->guard.gate = NULL;
}

void fs_guard_close(struct fs_link *link)
{
    fs_guard_shut(link);
    if (link->guard.calls) munmap(link->guard.calls, PAGE);
    link->guard.calls = NULL;
}

int fs_guard_is_quiet(const struct fs_link *link)
{
    const struct fs_guard_calls *calls = link->guard.calls;
    return !calls || atomic_load(&calls->begun) == atomic_load(&calls->ended);
}

int fs_guarded_write(struct fs_link *link, void *source, uint64_t target, size_t length)
{
    uint64_t call = ++link->push_calls, there = link->greeting.calls;
    char one = 1;
    struct iovec from[] = {{&call, sizeof call}, {&one, 1}, {source, length}, {&call, sizeof call}};
    struct iovec to[] = {{(void *)(uintptr_t)(there + offsetof(struct fs_guard_calls, begun)), sizeof call},
                         {(void *)(uintptr_t)link->greeting.gate, 1},
                         {(void *)(uintptr_t)target, length},
                         {(void *)(uintptr_t)(there + offsetof(struct fs_guard_calls, ended)), sizeof call}};
    return fs_cma_write(link->process, from, to, 4);
}
