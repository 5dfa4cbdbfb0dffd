/* Windows: memory of several ranks on one host, which each of them reads and changes without the others' help.
 *
 * The members map one memory: the control lines of all, then their data.  Puts and gets are copies by their origin alone, so
 * they are no concern of these files: what stands here is how members wait for each other, and how they combine.
 *
 * Functions may be called by several threads at once.  They return 0 or a negative errno: -EOWNERDEAD a member died that was
 * waited for (*culprit says which), what the `interrupted` hook answered, -EINVAL an argument that is none, -EPROTO memory that
 * is no window's, -ESTALE this process was forked from the member.  A wait that ends so leaves the window as it was before.
 */
#ifndef FASTSOCK_WINDOW_H
#define FASTSOCK_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "strided.h"
#include "team/team.h"

#define FS_WINDOW_MOST FS_TEAM_MOST /* members */

struct fs_window;

/* Who calls, for one call: what it does beside a wait, and whom it blames for an error (-1: nobody). */
struct fs_window_call {
    struct fs_team_hooks hooks;
    int left, culprit;
};

/* A sealed descriptor for that many members and their data, or a negative errno. */
int fs_window_create_memory(int size, uint64_t data_bytes, int crowded);

/* `watches`: of each member a descriptor that becomes readable when it dies, or -1; they stay the caller's, and open.
 * `at_once`: members are threads of this process, so the leave hook comes before any wait.  The memory's descriptor may be
 * closed afterwards. */
struct fs_window *fs_window_open(int memory, int index, int size, uint64_t data_bytes, const int *watches, int at_once,
                                 int *error);
void fs_window_close(struct fs_window *window);
unsigned char *fs_window_data(const struct fs_window *window); /* of all members, one after the other */
int fs_window_is_inherited(const struct fs_window *window);    /* this process was forked from the member */

/* ---- passive: the lock of a member's part.  A member has one lock of a target at a time. ---- */
int fs_window_lock(struct fs_window *window, struct fs_window_call *call, int target, int alone);
int fs_window_unlock(struct fs_window *window, int target, int alone);

/* ---- active ---- */
int fs_window_fence(struct fs_window *window, struct fs_window_call *call);
int fs_window_post(struct fs_window *window, const int *origins, int many);
int fs_window_start(struct fs_window *window, struct fs_window_call *call, const int *targets, int many);
int fs_window_complete(struct fs_window *window, const int *targets, int many);
/* Whether all that this member has posted to have completed; `waits`: until they have. */
int fs_window_await_origins(struct fs_window *window, struct fs_window_call *call, const int *origins, int many,
                            int waits);

/* ---- memory of the members' own processes ---- */
/* Each member opens its own, goes over a fence, and then meets the others'.  Whether it may read and write all of them; then
 * `memory` in the calls below is an address in the target's process.  They also return -EFAULT: that memory is not there. */
int fs_window_open_door(struct fs_window *window);
int fs_window_meet_doors(struct fs_window *window);
void fs_window_shut_door(
    struct fs_window *window); /* if there is one: nobody writes here any more.  Before the window's close */
int fs_window_read(struct fs_window *window, struct fs_window_call *call, int target, const void *memory, void *into,
                   size_t bytes);
int fs_window_write(struct fs_window *window, struct fs_window_call *call, int target, void *memory, const void *from,
                    size_t bytes);
/* Items there, packed here. */
int fs_window_read_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                         const struct fs_layout *layout, int64_t extent, unsigned char *packed, size_t from,
                         size_t bytes);
int fs_window_write_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                          const struct fs_layout *layout, int64_t extent, const unsigned char *packed, size_t from,
                          size_t bytes);

/* What of it the others may reach, in a window of no fixed memory: its data are a table of each member. */
uint64_t fs_window_table_bytes(int size);
int fs_window_attach(struct fs_window *window, uint64_t start, uint64_t bytes); /* which overlap nothing; or -ENOSPC */
int fs_window_detach(struct fs_window *window, uint64_t start);                 /* or -ENOENT */
/* Whether the bytes from low to high are attached together. */
int fs_window_is_attached(struct fs_window *window, struct fs_window_call *call, int target, uint64_t low,
                          uint64_t high);

/* ---- atomic, element by element ---- */
/* memory = memory operation source; what was there goes to `result` before, where that is not NULL.  `memory` lies `offset`
 * bytes into the target's part. */
int fs_window_accumulate(struct fs_window *window, struct fs_window_call *call, int target, uint64_t offset,
                         unsigned char *memory, const unsigned char *source, unsigned char *result, size_t count,
                         int type, int operation);
/* The same of elements with gaps: the first `bytes` of data of the items from `memory` on, as they are packed. */
int fs_window_accumulate_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                               const struct fs_layout *layout, int64_t extent, const unsigned char *source,
                               unsigned char *result, size_t bytes, int type, int operation);
/* Between the two nobody else combines anything with a target's part: for what the caller combines itself. */
int fs_window_hold(struct fs_window *window, struct fs_window_call *call, int target);
int fs_window_release(struct fs_window *window, int target);
/* What was there goes to `result`; where that is `compare`, `source` is there then. */
int fs_window_compare_and_swap(struct fs_window *window, struct fs_window_call *call, int target, uint64_t offset,
                               unsigned char *memory, const void *source, const void *compare, void *result,
                               size_t bytes);

#endif
