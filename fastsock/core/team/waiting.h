/* How a member publishes, waits, claims, and goes through a collective. */
#ifndef FASTSOCK_TEAM_WAITING_H
#define FASTSOCK_TEAM_WAITING_H

#include <errno.h>

#include "memory.h"

int fs_team_wait_slowly(struct fs_team *team, const _Atomic uint64_t *word, uint64_t least);
void fs_team_wake(struct fs_team *team);
void fs_team_fail(struct fs_team *team, int error); /* inside a collective: nobody waits for this member any more */
int fs_team_await_done(struct fs_team *team, uint64_t least); /* of everybody */
int fs_team_lost(struct fs_team *team, int member);           /* its memory cannot be read: the error for that */

static inline int fs_team_await(struct fs_team *team, const _Atomic uint64_t *word, uint64_t least)
{
    for (int i = 0; i < FS_TEAM_LOOKS; i++) {
        if (fs_has_come(atomic_load_explicit(word, memory_order_acquire), least)) return 0;
        if (team->crowded) break;
        fs_pause();
    }
    return fs_team_wait_slowly(team, word, least);
}

/* A sleeper looks again when it has said that it sleeps, and from time to time: so no fence is needed here, although a
 * store that is still under way may make this miss it. */
static inline void fs_team_publish(struct fs_team *team, _Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
    if (atomic_load_explicit(&team->header->sleepers, memory_order_relaxed) != 0) fs_team_wake(team);
}

/* ---- the course of a collective ---- */

static inline void fs_team_leave(struct fs_team *team)
{
    if (team->left || team->hooks.leave == NULL) return;
    team->left = 1;
    team->hooks.leave(team->hooks.context);
}

static inline int fs_team_begin(struct fs_team *team, size_t bytes)
{
    if (team->generation != fs_generation()) return -ESTALE;
    if (team->failure == 0 && (team->at_once || bytes >= FS_TEAM_LONG)) fs_team_leave(team);
    return team->failure;
}

int fs_team_learn(struct fs_team *team);  /* ways.c: waits until everybody is done with this collective */
void fs_team_renew(struct fs_team *team); /* the places that lay still since the last time */

/* The end of a collective that the others know this member to be done with. */
static inline int fs_team_leave_collective(struct fs_team *team, int result)
{
    if (team->trial.fresh != NULL && result == 0) result = fs_team_learn(team);
    team->trial.fresh = NULL;
    if (result != 0) fs_team_fail(team, result);
    else if (++team->number % FS_TEAM_RENEWED == 0) fs_team_renew(team);
    if (team->left) team->hooks.enter(team->hooks.context);
    team->left = 0;
    return result;
}

static inline int fs_team_end(struct fs_team *team, int result)
{
    if (result == 0) fs_team_publish(team, &team->own->done, fs_place(team->number + 1, 0));
    return fs_team_leave_collective(team, result);
}

/* Everybody has entered this collective, so everybody is done with those before it. */
static inline void fs_team_met(struct fs_team *team)
{
    uint64_t here = fs_place(team->number, 0);
    if (!fs_has_come(team->all_done, here)) team->all_done = here;
}

/* My cell, free to be filled.  When it was not, half of them are before it goes on, so that members take turns rarely. */
static inline int fs_team_claim_cell(struct fs_team *team)
{
    if (fs_has_come(team->all_done, fs_place(team->number - FS_TEAM_CELLS + 1, 0))) return 0;
    return fs_team_await_done(team, fs_place(team->number - FS_TEAM_CELLS / 2, 0));
}

static inline void fs_team_publish_cell(struct fs_team *team)
{
    fs_team_publish(team, &fs_team_cell(team, team->index)->number, team->number);
}

static inline int fs_team_await_cell(struct fs_team *team, int member)
{
    return fs_team_await(team, &fs_team_cell(team, member)->number, team->number);
}

int fs_team_await_cells(struct fs_team *team); /* of all */

/* My buffer for that step, free to be filled; it stays taken until `reader` (-1: everybody) is done up to `until`. */
int fs_team_claim(struct fs_team *team, uint64_t step, int reader, uint64_t until);

static inline void fs_team_publish_ready(struct fs_team *team, uint64_t step)
{
    fs_team_publish(team, &team->own->ready, fs_place(team->number, step));
}

static inline void fs_team_publish_done(struct fs_team *team, uint64_t step)
{
    fs_team_publish(team, &team->own->done, fs_place(team->number, step));
}

static inline int fs_team_await_ready(struct fs_team *team, int member, uint64_t step)
{
    return fs_team_await(team, &team->header->members[member].ready, fs_place(team->number, step));
}

int fs_team_await_all_ready(struct fs_team *team, uint64_t step);

#endif
