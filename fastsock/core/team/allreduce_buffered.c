/* Allreduce of long arrays through the buffers, in rounds.
 *
 * Everybody shows what the others' slices need, reduces its own slice, and shows the result in the place where a
 * contribution of its own would be.  The next round's contributions are shown before this one's results are awaited.
 */
#include "internal.h"

struct round {
    uint64_t number;
    size_t first, count, slice; /* elements */
};

static struct round round_of(const struct fs_team *team, uint64_t number, size_t most, size_t count, size_t element)
{
    struct round round = {number, number * most, 0, 0};
    size_t even = element < 64 ? 64 / element : 1;
    round.count = fs_smaller(count - round.first, most);
    round.slice = (round.count + (size_t)team->size - 1) / (size_t)team->size;
    round.slice = (round.slice + even - 1) / even * even;
    return round;
}

static size_t slice_start(const struct round *round, int member)
{
    return fs_smaller((size_t)member * round->slice, round->count);
}

static uint64_t shown_at(uint64_t round) { return round == 0 ? 1 : 2 * round; }
static uint64_t reduced_at(uint64_t round) { return 2 * round + 3; }

static int show(struct fs_team *team, const struct round *round, const unsigned char *source, size_t element)
{
    int result = 0;
    if (round->number < FS_TEAM_BUFFERS) result = fs_team_claim(team, round->number, -1, fs_place(team->number + 1, 0));
    if (result != 0) return result;
    unsigned char *buffer = fs_team_buffer(team, team->index, round->number);
    size_t from = slice_start(round, team->index) * element, to = slice_start(round, team->index + 1) * element;
    source += round->first * element;
    fs_copy(buffer, source, from);
    fs_copy(buffer + to, source + to, round->count * element - to);
    fs_team_publish_ready(team, shown_at(round->number));
    return 0;
}

static int reduce_slice(struct fs_team *team, const struct round *round, const unsigned char *source,
                        unsigned char *target, const struct fs_reduction *what)
{
    size_t element = what->element;
    const unsigned char *pieces[FS_TEAM_MOST];
    size_t start = slice_start(round, team->index), length = slice_start(round, team->index + 1) - start;
    unsigned char *own = fs_team_buffer(team, team->index, round->number) + start * element;
    int result = fs_team_await_all_ready(team, shown_at(round->number));
    if (result != 0) return result;
    for (int i = 0; i < team->size; i++) pieces[i] = fs_team_buffer(team, i, round->number) + start * element;
    pieces[team->index] = source + (round->first + start) * element;
    fs_reduce_pieces(what->kernel, element, pieces, team->size, own, length);
    fs_team_publish_ready(team, reduced_at(round->number));
    fs_copy(target + (round->first + start) * element, own, length * element);
    return 0;
}

static int collect(struct fs_team *team, const struct round *round, unsigned char *target, size_t element)
{
    int result = 0;
    for (int i = 0; i < team->size && result == 0; i++) {
        size_t start = slice_start(round, i), length = slice_start(round, i + 1) - start;
        if (i == team->index || length == 0) continue;
        result = fs_team_await_ready(team, i, reduced_at(round->number));
        if (result != 0) return result;
        fs_copy(target + (round->first + start) * element, fs_team_buffer(team, i, round->number) + start * element,
                length * element);
    }
    return result;
}

int fs_allreduce_buffered(struct fs_team *team, const unsigned char *source, unsigned char *target,
                          const struct fs_reduction *what)
{
    size_t count = what->count, element = what->element;
    size_t most = fs_team_piece(team, count * element) / element;
    uint64_t rounds = fs_team_steps(count, most);
    int result = 0;
    for (uint64_t i = 0; i < rounds && result == 0; i++) {
        struct round round = round_of(team, i, most, count, element);
        if (i == 0) result = show(team, &round, source, element);
        if (result == 0 && i + 1 < rounds) {
            struct round next = round_of(team, i + 1, most, count, element);
            result = show(team, &next, source, element);
        }
        if (result == 0) result = reduce_slice(team, &round, source, target, what);
        if (result == 0) result = collect(team, &round, target, element);
    }
    return result;
}
