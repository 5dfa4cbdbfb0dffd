#include "internal.h"

struct gathering {
    const unsigned char *own; /* this member's block */
    unsigned char *target;
    const struct fs_blocks *blocks;
    size_t piece;
    uint64_t addresses[FS_TEAM_MOST]; /* of the blocks that are read where they lie, or 0 */
};

static size_t length_of(const struct gathering *what, int member, size_t round)
{
    size_t size = what->blocks->sizes[member], at = round * what->piece;
    return at < size && what->addresses[member] == 0 ? fs_smaller(size - at, what->piece) : 0;
}

static void show(struct fs_team *team, void *context, size_t round, unsigned char *buffer)
{
    const struct gathering *what = context;
    size_t length = length_of(what, team->index, round);
    if (length > 0) fs_copy(buffer, what->own + round * what->piece, length);
}

static void take(struct fs_team *team, void *context, size_t round)
{
    const struct gathering *what = context;
    for (int i = 0; i < team->size; i++) {
        size_t length = length_of(what, i, round);
        if (i == team->index || length == 0) continue;
        fs_copy(what->target + what->blocks->offsets[i] + round * what->piece, fs_team_buffer(team, i, round), length);
    }
}

static int allgather_small(struct fs_team *team, const struct gathering *what)
{
    const struct fs_blocks *blocks = what->blocks;
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    if (blocks->sizes[team->index] > 0)
        memcpy(fs_team_cell(team, team->index)->data, what->own, blocks->sizes[team->index]);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    for (int i = 0; i < team->size && result == 0; i++)
        if (i != team->index && blocks->sizes[i] > 0)
            memcpy(what->target + blocks->offsets[i], fs_team_cell(team, i)->data, blocks->sizes[i]);
    return result;
}

struct said {
    uint64_t direct, address;
};

/* Everybody says where its block lies; the first member's word decides which way all go. */
static int publish_ways(struct fs_team *team, struct gathering *what, size_t largest)
{
    struct said said = {0, (uint64_t)(uintptr_t)what->own};
    int result = fs_team_claim_cell(team);
    if (result != 0) return result;
    if (team->index == 0) said.direct = fs_team_choose(team, FS_KIND_ALLGATHER, largest, 2) == FS_WAY_DIRECT;
    memcpy(fs_team_cell(team, team->index)->data, &said, sizeof said);
    fs_team_publish_cell(team);
    result = fs_team_await_cells(team);
    if (result != 0) return result;
    fs_team_time_from_here(team);
    memcpy(&said, fs_team_cell(team, 0)->data, sizeof said);
    if (!said.direct) return 0;
    for (int i = 0; i < team->size; i++) {
        memcpy(&said, fs_team_cell(team, i)->data, sizeof said);
        what->addresses[i] = what->blocks->sizes[i] > 0 ? said.address : 0;
    }
    return 0;
}

static int allgather_large(struct fs_team *team, struct gathering *what, size_t largest)
{
    struct fs_team_rounds rounds = {0, what, show, take};
    int result = publish_ways(team, what, largest);
    for (int i = 0; i < team->size; i++) {
        uint64_t steps = what->addresses[i] == 0 ? fs_team_steps(what->blocks->sizes[i], what->piece) : 0;
        if (steps > rounds.many) rounds.many = steps;
    }
    for (int step = 1; step < team->size && result == 0; step++) {
        int from = (team->index + step) % team->size;
        if (what->addresses[from] != 0)
            result = fs_team_pull(team, from, what->addresses[from], what->target + what->blocks->offsets[from],
                                  what->blocks->sizes[from]);
    }
    if (result == 0) result = fs_team_run(team, &rounds, 0);
    return result == 0 ? fs_team_part_after(team, what->addresses) : result;
}

int fs_team_allgather(struct fs_team *team, const void *source, void *target, const struct fs_blocks *blocks)
{
    size_t largest = 0, total = 0, size = blocks->sizes[team->index];
    for (int i = 0; i < team->size; i++) {
        total += blocks->sizes[i];
        if (blocks->sizes[i] > largest) largest = blocks->sizes[i];
    }
    unsigned char *place = (unsigned char *)target + blocks->offsets[team->index];
    struct gathering what = {.own = source != NULL ? source : place, .target = target, .blocks = blocks};
    what.piece = fs_team_piece(team, largest);
    struct fs_team_rounds rounds = {fs_team_steps(largest, what.piece), &what, show, take};
    int result = fs_team_begin(team, total);
    if (result != 0) return result;
    if (largest <= FS_TEAM_INLINE) result = allgather_small(team, &what);
    else if (largest < FS_TEAM_CMA) result = fs_team_run(team, &rounds, 0);
    else result = allgather_large(team, &what, largest);
    if (result == 0 && what.own != place && size > 0) fs_copy(place, what.own, size);
    return fs_team_end(team, result);
}
