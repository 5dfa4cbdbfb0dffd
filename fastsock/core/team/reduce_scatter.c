#include <errno.h>
#include <stdlib.h>

#include "internal.h"

struct scattering {
    const unsigned char *source;
    unsigned char *target;
    const size_t *counts;
    size_t firsts[FS_TEAM_MOST], own, most, element; /* elements, and the most of a round */
    fs_kernel *kernel;
};

static size_t length_of(const struct scattering *what, int member, size_t round)
{
    size_t done = round * what->most;
    return done < what->counts[member] ? fs_smaller(what->counts[member] - done, what->most) : 0;
}

static const unsigned char *source_of(const struct scattering *what, int member, size_t round)
{
    return what->source + (what->firsts[member] + round * what->most) * what->element;
}

static void show(struct fs_team *team, void *context, size_t round, unsigned char *buffer)
{
    const struct scattering *what = context;
    size_t part = fs_team_part(team);
    for (int i = 0; i < team->size; i++) {
        size_t bytes = length_of(what, i, round) * what->element;
        if (i != team->index && bytes > 0) fs_copy(buffer + (size_t)i * part, source_of(what, i, round), bytes);
    }
}

static void take(struct fs_team *team, void *context, size_t round)
{
    const struct scattering *what = context;
    const unsigned char *pieces[FS_TEAM_MOST];
    size_t at = (size_t)team->index * fs_team_part(team), length = length_of(what, team->index, round);
    if (length == 0) return;
    for (int i = 0; i < team->size; i++) pieces[i] = fs_team_buffer(team, i, round) + at;
    pieces[team->index] = source_of(what, team->index, round);
    fs_reduce_pieces(what->kernel, what->element, pieces, team->size, what->target + round * what->most * what->element,
                     length);
}

static int scatter_small(struct fs_team *team, const struct scattering *what, size_t total)
{
    const unsigned char *pieces[FS_TEAM_MOST];
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    memcpy(fs_team_cell(team, team->index)->data, what->source, total);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    if (result != 0) return result;
    for (int i = 0; i < team->size; i++)
        pieces[i] = fs_team_cell(team, i)->data + what->firsts[team->index] * what->element;
    fs_reduce_pieces(what->kernel, what->element, pieces, team->size, what->target, what->counts[team->index]);
    return 0;
}

/* Everybody says where its array lies; the first member's word decides which way all go. */
static int publish_ways(struct fs_team *team, const struct scattering *what, size_t largest, uint64_t *sources)
{
    uint64_t said[2] = {0, (uint64_t)(uintptr_t)what->source}, direct;
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    if (team->index == 0) said[0] = fs_team_choose(team, FS_KIND_REDUCE_SCATTER, largest, 2) == FS_WAY_DIRECT;
    memcpy(fs_team_cell(team, team->index)->data, said, sizeof said);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    if (result != 0) return result;
    fs_team_time_from_here(team);
    memcpy(&direct, fs_team_cell(team, 0)->data, sizeof direct);
    for (int i = 0; i < team->size; i++) {
        memcpy(said, fs_team_cell(team, i)->data, sizeof said);
        sources[i] = direct ? said[1] : 0;
    }
    return 0;
}

/* Everybody reads what its own block needs, out of the others' arrays. */
static int scatter_direct(struct fs_team *team, const struct scattering *what, uint64_t *sources)
{
    struct fs_reduction reduction = {what->counts[team->index], what->element, what->kernel};
    size_t most = FS_TEAM_BLOCK / what->element, first = what->firsts[team->index] * what->element;
    int result = fs_team_have_scratch(team) ? 0 : -ENOMEM;
    for (int i = 0; i < team->size; i++) sources[i] += first;
    for (size_t at = 0; at < reduction.count && result == 0; at += most)
        result = fs_team_reduce_block(team, &reduction, sources, what->source + first, what->target, at,
                                      fs_smaller(reduction.count - at, most));
    return result == 0 ? fs_team_part_after(team, sources) : result;
}

static int scatter_large(struct fs_team *team, struct scattering *what)
{
    uint64_t sources[FS_TEAM_MOST] = {0};
    size_t largest = 0;
    int result = 0;
    for (int i = 0; i < team->size; i++)
        if (what->counts[i] > largest) largest = what->counts[i];
    struct fs_team_rounds rounds = {fs_team_steps(largest, what->most), what, show, take};
    if (team->size > 1 && largest * what->element >= FS_TEAM_CMA)
        result = publish_ways(team, what, largest * what->element, sources);
    if (result != 0) return result;
    return sources[0] != 0 ? scatter_direct(team, what, sources) : fs_team_run(team, &rounds, 0);
}

/* The result lies over what the others still need: in place, or where a caller says the same by two addresses. */
static int overlaps(const struct scattering *what, size_t total, size_t own)
{
    uintptr_t source = (uintptr_t)what->source, target = (uintptr_t)what->target;
    return target < source + total && source < target + own;
}

int fs_team_reduce_scatter(struct fs_team *team, const void *source, void *target, const size_t *counts, int type,
                           int operation)
{
    struct scattering what = {.source = source,
                              .target = target,
                              .counts = counts,
                              .element = fs_type_size(type),
                              .kernel = fs_kernel_of(operation, type)};
    unsigned char *aside = NULL;
    size_t total = 0;
    if (what.kernel == NULL) return -EINVAL;
    for (int i = 0; i < team->size; i++) what.firsts[i] = total, total += counts[i];
    what.most = fs_team_part(team) / what.element;
    size_t own = counts[team->index] * what.element;
    int result = fs_team_begin(team, total * what.element);
    if (result != 0) return result;
    if (source == NULL) what.source = target;
    if (overlaps(&what, total * what.element, own)) {
        what.target = aside = malloc(own + 1);
        if (aside == NULL) return fs_team_end(team, -ENOMEM);
        if (own > 0) memcpy(aside, target, own); /* the bytes between values, where a type has some, stay */
    }
    if (total * what.element <= FS_TEAM_INLINE) result = scatter_small(team, &what, total * what.element);
    else result = scatter_large(team, &what);
    if (result == 0 && aside != NULL) fs_copy(target, aside, own);
    free(aside);
    return fs_team_end(team, result);
}
