#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"
#include "sealed.h"

#define MAGIC 0x314d414554534646ull /* "FFSTEAM1" */
#define VERSION 2u
#define PAGE 4096u

static size_t header_bytes(int size)
{
    size_t bytes = sizeof(struct fs_team_header) + (size_t)size * sizeof(struct fs_team_member);
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static size_t memory_bytes(int size) { return header_bytes(size) + (size_t)size * FS_TEAM_BUFFERS * FS_TEAM_BUFFER; }

static void prepare(struct fs_team_header *header, int size, int crowded)
{
    for (int i = 0; i < size; i++) {
        atomic_store(&header->members[i].ready, fs_place(FS_TEAM_FIRST, 0));
        atomic_store(&header->members[i].done, fs_place(FS_TEAM_FIRST, 0));
    }
    header->version = VERSION;
    header->size = (uint32_t)size;
    header->crowded = crowded != 0;
    header->magic = MAGIC;
}

int fs_team_create_memory(int size, int crowded)
{
    if (size < 1 || size > FS_TEAM_MOST) return -EINVAL;
    int error = 0, memory = fs_sealed_create("fastsock-team", memory_bytes(size));
    if (memory < 0) return memory;
    struct fs_team_header *header = fs_sealed_map(memory, header_bytes(size), &error);
    if (header == NULL) {
        close(memory);
        return error;
    }
    prepare(header, size, crowded);
    munmap(header, header_bytes(size));
    return memory;
}

static struct fs_team_header *map(int memory, int size, int *error)
{
    *error = -EINVAL;
    if (size < 1 || size > FS_TEAM_MOST) return NULL;
    struct fs_team_header *header = fs_sealed_join(memory, memory_bytes(size), error);
    if (header == NULL) return NULL;
    if (header->magic == MAGIC && header->version == VERSION && header->size == (uint32_t)size) return header;
    *error = -EPROTO;
    munmap(header, memory_bytes(size));
    return NULL;
}

static int *copy_of(const int *values, int many)
{
    int *copy = malloc((size_t)many * sizeof *copy);
    if (copy != NULL) memcpy(copy, values, (size_t)many * sizeof *copy);
    return copy;
}

void fs_team_close(struct fs_team *team)
{
    if (team->header != NULL) munmap(team->header, team->mapped);
    free(team->bells);
    free(team->watches);
    free(team->polled);
    free(team->identities);
    free(team->scratch);
    free(team);
}

struct fs_team *fs_team_open(int memory, int index, int size, const int *bells, const int *watches, int at_once,
                             const struct fs_team_hooks *hooks, int *error)
{
    struct fs_team *team = calloc(1, sizeof *team);
    *error = team == NULL ? -ENOMEM : index < 0 || index >= size ? -EINVAL : 0;
    if (*error == 0) team->header = map(memory, size, error);
    if (*error == 0) {
        team->bells = copy_of(bells, size);
        team->watches = copy_of(watches, size);
        team->polled = calloc((size_t)size + 1, sizeof *team->polled);
        if (team->bells == NULL || team->watches == NULL || team->polled == NULL) *error = -ENOMEM;
    }
    if (*error != 0) {
        if (team != NULL) fs_team_close(team);
        return NULL;
    }
    team->mapped = memory_bytes(size);
    team->own = &team->header->members[index];
    team->buffers = (unsigned char *)team->header + header_bytes(size);
    team->index = index, team->size = size, team->at_once = at_once;
    team->crowded = team->header->crowded != 0;
    team->watches[index] = -1;
    team->generation = fs_generation();
    team->number = FS_TEAM_FIRST;
    team->all_done = fs_place(FS_TEAM_FIRST, 0);
    for (int i = 0; i < FS_TEAM_BUFFERS; i++) team->until[i] = team->all_done, team->reader[i] = -1;
    team->hooks = *hooks;
    team->culprit = -1;
    return team;
}

void fs_team_keep(struct fs_team *team, enum fs_team_kept kept) { team->kept = kept; }

int fs_team_culprit(const struct fs_team *team) { return team->culprit; }
