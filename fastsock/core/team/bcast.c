#include <errno.h>

#include "internal.h"

static int bcast_small(struct fs_team *team, void *data, size_t bytes, int root)
{
    struct fs_team_cell *cell = fs_team_cell(team, root);
    if (team->index != root) {
        int result = fs_team_await_cell(team, root);
        if (result == 0) memcpy(data, cell->data, bytes);
        return result;
    }
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    memcpy(cell->data, data, bytes);
    fs_team_publish_cell(team);
    return 0;
}

/* The root fills buffer after buffer while the others empty them. */
static int bcast_buffered(struct fs_team *team, unsigned char *data, size_t bytes, int root)
{
    size_t piece = fs_team_piece(team, bytes);
    uint64_t steps = fs_team_steps(bytes, piece);
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        size_t at = step * piece, part = fs_smaller(bytes - at, piece);
        unsigned char *buffer = fs_team_buffer(team, root, step);
        if (team->index == root) {
            result = fs_team_claim(team, step, -1, fs_place(team->number, step + 1));
            if (result != 0) return result;
            fs_copy(buffer, data + at, part);
            fs_team_publish_ready(team, step + 1);
        } else {
            result = fs_team_await_ready(team, root, step + 1);
            if (result != 0) return result;
            fs_copy(data + at, buffer, part);
            fs_team_publish_done(team, step + 1);
        }
    }
    return result;
}

/* The root says first which way it takes: where its data lie, or 0. */
static int bcast_large(struct fs_team *team, void *data, size_t bytes, int root)
{
    uint64_t address = 0;
    int result = team->index == root ? fs_team_claim_cell(team) : fs_team_await_cell(team, root);
    if (result != 0) return result;
    if (team->index != root) {
        memcpy(&address, fs_team_cell(team, root)->data, sizeof address);
        return address != 0 ? fs_team_pull(team, root, address, data, bytes) : bcast_buffered(team, data, bytes, root);
    }
    if (fs_team_choose(team, FS_KIND_BCAST, bytes, 2) == FS_WAY_DIRECT) address = (uint64_t)(uintptr_t)data;
    memcpy(fs_team_cell(team, root)->data, &address, sizeof address);
    fs_team_publish_cell(team);
    if (address == 0) return bcast_buffered(team, data, bytes, root);
    return fs_team_await_done(team, fs_place(team->number + 1, 0));
}

int fs_team_bcast(struct fs_team *team, void *data, size_t bytes, int root)
{
    if (root < 0 || root >= team->size) return -EINVAL;
    int result = fs_team_begin(team, bytes);
    if (result != 0) return result;
    if (team->size > 1 && bytes <= FS_TEAM_INLINE) result = bcast_small(team, data, bytes, root);
    else if (team->size > 1 && bytes < FS_TEAM_CMA) result = bcast_buffered(team, data, bytes, root);
    else if (team->size > 1) result = bcast_large(team, data, bytes, root);
    return fs_team_end(team, result);
}
