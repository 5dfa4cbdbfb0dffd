#include "closed.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "identity.h"
#include "system.h"
#include "table.h"

static _Atomic int keeps_all;
static _Atomic uint64_t attached;

/* A ring, under the process's lock. */
static struct fs_closed *kept;
static size_t first, count;

static void forget_parents(void)
{
    first = count = 0;
    atomic_store(&attached, 0);
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_parents); }

/* A number that another socket got unseen tells that one's. */
static void look_at_addresses(const struct fs_connection *connection, int descriptor, struct fs_closed *seen)
{
    socklen_t own = sizeof seen->own, other = sizeof seen->other;
    seen->own.any.sa_family = seen->other.any.sa_family = AF_UNSPEC;
    if (!fs_identity_holds(connection, descriptor)) return;
    if (getsockname(descriptor, &seen->own.any, &own) != 0) seen->own.any.sa_family = AF_UNSPEC;
    if (getpeername(descriptor, &seen->other.any, &other) != 0) seen->other.any.sa_family = AF_UNSPEC;
}

void fs_closed_look(struct fs_connection *connection, int descriptor, struct fs_closed *seen)
{
    const struct fs_record *record = atomic_load(&connection->record);
    memset(seen, 0, sizeof *seen);
    fs_connection_report(connection, descriptor, &seen->carriers);
    if (record != NULL) seen->role = (enum fs_role)atomic_load(&record->role);
    seen->why = fs_candidate_why(connection);
    seen->threshold = fs_candidate_threshold(connection);
    look_at_addresses(connection, descriptor, seen);
}

static void keep(const struct fs_closed *seen)
{
    fs_hold_process();
    if (kept == NULL) kept = malloc(FS_CLOSED_KEPT * sizeof *kept);
    if (kept != NULL) {
        kept[(first + count) % FS_CLOSED_KEPT] = *seen;
        if (count < FS_CLOSED_KEPT) count++;
        else first = (first + 1) % FS_CLOSED_KEPT;
    }
    fs_release_process();
}

void fs_closed_keep(int all) { atomic_store(&keeps_all, all); }

void fs_closed_note(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return;
    const struct fs_record *record = atomic_load(&connection->record);
    int gained = record != NULL && fs_record_has_memory(record);
    if ((!gained && !atomic_load_explicit(&keeps_all, memory_order_relaxed)) ||
        atomic_load(&connection->descriptors) != 1)
        return;
    struct fs_closed seen;
    fs_closed_look(connection, descriptor, &seen);
    if (gained) atomic_fetch_add(&attached, 1);
    keep(&seen);
}

uint64_t fs_closed_attached(void) { return atomic_load(&attached); }

size_t fs_closed_list(struct fs_closed list[FS_CLOSED_KEPT])
{
    fs_hold_process();
    size_t there = count;
    for (size_t i = 0; i < there; i++) list[i] = kept[(first + i) % FS_CLOSED_KEPT];
    fs_release_process();
    return there;
}
