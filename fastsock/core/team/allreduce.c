#include <errno.h>

#include "internal.h"

/* Everybody reduces everything, in the same order. */
static int allreduce_small(struct fs_team *team, const void *source, void *target, const struct fs_reduction *what)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    size_t bytes = what->count * what->element;
    int in_line = bytes <= FS_TEAM_INLINE, result = fs_team_claim_cell(team);
    if (result == 0 && !in_line) result = fs_team_claim(team, 0, -1, fs_place(team->number + 1, 0));
    if (result != 0) return result;
    for (int i = 0; i < team->size; i++) pieces[i] = in_line ? fs_team_cell(team, i)->data : fs_team_buffer(team, i, 0);
    unsigned char *own = in_line ? fs_team_cell(team, team->index)->data : fs_team_buffer(team, team->index, 0);
    fs_copy(own, source, bytes);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    if (result == 0) fs_reduce_pieces(what->kernel, what->element, pieces, team->size, target, what->count);
    return result;
}

struct said {
    uint64_t way, source, target;
};

/* Of two members each may read the other's whole array, which costs as many bytes as a half and the other half's result. */
static uint64_t choose(struct fs_team *team, const void *source, const void *target, size_t slice)
{
    int in_place = source == target, many = team->size == 2 && !in_place ? 3 : 2;
    return fs_team_choose(team, in_place ? FS_KIND_ALLREDUCE_IN_PLACE : FS_KIND_ALLREDUCE, slice, many);
}

/* Everybody says where its arrays lie; the first member's word decides which way all go. */
static int publish_ways(struct fs_team *team, const void *source, const void *target, const struct fs_reduction *what,
                        struct said *all)
{
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    size_t slice = what->count / (size_t)team->size * what->element;
    all[team->index] = (struct said){0, (uintptr_t)source, (uintptr_t)target};
    if (team->index == 0) all[0].way = choose(team, source, target, slice);
    memcpy(fs_team_cell(team, team->index)->data, &all[team->index], sizeof *all);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    fs_team_time_from_here(team);
    for (int i = 0; i < team->size && result == 0; i++)
        if (i != team->index) memcpy(&all[i], fs_team_cell(team, i)->data, sizeof *all);
    return result;
}

static int allreduce_large(struct fs_team *team, const void *source, void *target, const struct fs_reduction *what)
{
    struct said all[FS_TEAM_MOST];
    uint64_t sources[FS_TEAM_MOST], targets[FS_TEAM_MOST];
    int result = publish_ways(team, source, target, what, all), in_place = 0;
    if (result != 0) return result;
    for (int i = 0; i < team->size; i++) {
        sources[i] = all[i].source, targets[i] = all[i].target;
        in_place |= sources[i] == targets[i];
    }
    if (all[0].way == FS_WAY_BUFFERS) return fs_allreduce_buffered(team, source, target, what);
    if (!fs_team_have_scratch(team)) return -ENOMEM;
    if (all[0].way == FS_WAY_WHOLE && !in_place) return fs_allreduce_whole(team, source, target, what, sources);
    return fs_allreduce_direct(team, source, target, what, sources, targets);
}

int fs_team_allreduce(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation)
{
    struct fs_reduction what = {count, fs_type_size(type), fs_kernel_of(operation, type)};
    size_t bytes = count * what.element;
    if (what.kernel == NULL) return -EINVAL;
    int result = fs_team_begin(team, bytes);
    if (result != 0) return result;
    if (source == NULL) source = target;
    if (team->size == 1 && source != target) fs_copy(target, source, bytes);
    if (team->size > 1 && bytes <= fs_team_small_reduction(team)) result = allreduce_small(team, source, target, &what);
    else if (team->size > 1 && bytes / (size_t)team->size < FS_TEAM_CMA)
        result = fs_allreduce_buffered(team, source, target, &what);
    else if (team->size > 1) result = allreduce_large(team, source, target, &what);
    return fs_team_end(team, result);
}
