#include <errno.h>

#include "internal.h"

static int reduce_small(struct fs_team *team, const void *source, void *target, const struct fs_reduction *what,
                        int root)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    int result = 0;
    if (team->index != root) {
        result = fs_team_claim_cell(team);
        if (result != 0) return result;
        memcpy(fs_team_cell(team, team->index)->data, source, what->count * what->element);
        fs_team_publish_cell(team);
        return 0;
    }
    for (int i = 0; i < team->size && result == 0; i++) {
        if (i != root) result = fs_team_await_cell(team, i);
        pieces[i] = i != root ? fs_team_cell(team, i)->data : source;
    }
    if (result == 0) fs_reduce_pieces(what->kernel, what->element, pieces, team->size, target, what->count);
    return result;
}

static int give(struct fs_team *team, const unsigned char *source, size_t bytes, uint64_t step, int root)
{
    int result = fs_team_claim(team, step, root, fs_place(team->number, step + 1));
    if (result != 0) return result;
    fs_copy(fs_team_buffer(team, team->index, step), source, bytes);
    fs_team_publish_ready(team, step + 1);
    return 0;
}

static int combine(struct fs_team *team, const unsigned char *source, unsigned char *target, size_t count,
                   const struct fs_reduction *what, uint64_t step)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++) {
        if (i != team->index) result = fs_team_await_ready(team, i, step + 1);
        pieces[i] = i != team->index ? fs_team_buffer(team, i, step) : source;
    }
    if (result != 0) return result;
    fs_reduce_pieces(what->kernel, what->element, pieces, team->size, target, count);
    fs_team_publish_done(team, step + 1);
    return 0;
}

/* The others fill buffers, the root reduces them all. */
static int reduce_buffered(struct fs_team *team, const unsigned char *source, unsigned char *target,
                           const struct fs_reduction *what, int root)
{
    size_t most = fs_team_piece(team, what->count * what->element) / what->element;
    uint64_t steps = fs_team_steps(what->count, most);
    int result = 0;
    for (uint64_t step = 0; step < steps && result == 0; step++) {
        size_t first = step * most, count = fs_smaller(what->count - first, most), at = first * what->element;
        if (team->index == root) result = combine(team, source + at, target + at, count, what, step);
        else result = give(team, source + at, count * what->element, step, root);
    }
    return result;
}

/* The root reads the others' arrays where they lie, block by block. */
static int reduce_direct(struct fs_team *team, const unsigned char *source, unsigned char *target,
                         const struct fs_reduction *what, const uint64_t *sources)
{
    size_t most = FS_TEAM_BLOCK / what->element;
    int result = fs_team_have_scratch(team) ? 0 : -ENOMEM;
    for (size_t at = 0; at < what->count && result == 0; at += most)
        result = fs_team_reduce_block(team, what, sources, source, target, at, fs_smaller(what->count - at, most));
    return result;
}

/* The member before the root says which way all go, as it is one of those who give. */
static int decider(const struct fs_team *team, int root) { return (root + team->size - 1) % team->size; }

static int reduce_large_as_root(struct fs_team *team, const void *source, void *target, const struct fs_reduction *what)
{
    uint64_t sources[FS_TEAM_MOST] = {0};
    int first = decider(team, team->index), result = fs_team_await_cell(team, first);
    if (result != 0) return result;
    memcpy(&sources[first], fs_team_cell(team, first)->data, sizeof *sources);
    if (sources[first] == 0) return reduce_buffered(team, source, target, what, team->index);
    for (int i = 0; i < team->size && result == 0; i++) {
        if (i == team->index) continue;
        result = fs_team_await_cell(team, i);
        memcpy(&sources[i], fs_team_cell(team, i)->data, sizeof *sources);
    }
    return result == 0 ? reduce_direct(team, source, target, what, sources) : result;
}

static int reduce_large(struct fs_team *team, const void *source, const struct fs_reduction *what, int root)
{
    uint64_t address = (uint64_t)(uintptr_t)source;
    int first = decider(team, root), result = fs_team_claim_cell(team);
    if (result == 0 && team->index != first) result = fs_team_await_cell(team, first);
    if (result != 0) return result;
    if (team->index != first) memcpy(&address, fs_team_cell(team, first)->data, sizeof address);
    else if (fs_team_choose(team, FS_KIND_REDUCE, what->count * what->element, 2) != FS_WAY_DIRECT) address = 0;
    int direct = address != 0;
    if (direct) address = (uint64_t)(uintptr_t)source;
    memcpy(fs_team_cell(team, team->index)->data, &address, sizeof address);
    fs_team_publish_cell(team);
    if (!direct) return reduce_buffered(team, source, NULL, what, root);
    return fs_team_await(team, &team->header->members[root].done, fs_place(team->number + 1, 0));
}

int fs_team_reduce(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation,
                   int root)
{
    struct fs_reduction what = {count, fs_type_size(type), fs_kernel_of(operation, type)};
    size_t bytes = count * what.element;
    if (what.kernel == NULL || root < 0 || root >= team->size) return -EINVAL;
    int result = fs_team_begin(team, bytes);
    if (result != 0) return result;
    if (source == NULL) source = target;
    if (team->size == 1 && source != target) fs_copy(target, source, bytes);
    if (team->size > 1 && bytes <= FS_TEAM_INLINE) result = reduce_small(team, source, target, &what, root);
    else if (team->size > 1 && bytes < FS_TEAM_CMA) result = reduce_buffered(team, source, target, &what, root);
    else if (team->size > 1 && team->index == root) result = reduce_large_as_root(team, source, target, &what);
    else if (team->size > 1) result = reduce_large(team, source, &what, root);
    return fs_team_end(team, result);
}
