#define _GNU_SOURCE
#include "passing.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "borrowed.h"
#include "next.h"
#include "process.h"
#include "stream.h"
#include "switch/carry.h"
#include "switch/identity.h"

/* A number that the child of vfork() has by now for another file is not the connection's there. */
void fs_pass_number(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    fs_pass_shares(descriptor);
    if (connection == NULL || !fs_identity_holds(connection, descriptor)) return;
    int before = errno;
    fs_stream_give_up(connection, descriptor);
    errno = before;
}

/* ---- who else has a number that is not in the table yet ---- */

enum { WORDS = 1 << 10 }; /* numbers beyond: nothing is known of them, and nobody else has them */
typedef _Atomic uint64_t numbers[WORDS];
static numbers streams, alone;

static uint64_t bit_of(int descriptor) { return UINT64_C(1) << (descriptor % 64); }

static int has(const numbers set, int descriptor, int otherwise)
{
    if (descriptor < 0 || descriptor / 64 >= WORDS) return otherwise;
    return (atomic_load_explicit(&set[descriptor / 64], memory_order_relaxed) & bit_of(descriptor)) != 0;
}

static void put(numbers set, int descriptor, int is_in)
{
    if (descriptor < 0 || descriptor / 64 >= WORDS || has(set, descriptor, 0) == is_in) return;
    if (is_in) atomic_fetch_or(&set[descriptor / 64], bit_of(descriptor));
    else atomic_fetch_and(&set[descriptor / 64], ~bit_of(descriptor));
}

static void share_all(void)
{
    for (int i = 0; i < WORDS; i++) atomic_store_explicit(&alone[i], 0, memory_order_relaxed);
}
/* before and after: another thread may make a socket meanwhile */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(share_all, share_all, share_all); }

void fs_pass_to_stream(int descriptor)
{
    put(streams, descriptor, 1);
    fs_pass_number(descriptor);
}

void fs_pass_begins(int descriptor)
{
    if (fs_is_borrowed()) return;
    put(streams, descriptor, 0);
    put(alone, descriptor, 1);
}

void fs_pass_shares(int descriptor) { put(alone, descriptor, 0); }
int fs_pass_is_alone(int descriptor) { return has(alone, descriptor, 1) && !fs_pass_is_to_stream(descriptor); }
int fs_pass_is_to_stream(int descriptor) { return descriptor <= STDERR_FILENO || has(streams, descriptor, 0); }

/* ---- other processes ---- */

void fs_pass_on(const struct msghdr *message)
{
    if (fs_is_nowhere(message->msg_control)) return;
    struct msghdr copy = *message; /* CMSG_NXTHDR takes one that may be changed */
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&copy); part != NULL; part = CMSG_NXTHDR(&copy, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(0)) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(part) + i * sizeof descriptor, sizeof descriptor);
            fs_pass_number(descriptor);
        }
    }
}

void fs_pass_all(void)
{
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) fs_pass_number(i);
}

void fs_pass_inherited(void)
{
    share_all();
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        int flags = fs_next.fcntl(i, F_GETFD, NULL);
        if (flags >= 0 && !(flags & FD_CLOEXEC)) fs_pass_number(i);
    }
}
