#include "inside.h"

int fs_team_barrier(struct fs_team *team)
{
    int result = fs_team_begin(team, 0);
    if (result != 0) return result;
    result = fs_team_claim_cell(team);
    if (result == 0) fs_team_publish_cell(team);
    if (result == 0) result = fs_team_await_cells(team);
    return fs_team_end(team, result);
}
