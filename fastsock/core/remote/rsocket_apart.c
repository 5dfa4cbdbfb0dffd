#define _GNU_SOURCE
#include "rsocket_apart.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

enum { RUNS, OVER, LEFT }; /* LEFT: nobody waits any more */

struct call {
    const struct fs_rsocket_library *library;
    struct sockaddr_storage target;
    socklen_t length; /* 0: it listens */
    int number, backlog, result;
    _Atomic uint32_t state; /* a futex word */
};

static int make(const struct call *call)
{
    if (call->length == 0) return call->library->rlisten(call->number, call->backlog) == 0 ? 0 : -errno;
    if (call->library->rconnect(call->number, (const struct sockaddr *)&call->target, call->length) == 0) return 0;
    return errno == EINPROGRESS ? 0 : -errno;
}

static void *run(void *of)
{
    struct call *call = of;
    uint32_t state = RUNS;
    call->result = make(call);
    if (call->result != 0) call->library->rclose(call->number);
    if (atomic_compare_exchange_strong(&call->state, &state, OVER)) {
        fs_futex_wake_all(&call->state); /* by the address alone: who waits may have freed it */
        return NULL;
    }
    if (call->result == 0) call->library->rclose(call->number);
    free(call);
    return NULL;
}

static int run_apart(struct call *call, uint64_t limit_ns)
{
    pthread_t thread;
    uint32_t state = RUNS;
    int error = fs_start_thread(&thread, run, call);
    if (error != 0) {
        call->library->rclose(call->number);
        free(call);
        return error;
    }
    pthread_detach(thread);
    for (uint64_t now; atomic_load(&call->state) == RUNS && (now = fs_now_ns()) < limit_ns;)
        fs_futex_wait(&call->state, RUNS, limit_ns - now);
    if (atomic_compare_exchange_strong(&call->state, &state, LEFT)) return -EBUSY;
    error = call->result;
    free(call);
    return error;
}

static int start(struct call made, uint64_t limit_ns)
{
    struct call *call = malloc(sizeof *call);
    if (call != NULL) {
        *call = made;
        return run_apart(call, limit_ns);
    }
    made.library->rclose(made.number);
    return -ENOMEM;
}

int fs_rsocket_listen_apart(const struct fs_rsocket_library *library, int number, int backlog, uint64_t limit_ns)
{
    return start((struct call){.library = library, .number = number, .backlog = backlog}, limit_ns);
}

int fs_rsocket_connect_apart(const struct fs_rsocket_library *library, int number, const struct sockaddr *target,
                             socklen_t length, uint64_t limit_ns)
{
    struct call call = {.library = library, .number = number, .length = length};
    memcpy(&call.target, target, length);
    return start(call, limit_ns);
}
