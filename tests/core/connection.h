/* A connection to test: the memory, the two doorbells, and whichever ends this process opened. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "stream/end.h"
#include "system.h"

#define STALL_NS 20000000000ull /* nothing that is right takes so long */

struct connection {
    int memory, bell[2];
    struct fs_end *end[2];
    size_t direct_min; /* what ends that are opened from now on get; 0: no direct copies */
    pid_t holder[2];   /* the process of each end; only for direct copies */
};

struct connection connection_make(uint32_t small_bytes); /* no end opened yet */
void connection_open(struct connection *connection, int side, double spin_us);
struct connection connection_both(uint32_t small_bytes, double spin_us); /* both ends in this process */
void connection_close(struct connection *connection, int side);          /* as a socket's last close */
void connection_forget(struct connection *connection, int side);         /* this process does not hold that end */

/* Endless streams whose every byte is known. */
void stream_fill(uint64_t stream, uint64_t position, unsigned char *target, size_t length);
void stream_check(uint64_t stream, uint64_t position, const unsigned char *source, size_t length);

/* Blocking calls as the binding makes them.  A wait that stalls fails the test. */
void wait_for(struct fs_end *end, int bell, int what);
ssize_t send_some(struct fs_end *end, int bell, const void *data, size_t length);
ssize_t send_everything(struct fs_end *end, int bell, const void *data, size_t length); /* length, or -errno */
ssize_t receive_some(struct fs_end *end, int bell, void *target, size_t length);

struct flow {
    struct fs_end *end;
    int bell;
    uint64_t stream, total, salt, largest;
};
void *flow_send(void *flow);    /* `total` bytes of the stream in random pieces */
void *flow_receive(void *flow); /* the same, checked; UINT64_MAX: until the end, which is stored in total */

pthread_t start_thread(void *(*body)(void *), void *argument);
void join_thread(pthread_t thread);
void join_process(pid_t process);           /* fails the test where it failed */
pid_t start_process(void);                  /* fork() that must succeed */
void exact_sleep_us(uint64_t microseconds); /* chooses a moment, never waits for something */

/* faults.c: what the linker puts between the core and the system. */
extern int always_direct;        /* however fast the ring may be, large blocks are asked for past it */
extern int map_same_memory_once; /* both ends see one mapping: the thread sanitizer must know that it is one memory */
enum fault_point { BEFORE_CALL, AFTER_CALL };
enum call_kind { IN_SEND, IN_RECV, IN_SHUTDOWN, IN_SETSOCKOPT, IN_ANY, CALL_KINDS };
void die_in(enum call_kind kind, int countdown,
            enum fault_point point); /* SIGKILL in the countdown-th of this process */
extern int threads_left, forks_left; /* then pthread_create() and fork() fail: -1 for never */
extern _Thread_local int naps;       /* that this thread took by nanosleep() */

#endif
