/* Allreduce of long arrays that are read where they lie: everybody reduces its own slice out of the others' sources,
 * then reads the other slices out of their targets.  Each byte moves twice, and nobody writes where another reads. */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

static size_t slice_start(const struct fs_team *team, const struct fs_reduction *what, int member)
{
    /* lines of one array are lines of the other's part: copies by the kernel are faster then */
    size_t even = what->element < 64 ? 64 / what->element : 1;
    size_t slice = (what->count / (size_t)team->size / even + 1) * even;
    return fs_smaller((size_t)member * slice, what->count);
}

/* In place, the member's own piece is still needed after the first two of lower members went together. */
static int overwrites_own(const struct fs_team *team, const unsigned char *own, const unsigned char *target)
{
    return own == target && team->index > 1;
}

int fs_team_reduce_block(struct fs_team *team, const struct fs_reduction *what, const uint64_t *sources,
                         const unsigned char *own, unsigned char *target, size_t first, size_t count)
{
    unsigned char *first_one = team->scratch, *other = first_one + FS_TEAM_BLOCK;
    size_t at = first * what->element, bytes = count * what->element;
    unsigned char *sum = overwrites_own(team, own, target) ? first_one : target + at;
    for (int i = 0; i < team->size; i++) {
        const unsigned char *piece = own + at;
        if (i != team->index) {
            piece = i == 0 ? first_one : other;
            int result = fs_team_pull(team, i, sources[i] + at, (unsigned char *)piece, bytes);
            if (result != 0) return result;
        }
        /* the first two go together: the first one needs no copy */
        if (i == 1) what->kernel(team->index == 0 ? own + at : first_one, piece, sum, count);
        else if (i > 1) what->kernel(sum, piece, sum, count);
    }
    if (sum != target + at) fs_copy(target + at, sum, bytes);
    return 0;
}

int fs_team_have_scratch(struct fs_team *team)
{
    if (team->scratch == NULL) team->scratch = malloc(2 * FS_TEAM_BLOCK);
    return team->scratch != NULL;
}

static int reduce_run(struct fs_team *team, const struct fs_reduction *what, const uint64_t *sources,
                      const unsigned char *source, unsigned char *target, size_t from, size_t end)
{
    size_t most = FS_TEAM_BLOCK / what->element;
    int result = 0;
    for (size_t at = from; at < end && result == 0; at += most)
        result = fs_team_reduce_block(team, what, sources, source, target, at, fs_smaller(end - at, most));
    return result;
}

static int collect(struct fs_team *team, const struct fs_reduction *what, const uint64_t *targets,
                   unsigned char *target)
{
    int result = 0;
    for (int step = 1; step < team->size && result == 0; step++) {
        int from = (team->index + step) % team->size;
        size_t at = slice_start(team, what, from) * what->element;
        size_t bytes = slice_start(team, what, from + 1) * what->element - at;
        if (bytes > 0) result = fs_team_await_ready(team, from, 1);
        if (bytes > 0 && result == 0) result = fs_team_pull(team, from, targets[from] + at, target + at, bytes);
    }
    return result;
}

int fs_allreduce_direct(struct fs_team *team, const unsigned char *source, unsigned char *target,
                        const struct fs_reduction *what, const uint64_t *sources, const uint64_t *targets)
{
    size_t from = slice_start(team, what, team->index), end = slice_start(team, what, team->index + 1);
    int result = reduce_run(team, what, sources, source, target, from, end);
    if (result != 0) return result;
    fs_team_publish_ready(team, 1);
    /* in place, results come where others may still read: only when they have reduced too */
    result = source == target ? fs_team_await_all_ready(team, 1) : 0;
    if (result == 0) result = collect(team, what, targets, target);
    return result == 0 ? fs_team_part_after(team, sources) : result;
}

int fs_allreduce_whole(struct fs_team *team, const unsigned char *source, unsigned char *target,
                       const struct fs_reduction *what, const uint64_t *sources)
{
    int result = reduce_run(team, what, sources, source, target, 0, what->count);
    return result == 0 ? fs_team_part_after(team, sources) : result;
}
