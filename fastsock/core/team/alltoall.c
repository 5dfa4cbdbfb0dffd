#include <errno.h>

#include "internal.h"

/* Nobody knows what passes between others.  So every member goes through the rounds that its own blocks need, then
 * shows the last step of all: the others need not wait for it any more.  Blocks that are small enough lie in the cell.
 * The first round is shown before the cell, which saves a wait.  Blocks that are to be read where they lie need no
 * rounds: then the first buffer has their addresses. */
struct exchange {
    const unsigned char *source;
    unsigned char *target;
    const struct fs_blocks *out, *in;
    size_t share, part, largest;         /* of the blocks that go */
    uint64_t direct, ways[FS_TEAM_MOST]; /* whether blocks are read where they lie: this member's, and each one's */
};

static int is_in_cell(const struct exchange *what, size_t size) { return size <= what->share; }

static void show(struct fs_team *team, void *context, size_t round, unsigned char *buffer)
{
    const struct exchange *what = context;
    size_t at = round * what->part;
    for (int i = 0; i < team->size && !what->direct; i++) {
        size_t size = what->out->sizes[i];
        if (i == team->index || is_in_cell(what, size) || at >= size) continue;
        fs_copy(buffer + (size_t)i * what->part, what->source + what->out->offsets[i] + at,
                fs_smaller(size - at, what->part));
    }
    if (!what->direct || round > 0) return;
    for (int i = 0; i < team->size; i++) {
        uint64_t address = (uint64_t)(uintptr_t)(what->source + what->out->offsets[i]);
        memcpy(buffer + (size_t)i * sizeof address, &address, sizeof address);
    }
}

static void take(struct fs_team *team, void *context, size_t round)
{
    const struct exchange *what = context;
    size_t at = round * what->part, mine = (size_t)team->index * what->part;
    for (int i = 0; i < team->size; i++) {
        size_t size = what->in->sizes[i];
        if (i == team->index || is_in_cell(what, size) || at >= size || what->ways[i]) continue;
        fs_copy(what->target + what->in->offsets[i] + at, fs_team_buffer(team, i, round) + mine,
                fs_smaller(size - at, what->part));
    }
}

static uint64_t rounds_out(const struct exchange *what)
{
    return is_in_cell(what, what->largest) ? 0 : what->direct ? 1 : fs_team_steps(what->largest, what->part);
}

static uint64_t rounds_in(const struct fs_team *team, const struct exchange *what)
{
    size_t largest = 0;
    for (int i = 0; i < team->size; i++)
        if (i != team->index && !what->ways[i] && what->in->sizes[i] > largest) largest = what->in->sizes[i];
    return is_in_cell(what, largest) ? 0 : fs_team_steps(largest, what->part);
}

static int fill_cell(struct fs_team *team, const struct exchange *what)
{
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    unsigned char *data = fs_team_cell(team, team->index)->data;
    memcpy(data, &what->direct, sizeof what->direct);
    for (int i = 0; i < team->size; i++) {
        size_t size = what->out->sizes[i];
        if (i != team->index && size > 0 && is_in_cell(what, size))
            memcpy(data + sizeof what->direct + (size_t)i * what->share, what->source + what->out->offsets[i], size);
    }
    fs_team_publish_cell(team);
    return 0;
}

static int empty_cells(struct fs_team *team, struct exchange *what)
{
    int result = fs_team_await_cells(team);
    for (int i = 0; i < team->size && result == 0; i++) {
        const unsigned char *data = fs_team_cell(team, i)->data;
        size_t size = what->in->sizes[i];
        if (i == team->index) continue;
        memcpy(&what->ways[i], data, sizeof *what->ways);
        if (size > 0 && is_in_cell(what, size))
            memcpy(what->target + what->in->offsets[i], data + sizeof *what->ways + (size_t)team->index * what->share,
                   size);
    }
    return result;
}

static int read_directly(struct fs_team *team, struct exchange *what)
{
    int result = 0;
    for (int step = 1; step < team->size && result == 0; step++) {
        int from = (team->index + step) % team->size;
        size_t size = what->in->sizes[from];
        uint64_t address;
        if (!what->ways[from] || is_in_cell(what, size)) continue;
        memcpy(&address, fs_team_buffer(team, from, 0) + (size_t)team->index * sizeof address, sizeof address);
        result = fs_team_pull(team, from, address, what->target + what->in->offsets[from], size);
    }
    return result;
}

static int exchange_all(struct fs_team *team, struct exchange *what)
{
    struct fs_team_rounds rounds = {rounds_out(what), what, show, take};
    int all_in_cells = rounds.many == 0 && rounds_in(team, what) == 0, result = 0;
    if (rounds.many > 0) result = fs_team_show(team, &rounds, 0);
    else fs_team_publish_ready(team, all_in_cells ? FS_TEAM_LAST_STEP : 1); /* the others may have something to show */
    if (result == 0) result = fill_cell(team, what);
    if (result == 0) result = empty_cells(team, what);
    if (result == 0 && all_in_cells) return 0;
    if (result == 0) result = read_directly(team, what);
    if (rounds_in(team, what) > rounds.many) rounds.many = rounds_in(team, what);
    if (result == 0) result = fs_team_run(team, &rounds, 1);
    if (result == 0) fs_team_publish_ready(team, FS_TEAM_LAST_STEP);
    return result;
}

int fs_team_alltoall(struct fs_team *team, const void *source, const struct fs_blocks *out, void *target,
                     const struct fs_blocks *in)
{
    struct exchange what = {.source = source, .target = target, .out = out, .in = in, .part = fs_team_part(team)};
    size_t total = 0;
    what.share = fs_team_share(team, FS_TEAM_INLINE - sizeof(uint64_t));
    if (source == NULL) what.source = target, what.out = in;
    for (int i = 0; i < team->size; i++) {
        size_t size = what.out->sizes[i];
        total += size + in->sizes[i];
        if (i != team->index && size > what.largest) what.largest = size;
    }
    int result = fs_team_begin(team, total);
    if (result != 0) return result;
    /* in place, what goes lies where what comes will be: nobody else may read there */
    if (source != NULL) what.direct = fs_team_choose(team, FS_KIND_ALLTOALL, what.largest, 2) == FS_WAY_DIRECT;
    if (team->size > 1) result = exchange_all(team, &what);
    size_t own = in->sizes[team->index];
    if (result == 0 && source != NULL && own > 0)
        fs_copy_beside(what.target + in->offsets[team->index], what.source + what.out->offsets[team->index], own,
                       total);
    if (result == 0 && what.direct) result = fs_team_await_all_ready(team, FS_TEAM_LAST_STEP);
    return fs_team_end(team, result);
}
