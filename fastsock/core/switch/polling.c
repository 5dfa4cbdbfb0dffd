#define _GNU_SOURCE
#include "polling.h"

#include <errno.h>
#include <poll.h>

#include "carry.h"
#include "switch.h"
#include "table.h"
#include "tokens.h"
#include "waiting.h"

#define POOR_SUCCESS 0.3f
#define PROBE_EVERY 16u
#define LOOKS_PER_CLOCK 8
#define LOCK_PATIENCE_NS 50000000ull

/* ---- who is looked at ---- */

static int is_still(const struct fs_polled *one)
{
    return fs_table_find(one->descriptor) == one->connection &&
           atomic_load(&one->connection->generation) == one->generation;
}

static struct fs_polled *place_of(struct fs_poller *poller, int descriptor)
{
    for (int i = 0; i < poller->count; i++)
        if (poller->among[i].descriptor == descriptor) return &poller->among[i];
    return NULL;
}

static struct fs_polled *make_place(struct fs_poller *poller)
{
    if (poller->count < FS_POLLED_MOST) return &poller->among[poller->count++];
    struct fs_polled *silent = &poller->among[0];
    for (int i = 1; i < poller->count; i++)
        if (poller->among[i].told < silent->told) silent = &poller->among[i];
    return silent->told < poller->turn ? silent : NULL;
}

static int may_lack_token(const struct fs_poller *poller, const struct fs_connection *connection, int descriptor)
{
    const struct fs_record *record = connection->record;
    return fs_seats_flags(&poller->seats, descriptor) == 0 && record != NULL && atomic_load(&record->loop) != 0;
}

int fs_poller_note(struct fs_poller *poller, int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_carry_is_attached(connection)) return 1;
    struct fs_polled *place = place_of(poller, descriptor);
    if (place == NULL) place = make_place(poller);
    if (place == NULL) {
        if (!may_lack_token(poller, connection, descriptor)) return 1;
        atomic_store(&connection->record->uncounted, 1); /* its loop asks for tokens, too */
        return 0;
    }
    *place = (struct fs_polled){connection, atomic_load(&connection->generation), descriptor, 1, poller->turn};
    return 1;
}

void fs_poller_drop(struct fs_poller *poller, int descriptor)
{
    struct fs_polled *place = place_of(poller, descriptor);
    if (place != NULL) *place = poller->among[--poller->count];
}

/* ---- looking ---- */

/* With the connection entered. */
static int has_data(const struct fs_connection *connection)
{
    const struct fs_record *record = connection->record;
    const struct fs_end *end = connection->end;
    return end != NULL && !fs_record_is_plain(record) && fs_switch_reads_ring(record, end) && fs_end_has_data(end);
}

static int shows_data(const struct fs_polled *one)
{
    if (!fs_connection_enter(one->connection, one->descriptor)) return 0;
    int found = has_data(one->connection);
    fs_connection_exit(one->connection);
    return found;
}

int fs_poller_look(struct fs_poller *poller, int *ready)
{
    int found = 0;
    for (int i = 0; i < poller->count;) {
        struct fs_polled *one = &poller->among[i];
        if (!is_still(one)) {
            fs_poller_drop(poller, one->descriptor);
            continue;
        }
        if (shows_data(one)) {
            one->told = poller->turn;
            one->unsettled = 1;
            ready[found++] = one->descriptor;
        }
        i++;
    }
    return found;
}

int fs_poller_settle(struct fs_poller *poller, int *ready)
{
    int found = 0;
    for (int i = 0; i < poller->count; i++) {
        struct fs_polled *one = &poller->among[i];
        if (!one->unsettled || !is_still(one) || fs_seats_has_bit(&poller->seats, one->descriptor)) continue;
        int flags = FS_AT_ONCE | fs_seats_flags(&poller->seats, one->descriptor);
        int result = fs_carry_settle(one->connection, one->descriptor, flags);
        if (result == 0) one->unsettled = 0;
        if (result != 1) continue; /* who is at work there leaves at least a token */
        one->told = poller->turn;
        ready[found++] = one->descriptor;
    }
    return found;
}

/* ---- waiting a moment ---- */

struct wait {
    const struct fs_connection *far[FS_POLLED_MOST], *near[FS_POLLED_MOST];
    int far_count, near_count;
    double spin_us;
};

static void enter_all(struct wait *wait, const struct fs_polled *among, int count)
{
    *wait = (struct wait){.far_count = 0};
    for (int i = 0; i < count; i++) {
        struct fs_connection *connection = among[i].connection;
        if (!fs_connection_enter(connection, among[i].descriptor)) continue;
        const struct fs_end *end = connection->end;
        if (end == NULL || fs_record_is_plain(connection->record) || !fs_switch_reads_ring(connection->record, end) ||
            fs_end_other_left(end)) {
            fs_connection_exit(connection);
            continue;
        }
        if (end->limits.spin_us > wait->spin_us) wait->spin_us = end->limits.spin_us;
        if (fs_end_is_elsewhere(end)) wait->far[wait->far_count++] = connection;
        else wait->near[wait->near_count++] = connection;
    }
}

static void exit_all(const struct wait *wait)
{
    for (int i = 0; i < wait->far_count; i++) fs_connection_exit((struct fs_connection *)wait->far[i]);
    for (int i = 0; i < wait->near_count; i++) fs_connection_exit((struct fs_connection *)wait->near[i]);
}

static int has_any(const struct fs_connection *const *connections, int count)
{
    for (int i = 0; i < count; i++)
        if (fs_end_has_data(connections[i]->end)) return 1;
    return 0;
}

/* Spinning pays only where the answer comes in time.  Its success decides. */
static int may_spin(struct fs_spin *spin)
{
    return spin->success >= POOR_SUCCESS || ++spin->skipped % PROBE_EVERY == 0;
}

static int spin(struct fs_poller *poller, const struct wait *wait, uint64_t limit_ns)
{
    double us = wait->spin_us < (double)limit_ns / 1e3 ? wait->spin_us : (double)limit_ns / 1e3;
    if (wait->far_count == 0 || us <= 0 || !may_spin(&poller->spin)) return 0;
    uint64_t limit = (uint64_t)(us * fs_ticks_per_us()), start = fs_ticks();
    int found = 0;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK && !found; i++) {
            found = has_any(wait->far, wait->far_count);
            fs_pause();
        }
    } while (!found && fs_ticks() - start < limit);
    poller->spin.success = poller->spin.success + ((float)found - poller->spin.success) / 8;
    return found;
}

static int yield(struct fs_poller *poller, const struct wait *wait)
{
    uint64_t start;
    if (wait->near_count == 0 || wait->spin_us <= 0 || !fs_yield_try(&poller->yield, &start)) return 0;
    int found = has_any(wait->near, wait->near_count) || has_any(wait->far, wait->far_count);
    fs_yield_learn(&poller->yield, start, found, wait->near_count);
    return found;
}

int fs_poller_await(struct fs_poller *poller, const struct fs_polled *among, int count, uint64_t limit_ns)
{
    struct wait wait;
    enter_all(&wait, among, count);
    int found = yield(poller, &wait) || spin(poller, &wait, limit_ns);
    exit_all(&wait);
    return found;
}

/* ---- what the kernel tells ---- */

static int shows_readable(int descriptor)
{
    struct pollfd one = {descriptor, POLLIN, 0};
    return poll(&one, 1, 0) > 0;
}

int fs_polling_is_stale(int descriptor, int flags)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_carry_is_attached(connection)) return 0;
    if (!fs_connection_enter(connection, descriptor)) return 0;
    int found = has_data(connection);
    fs_connection_exit(connection);
    if (found) return 0;
    int result = fs_carry_settle(connection, descriptor, flags);
    if (result != 0) return result > 0 ? 0 : result;
    return !shows_readable(descriptor);
}

/* With the reader's lock. */
static void make_way(struct fs_connection *connection, struct fs_record *record, int descriptor)
{
    struct fs_end *end = connection->end;
    if (end == NULL || !fs_table_is(connection, descriptor, record) || fs_record_is_plain(record)) return;
    fs_switch_mend_reader(record, descriptor);
    if (fs_traffic_inside(atomic_load(&record->received)) != 0 || !fs_switch_reads_ring(record, end)) return;
    if (fs_tokens_settle(connection, end, descriptor) > 0 && fs_end_has_data(end))
        fs_tokens_keep_one(connection, end, descriptor);
}

void fs_polling_told_edge(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_carry_is_attached(connection)) return;
    if (!fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    if (fs_lock(&record->receiver, LOCK_PATIENCE_NS) == 0) {
        make_way(connection, record, descriptor);
        fs_unlock(&record->receiver);
    }
    fs_connection_exit(connection);
}
