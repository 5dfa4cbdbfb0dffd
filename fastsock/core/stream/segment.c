#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "end.h"
#include "sealed.h"
#include "system.h"

#define PAGE 4096u
#define SMALLEST 4096u
#define LARGEST (64u << 20)

static size_t header_bytes(void) { return (sizeof(struct fs_segment_header) + PAGE - 1) & ~(size_t)(PAGE - 1); }

unsigned char *fs_segment_rings(const struct fs_segment *segment)
{
    return (unsigned char *)segment->header + header_bytes();
}

static size_t segment_bytes(uint64_t small) { return header_bytes() + 2 * small * FS_GROWTH; }

static int size_is_sane(uint32_t small) { return small >= SMALLEST && small <= LARGEST && (small & (small - 1)) == 0; }

size_t fs_segment_bytes(uint32_t small_bytes) { return size_is_sane(small_bytes) ? segment_bytes(small_bytes) : 0; }

static void format(struct fs_segment_header *header, uint32_t small_bytes)
{
    header->version = FS_VERSION;
    header->small_bytes = small_bytes;
    for (int side = 0; side < 2; side++) atomic_store(&header->direction[side].grown_at, FS_NOT_GROWN);
    header->magic = FS_MAGIC;
}

int fs_segment_format(void *memory, size_t size, uint32_t small_bytes)
{
    if (!size_is_sane(small_bytes) || segment_bytes(small_bytes) > size) return -EINVAL;
    format(memory, small_bytes);
    return 0;
}

/* Sealed memory with `mapped` bytes of it in reach and formatted; or NULL, and `memory` is -errno. */
static void *make_formatted(uint32_t small_bytes, size_t mapped, int *memory)
{
    int error = 0;
    *memory = size_is_sane(small_bytes) ? fs_sealed_create("fastsock", segment_bytes(small_bytes)) : -EINVAL;
    if (*memory < 0) return NULL;
    void *header = fs_sealed_map(*memory, mapped, &error);
    if (header == NULL) {
        close(*memory);
        *memory = error;
        return NULL;
    }
    format(header, small_bytes);
    return header;
}

int fs_segment_create(uint32_t small_bytes)
{
    int memory;
    void *header = make_formatted(small_bytes, sizeof(struct fs_segment_header), &memory);
    if (header != NULL) munmap(header, sizeof(struct fs_segment_header));
    return memory;
}

struct fs_segment *fs_segment_make(uint32_t small_bytes, int *memory)
{
    int error = 0;
    size_t size = fs_segment_bytes(small_bytes);
    void *header = make_formatted(small_bytes, size, memory);
    struct fs_segment *segment = header == NULL ? NULL : fs_segment_adopt(header, size, munmap, &error);
    if (header != NULL && segment == NULL) {
        close(*memory);
        *memory = error;
    }
    return segment;
}

struct fs_segment *fs_segment_adopt(void *memory, size_t size, int (*unmap)(void *, size_t), int *error)
{
    struct fs_segment_header *header = memory;
    struct fs_segment *segment = NULL;
    *error = -EPROTO;
    if (size >= header_bytes() && (uintptr_t)memory % PAGE == 0) {
        uint32_t small = *(volatile uint32_t *)&header->small_bytes; /* read once: it may change under us */
        if (header->magic == FS_MAGIC && header->version == FS_VERSION && size_is_sane(small) &&
            segment_bytes(small) == size) {
            segment = malloc(sizeof *segment);
            *error = segment == NULL ? -ENOMEM : 0;
        }
        if (segment != NULL) *segment = (struct fs_segment){1, header, size, small, unmap};
    }
    if (segment == NULL) unmap(memory, size);
    return segment;
}

/* The descriptor may come from the other process: what it claims is checked before a byte of it is used. */
struct fs_segment *fs_segment_map(int memory, int *error)
{
    int64_t size = fs_sealed_bytes(memory);
    *error = size < 0 ? (int)size : -EPROTO;
    if (size < (int64_t)header_bytes() || (uint64_t)size > segment_bytes(LARGEST)) return NULL;
    void *mapped = fs_sealed_map(memory, (size_t)size, error);
    return mapped == NULL ? NULL : fs_segment_adopt(mapped, (size_t)size, munmap, error);
}

struct fs_segment *fs_segment_hold(struct fs_segment *segment)
{
    atomic_fetch_add(&segment->holders, 1);
    return segment;
}

void fs_segment_drop(struct fs_segment *segment)
{
    if (atomic_fetch_sub(&segment->holders, 1) != 1) return;
    segment->unmap(segment->header, segment->mapped);
    free(segment);
}
