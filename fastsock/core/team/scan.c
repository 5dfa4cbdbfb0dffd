#include <errno.h>

#include "internal.h"

struct scan {
    const unsigned char *source;
    unsigned char *target;
    size_t count, element;
    fs_kernel *kernel;
    int inclusive;
};

/* Those before this member, and itself where it counts; `pieces` has theirs, behind them comes its own. */
static void reduce_prefix(struct fs_team *team, const struct scan *scan, const unsigned char **pieces, size_t first,
                          size_t count)
{
    int many = team->index + scan->inclusive;
    pieces[team->index] = scan->source + first * scan->element;
    if (many == 0) return;
    fs_reduce_pieces(scan->kernel, scan->element, pieces, many, scan->target + first * scan->element, count);
}

static int scan_small(struct fs_team *team, const struct scan *scan)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    memcpy(fs_team_cell(team, team->index)->data, scan->source, scan->count * scan->element);
    fs_team_publish_cell(team);
    for (int i = 0; i < team->index && result == 0; i++) {
        result = fs_team_await_cell(team, i);
        pieces[i] = fs_team_cell(team, i)->data;
    }
    if (result == 0) reduce_prefix(team, scan, pieces, 0, scan->count);
    return result;
}

static int scan_step(struct fs_team *team, const struct scan *scan, size_t first, size_t count, uint64_t step)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    int result = fs_team_claim(team, step, -1, fs_place(team->number, step + 1));
    if (result != 0) return result;
    fs_copy(fs_team_buffer(team, team->index, step), scan->source + first * scan->element, count * scan->element);
    fs_team_publish_ready(team, step + 1);
    for (int i = 0; i < team->index && result == 0; i++) {
        result = fs_team_await_ready(team, i, step + 1);
        pieces[i] = fs_team_buffer(team, i, step);
    }
    if (result != 0) return result;
    reduce_prefix(team, scan, pieces, first, count);
    fs_team_publish_done(team, step + 1);
    return 0;
}

static int scan_large(struct fs_team *team, const struct scan *scan)
{
    size_t most = fs_team_piece(team, scan->count * scan->element) / scan->element;
    uint64_t steps = fs_team_steps(scan->count, most);
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        size_t first = step * most;
        result = scan_step(team, scan, first, fs_smaller(scan->count - first, most), step);
    }
    return result;
}

static int scan_any(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation,
                    int inclusive)
{
    struct scan scan = {source, target, count, fs_type_size(type), fs_kernel_of(operation, type), inclusive};
    if (scan.kernel == NULL) return -EINVAL;
    if (source == NULL) scan.source = target;
    int result = fs_team_begin(team, count * scan.element);
    if (result != 0) return result;
    if (count * scan.element <= FS_TEAM_INLINE) result = scan_small(team, &scan);
    else result = scan_large(team, &scan);
    return fs_team_end(team, result);
}

int fs_team_scan(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation)
{
    return scan_any(team, source, target, count, type, operation, 1);
}

int fs_team_exscan(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation)
{
    return scan_any(team, source, target, count, type, operation, 0);
}
