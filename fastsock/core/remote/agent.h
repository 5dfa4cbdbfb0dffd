/* The process's one thread that serves its spans, and the connection manager's events.
 *
 * It starts with the first span or listener, where there is a device.  A forked child has no such thread.  The child
 * lets go of everything here; sockets over a span go on through the parent's thread, as long as the parent lives.
 */
#ifndef FASTSOCK_REMOTE_AGENT_H
#define FASTSOCK_REMOTE_AGENT_H

#include "span.h"

/* Starts the thread, if it does not run: 0 or -errno. */
int fs_agent_start(void);
/* From now on the thread serves the span, which has its carrier.  `ended` is called by the thread once it is over: it
 * closes what the carrier needed.  0 or -errno. */
int fs_agent_serve(struct fs_span *span, void (*ended)(struct fs_span *span));
int fs_agent_serve_here(struct fs_span *span, void (*ended)(struct fs_span *span)); /* the same, called by the thread */
/* The thread looks at all spans soon. */
void fs_agent_wake(void);
/* `news` is called by the thread whenever `descriptor` is readable. */
int fs_agent_watch(int descriptor, void (*news)(void));
/* From now on the thread calls `sleep` wherever it would wait: it waits until `events` is readable, or there is other
 * news, or the time is over (-1: never; 0: it only looks). */
void fs_agent_sleep_by(void (*sleep)(int events, int timeout_ms));
/* The first span for which `is_it` says 1, held; or NULL.  The thread does nothing meanwhile. */
struct fs_span *fs_agent_find(int (*is_it)(struct fs_span *span, const void *key), const void *key);
/* The program takes its end of an open span: 0, or -errno and nothing is taken over.  `doorbell`: the span's.  `tcp`: of
 * the connection beside it, whose end is the other process's end. */
int fs_agent_begin(struct fs_span *span, int doorbell, int tcp);
/* Threads that use `end`, the program's of the span, do the thread's work for the span where it sleeps: so a message
 * needs no other thread. */
void fs_agent_lend(struct fs_span *span, struct fs_end *end);
/* The process is about to end.  Every program's end is told to the other host, behind all that was sent.  Waits for
 * that, `patience_ns` at most, and returns how many spans were not done.  exit() calls it with a minute. */
unsigned fs_agent_leave(uint64_t patience_ns);

#endif
