#include "internal.h"

/* All that a barrier asks of a member is that it comes: so who has come is done with it, and one word says both. */
int fs_team_barrier(struct fs_team *team)
{
    uint64_t here = fs_place(team->number + 1, 0);
    int result = fs_team_begin(team, 0);
    if (result != 0) return result;
    fs_team_publish(team, &team->own->done, here);
    return fs_team_leave_collective(team, fs_team_await_done(team, here));
}
