#include <errno.h>

#include "internal.h"

/* Small blocks lie in the root's cell, a share for each member; large ones go through its buffers, a part for each. */

static int give_small(struct fs_team *team, const unsigned char *source, const struct fs_blocks *blocks)
{
    size_t share = fs_team_share(team, FS_TEAM_INLINE);
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    unsigned char *data = fs_team_cell(team, team->index)->data;
    for (int i = 0; i < team->size; i++)
        if (i != team->index && blocks->sizes[i] > 0 && blocks->sizes[i] <= share)
            memcpy(data + (size_t)i * share, source + blocks->offsets[i], blocks->sizes[i]);
    fs_team_publish_cell(team);
    return 0;
}

static void fill(struct fs_team *team, const unsigned char *source, const struct fs_blocks *blocks, size_t step)
{
    size_t share = fs_team_share(team, FS_TEAM_INLINE), part = fs_team_part(team), at = step * part;
    unsigned char *buffer = fs_team_buffer(team, team->index, step);
    for (int i = 0; i < team->size; i++) {
        size_t bytes = blocks->sizes[i];
        if (i == team->index || bytes <= share || at >= bytes) continue;
        fs_copy(buffer + (size_t)i * part, source + blocks->offsets[i] + at, fs_smaller(bytes - at, part));
    }
}

static int give_large(struct fs_team *team, const unsigned char *source, const struct fs_blocks *blocks)
{
    size_t largest = 0;
    for (int i = 0; i < team->size; i++)
        if (i != team->index && blocks->sizes[i] > largest) largest = blocks->sizes[i];
    if (largest <= fs_team_share(team, FS_TEAM_INLINE)) return 0;
    uint64_t steps = fs_team_steps(largest, fs_team_part(team));
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        result = fs_team_claim(team, step, -1, fs_place(team->number, step + 1));
        if (result != 0) return result;
        fill(team, source, blocks, step);
        fs_team_publish_ready(team, step + 1);
    }
    return result;
}

static int scatter_as_root(struct fs_team *team, const unsigned char *source, const struct fs_blocks *blocks,
                           void *target)
{
    const unsigned char *own = source + blocks->offsets[team->index];
    int result = give_small(team, source, blocks);
    if (result == 0) result = give_large(team, source, blocks);
    if (result == 0 && target != NULL && target != own && blocks->sizes[team->index] > 0)
        fs_copy(target, own, blocks->sizes[team->index]);
    return result;
}

static int take(struct fs_team *team, unsigned char *target, size_t bytes, int root)
{
    size_t share = fs_team_share(team, FS_TEAM_INLINE), part = fs_team_part(team);
    if (bytes <= share) {
        int result = fs_team_await_cell(team, root);
        if (result == 0 && bytes > 0)
            memcpy(target, fs_team_cell(team, root)->data + (size_t)team->index * share, bytes);
        return result;
    }
    uint64_t steps = fs_team_steps(bytes, part);
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        size_t at = step * part;
        result = fs_team_await_ready(team, root, step + 1);
        if (result != 0) return result;
        fs_copy(target + at, fs_team_buffer(team, root, step) + (size_t)team->index * part,
                fs_smaller(bytes - at, part));
        fs_team_publish_done(team, step + 1);
    }
    return result;
}

int fs_team_scatter(struct fs_team *team, const void *source, const struct fs_blocks *blocks, void *target,
                    size_t bytes, int root)
{
    if (root < 0 || root >= team->size) return -EINVAL;
    int result = fs_team_begin(team, team->index == root ? (size_t)FS_TEAM_LONG : bytes);
    if (result != 0) return result;
    if (team->index == root) result = scatter_as_root(team, source, blocks, target);
    else result = take(team, target, bytes, root);
    return fs_team_end(team, result);
}
