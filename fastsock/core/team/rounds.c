#include "internal.h"

/* Everybody shows something to everybody, round after round.  The next round is shown before this one is awaited, so
 * that nobody waits for a neighbour that still copies.  A buffer comes round again after FS_TEAM_BUFFERS rounds: by then
 * everybody has shown a later one than the next, so is done with it. */
int fs_team_show(struct fs_team *team, const struct fs_team_rounds *rounds, uint64_t round)
{
    int result = 0;
    if (round < FS_TEAM_BUFFERS) result = fs_team_claim(team, round, -1, fs_place(team->number + 1, 0));
    if (result != 0) return result;
    rounds->show(team, rounds->context, round, fs_team_buffer(team, team->index, round));
    fs_team_publish_ready(team, round + 1);
    return 0;
}

int fs_team_run(struct fs_team *team, const struct fs_team_rounds *rounds, int shown)
{
    int result = 0;
    for (uint64_t round = 0; round < rounds->many && result == 0; round++) {
        if (round == 0 && !shown) result = fs_team_show(team, rounds, 0);
        if (result == 0 && round + 1 < rounds->many) result = fs_team_show(team, rounds, round + 1);
        if (result == 0) result = fs_team_await_all_ready(team, round + 1);
        if (result == 0) rounds->take(team, rounds->context, round);
    }
    return result;
}

/* Whose memory was read stays until all others have done so. */
int fs_team_part_after(struct fs_team *team, const uint64_t *addresses)
{
    int any = 0;
    for (int i = 0; i < team->size; i++) any |= addresses[i] != 0;
    if (any) fs_team_publish_ready(team, FS_TEAM_LAST_STEP);
    return addresses[team->index] != 0 ? fs_team_await_all_ready(team, FS_TEAM_LAST_STEP) : 0;
}
