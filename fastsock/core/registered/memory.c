#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "registered.h"
#include "sealed.h"
#include "system.h"

#define LARGE_PAGE ((size_t)2 << 20)
#define BLOCK 512u /* what st_blocks counts */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

int fs_memory_make(size_t size)
{
    if (size == 0 || size > INT64_MAX) return -EINVAL;
    int memory = fs_sealed_create("fastsock-buffer", size);
    return memory == -EFBIG ? -ENOMEM : memory;
}

int fs_memory_check(int memory, uint64_t expected)
{
    int64_t found = fs_sealed_bytes(memory);
    if (found < 0) return (int)found;
    return found > 0 && (uint64_t)found == expected ? 0 : -EPROTO;
}

/* Whether all its pages exist: to map them allocates nothing. */
static int is_full(int memory, size_t size)
{
    struct stat status;
    return fstat(memory, &status) == 0 && (uint64_t)status.st_blocks >= size / BLOCK;
}

static int map_error(void) { return errno == EAGAIN ? -ENOMEM : -errno; }

void *fs_memory_map(int memory, size_t size, int *error)
{
    const int access = PROT_READ | PROT_WRITE;
    const int how = MAP_SHARED | (is_full(memory, size) ? MAP_POPULATE : 0);
    const size_t spare = size >= LARGE_PAGE ? LARGE_PAGE : 0;
    *error = -ENOMEM;
    if (size > SIZE_MAX - 2 * LARGE_PAGE || !fs_may_map(size + spare)) return NULL;
    if (spare == 0) {
        void *start = mmap(NULL, size, access, how, memory, 0);
        if (start == MAP_FAILED) *error = map_error();
        return start == MAP_FAILED ? NULL : start;
    }
    /* a place where large pages fit; what is left of it at both sides goes back */
    unsigned char *place = mmap(NULL, size + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
        *error = map_error();
        return NULL;
    }
    const size_t before = (LARGE_PAGE - (uintptr_t)place % LARGE_PAGE) % LARGE_PAGE;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (size + page - 1) / page * page;
    unsigned char *start = mmap(place + before, size, access, how | MAP_FIXED, memory, 0);
    if (start == MAP_FAILED) {
        *error = map_error();
        munmap(place, size + spare);
        return NULL;
    }
    if (before > 0) munmap(place, before);
    if (before + whole < size + spare) munmap(start + whole, size + spare - before - whole);
    madvise(start, size, MADV_HUGEPAGE); /* a wish */
    return start;
}

void fs_memory_unmap(void *start, size_t size) { munmap(start, size); }

int fs_memory_fill(int memory, void *start, size_t size)
{
    if (size >= LARGE_PAGE) madvise(start, size / LARGE_PAGE * LARGE_PAGE, MADV_COLLAPSE); /* a wish */
    /* here too little memory is an error, where a later touch of the page would be a signal */
    if (fallocate(memory, 0, 0, (off_t)size) == 0 || errno == EOPNOTSUPP) return 0;
    return errno == ENOSPC ? -ENOMEM : -errno;
}
