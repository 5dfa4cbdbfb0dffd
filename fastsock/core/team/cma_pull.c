/* Data that are read straight out of another member's memory, by the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

#define LONGEST_READ ((size_t)1 << 30)

static uint64_t own_nonce;
static uint32_t
    own_nonce_generation; /* a forked process has its own: numbers alone tell none of other PID namespaces */

void fs_team_identify(struct fs_cma_identity *own)
{
    if (own_nonce_generation != fs_generation()) own_nonce = fs_cma_nonce();
    own_nonce_generation = fs_generation();
    *own = (struct fs_cma_identity){getpid(), (uint64_t)(uintptr_t)&own_nonce, own_nonce};
}

static int read_there(const struct fs_cma_identity *there, uint64_t address, void *target, size_t bytes)
{
    struct iovec parts[2] = {{target, bytes}};
    return fs_cma_read(there, address, parts, 1);
}

/* The way through buffers is timed, so they are no memory that is touched for the first time.  A crowded team goes that
 * way long before it compares, and of many members few would use theirs. */
static void make_buffers(struct fs_team *team)
{
    if (team->crowded || team->size > FS_FEW_PROCESSES) return;
    for (uint64_t step = 0; step < FS_TEAM_BUFFERS; step++)
        fs_populate(fs_team_buffer(team, team->index, step), FS_TEAM_FRONT);
}

int fs_team_meet(struct fs_team *team, const struct fs_cma_identity *all)
{
    for (int i = 0; i < team->size; i++) {
        if (i == team->index) continue;
        if (all[i].address == 0 || !read_there(&all[i], all[i].address, &(uint64_t){0}, sizeof(uint64_t))) return 0;
    }
    team->identities = malloc((size_t)team->size * sizeof *all);
    if (team->identities == NULL) return 0;
    memcpy(team->identities, all, (size_t)team->size * sizeof *all);
    make_buffers(team);
    atomic_fetch_add(&team->header->readers, 1);
    return 1;
}

int fs_team_pull(struct fs_team *team, int member, uint64_t address, void *target, size_t bytes)
{
    if (team->identities == NULL) return -EPROTO;
    for (size_t at = 0; at < bytes; at += LONGEST_READ)
        if (!read_there(&team->identities[member], address + at, (unsigned char *)target + at,
                        fs_smaller(bytes - at, LONGEST_READ)))
            return fs_team_lost(team, member);
    return 0;
}
