#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sealed.h"

#define MAGIC 0x31574f444e495746ull /* "FWINDOW1" */
#define VERSION 1u
#define PAGE 4096u

static size_t control_bytes(int size)
{
    size_t bytes = sizeof(struct fs_window_header) + (size_t)size * sizeof(struct fs_window_member);
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static int all_bytes(int size, uint64_t data_bytes, size_t *all)
{
    if (size < 1 || size > FS_WINDOW_MOST) return -EINVAL;
    if (data_bytes > (uint64_t)INT64_MAX - control_bytes(size)) return -ENOMEM;
    *all = control_bytes(size) + (size_t)data_bytes;
    return 0;
}

int fs_window_create_memory(int size, uint64_t data_bytes, int crowded)
{
    size_t all = 0;
    int error = all_bytes(size, data_bytes, &all);
    if (error != 0) return error;
    int memory = fs_sealed_create("fastsock-window", all);
    if (memory < 0) return memory;
    struct fs_window_header *header = fs_sealed_map(memory, sizeof *header, &error);
    if (header == NULL) {
        close(memory);
        return error;
    }
    header->version = VERSION;
    header->size = (uint32_t)size;
    header->crowded = crowded != 0;
    header->data_bytes = data_bytes;
    header->magic = MAGIC;
    munmap(header, sizeof *header);
    return memory;
}

static struct fs_window_header *map(int memory, int size, uint64_t data_bytes, size_t *all, int *error)
{
    *error = all_bytes(size, data_bytes, all);
    if (*error != 0) return NULL;
    struct fs_window_header *header = fs_sealed_join(memory, *all, error);
    if (header == NULL) return NULL;
    if (header->magic == MAGIC && header->version == VERSION && header->size == (uint32_t)size &&
        header->data_bytes == data_bytes)
        return header;
    *error = -EPROTO;
    munmap(header, *all);
    return NULL;
}

struct fs_window *fs_window_open(int memory, int index, int size, uint64_t data_bytes, const int *watches, int at_once,
                                 int *error)
{
    struct fs_window *window = calloc(1, sizeof *window);
    *error = window == NULL ? -ENOMEM : index < 0 || index >= size ? -EINVAL : 0;
    if (*error == 0) window->header = map(memory, size, data_bytes, &window->mapped, error);
    if (*error != 0) {
        free(window);
        return NULL;
    }
    window->members = window->header->members;
    window->own = &window->members[index];
    window->data = (unsigned char *)window->header + control_bytes(size);
    window->index = index, window->size = size;
    window->at_once = at_once;
    window->crowded = window->header->crowded != 0;
    window->generation = fs_generation();
    memcpy(window->watches, watches, (size_t)size * sizeof *watches);
    window->watches[index] = -1;
    return window;
}

void fs_window_close(struct fs_window *window)
{
    munmap(window->header, window->mapped);
    free(window);
}

unsigned char *fs_window_data(const struct fs_window *window) { return window->data; }

int fs_window_is_inherited(const struct fs_window *window) { return window->generation != fs_generation(); }
