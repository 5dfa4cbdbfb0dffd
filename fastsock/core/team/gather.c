#include <errno.h>

#include "internal.h"

static int give(struct fs_team *team, const unsigned char *source, size_t bytes, int root)
{
    if (bytes <= FS_TEAM_INLINE) {
        int result = fs_team_claim_cell(team);
        if (result != 0) return result;
        if (bytes > 0) memcpy(fs_team_cell(team, team->index)->data, source, bytes);
        fs_team_publish_cell(team);
        return 0;
    }
    size_t piece = fs_team_piece(team, bytes);
    uint64_t steps = fs_team_steps(bytes, piece);
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        size_t at = step * piece;
        result = fs_team_claim(team, step, root, fs_place(team->number, step + 1));
        if (result != 0) return result;
        fs_copy(fs_team_buffer(team, team->index, step), source + at, fs_smaller(bytes - at, piece));
        fs_team_publish_ready(team, step + 1);
    }
    return result;
}

static int take_small(struct fs_team *team, unsigned char *target, const struct fs_blocks *blocks)
{
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++) {
        if (i == team->index || blocks->sizes[i] > FS_TEAM_INLINE) continue;
        result = fs_team_await_cell(team, i);
        if (result == 0 && blocks->sizes[i] > 0)
            memcpy(target + blocks->offsets[i], fs_team_cell(team, i)->data, blocks->sizes[i]);
    }
    return result;
}

/* The same step of everybody, then the next one: so nobody's buffers stay full while the root empties another's. */
static int take_large(struct fs_team *team, unsigned char *target, const struct fs_blocks *blocks)
{
    int result = 0, more = 1;
    for (uint64_t step = 0; more && result == 0; step++) {
        more = 0;
        for (int i = 0; i < team->size && result == 0; i++) {
            size_t bytes = blocks->sizes[i], piece = fs_team_piece(team, bytes), at = step * piece;
            if (i == team->index || bytes <= FS_TEAM_INLINE || at >= bytes) continue;
            result = fs_team_await_ready(team, i, step + 1);
            if (result != 0) return result;
            fs_copy(target + blocks->offsets[i] + at, fs_team_buffer(team, i, step), fs_smaller(bytes - at, piece));
            more = 1;
        }
        if (more) fs_team_publish_done(team, step + 1);
    }
    return result;
}

static int gather_as_root(struct fs_team *team, const void *source, unsigned char *target,
                          const struct fs_blocks *blocks)
{
    unsigned char *own = target + blocks->offsets[team->index];
    int result = take_small(team, target, blocks);
    if (result == 0) result = take_large(team, target, blocks);
    if (result == 0 && source != NULL && source != own && blocks->sizes[team->index] > 0)
        fs_copy(own, source, blocks->sizes[team->index]);
    return result;
}

int fs_team_gather(struct fs_team *team, const void *source, size_t bytes, void *target, const struct fs_blocks *blocks,
                   int root)
{
    if (root < 0 || root >= team->size) return -EINVAL;
    int result = fs_team_begin(team, team->index == root ? (size_t)FS_TEAM_LONG : bytes);
    if (result != 0) return result;
    if (team->index == root) result = gather_as_root(team, source, target, blocks);
    else result = give(team, source, bytes, root);
    return fs_team_end(team, result);
}
