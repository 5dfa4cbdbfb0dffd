/* Collective operations of ranks that share one host, through memory that all of them map.
 *
 * Every member owns an area: small cells, each with the number of the collective that filled it, a few buffers, and
 * two words that say how far it has come.  It writes there only, and reads the others'.  Collectives are numbered, on
 * every member alike, and a cell or buffer is filled again only when everybody is past the one that filled it before; so
 * nothing needs a closing barrier, and the sender in a broadcast runs ahead of its receivers.
 *
 * A team is used by one thread at a time.  Functions return 0 or a negative errno:
 * -EOWNERDEAD a member died and -ECONNABORTED one left a collective unfinished (fs_team_culprit() says which),
 * -EINTR and what the `interrupted` hook answered (-ECANCELED: the communicator is revoked, which all members hear), -EINVAL an argument that is none, -EPROTO memory that is no team's,
 * -ESTALE this process was forked from the member.
 * After an error inside a collective every later call fails with it: members would no longer agree on the number.
 */
#ifndef FASTSOCK_TEAM_H
#define FASTSOCK_TEAM_H

#include <stddef.h>
#include <stdint.h>

#include "cma.h"
#include "kernels.h"

#define FS_TEAM_MOST 120 /* members */

/* What the owner does beside a wait; each may be NULL. */
struct fs_team_hooks {
    void *context;
    void (*leave)(void *context);      /* once in a call, before a wait or a copy that lasts: give locks up */
    void (*enter)(void *context);      /* before such a call returns */
    int (*progress)(void *context);    /* one round of other work, without blocking; whether there was any */
    int (*interrupted)(void *context); /* from time to time; negative: end the wait with that */
};

struct fs_team;

void fs_team_identify(struct fs_cma_identity *own); /* address 0: nobody shall read here */

/* A sealed descriptor for that many members, or a negative errno.  `crowded`: the host has more ranks than cores. */
int fs_team_create_memory(int size, int crowded);

/* `bells`: an eventfd of each member.  `watches`: a descriptor of each that becomes readable when it dies, or -1.
 * Descriptors stay the caller's; all but `memory` stay open while the team is.
 * `at_once`: the leave hook is called at the start already, because members are threads of this process. */
struct fs_team *fs_team_open(int memory, int index, int size, const int *bells, const int *watches, int at_once,
                             const struct fs_team_hooks *hooks, int *error);
/* Every member calls this before any makes its first collective: whether it can read all the others' memory.  Where
 * one cannot, or never asked, large messages go through the buffers. */
int fs_team_meet(struct fs_team *team, const struct fs_cma_identity *all);

/* How long messages go.  Where members were told otherwise, the one that decides in a call is followed. */
enum fs_team_kept { FS_TEAM_MEASURED, FS_TEAM_BUFFERED, FS_TEAM_DIRECT };
void fs_team_keep(struct fs_team *team, enum fs_team_kept kept);

void fs_team_close(struct fs_team *team);
int fs_team_culprit(const struct fs_team *team); /* the member to blame for the failure, or -1 */

/* A NULL source means that the own part is in its place in the target already, as MPI's IN_PLACE. */
int fs_team_barrier(struct fs_team *team);
int fs_team_bcast(struct fs_team *team, void *data, size_t bytes, int root);
int fs_team_reduce(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation,
                   int root);
int fs_team_allreduce(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation);
int fs_team_scan(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation);
int fs_team_exscan(struct fs_team *team, const void *source, void *target, size_t count, int type, int operation);
int fs_team_reduce_scatter(struct fs_team *team, const void *source, void *target, const size_t *counts, int type,
                           int operation);

/* Sizes and offsets are bytes, one for each member.  Where a member has no use for an array it may be NULL. */
struct fs_blocks {
    const size_t *sizes;
    const size_t *offsets;
};
int fs_team_gather(struct fs_team *team, const void *source, size_t bytes, void *target, const struct fs_blocks *blocks,
                   int root);
int fs_team_scatter(struct fs_team *team, const void *source, const struct fs_blocks *blocks, void *target,
                    size_t bytes, int root);
int fs_team_allgather(struct fs_team *team, const void *source, void *target, const struct fs_blocks *blocks);
int fs_team_alltoall(struct fs_team *team, const void *source, const struct fs_blocks *out, void *target,
                     const struct fs_blocks *in);

#endif
