#define _GNU_SOURCE
#include "polling.h"

#include <errno.h>
#include <poll.h>

#include "carry.h"
#include "switch.h"
#include "table.h"
#include "tokens.h"
#include "waiting.h"

#define LOOKS_PER_CLOCK 8
#define LOCK_PATIENCE_NS 50000000ull
#define MOST_NEWS 8

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
    struct fs_polled *silent = NULL;
    for (int i = 0; i < poller->count; i++) {
        struct fs_polled *one = &poller->among[i];
        if (one->by_edges && one->unsettled) continue; /* nobody has asked yet for what comes next */
        if (silent == NULL || one->reported < silent->reported) silent = one;
    }
    return silent != NULL && silent->reported < poller->turn ? silent : NULL;
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
    *place = (struct fs_polled){.connection = connection,
                                .generation = atomic_load(&connection->generation),
                                .descriptor = descriptor,
                                .unsettled = 1,
                                .reported = poller->turn};
    return 1;
}

static int settle_edge(struct fs_poller *poller, struct fs_connection *connection, int descriptor, int flags)
{
    int how = fs_seats_flags(&poller->seats, descriptor);
    return fs_carry_settle_edge(connection, descriptor, flags | (how != 0 ? how : poller->counted),
                                fs_seats_edge(&poller->seats, descriptor));
}

/* What the program is about to hear of covers the news that come meanwhile. */
static void ask_at_once(struct fs_poller *poller, struct fs_connection *connection, int descriptor)
{
    int result = 1;
    for (int i = 0; i < MOST_NEWS && result == 1; i++) {
        fs_seats_report_edge(&poller->seats, descriptor);
        result = settle_edge(poller, connection, descriptor, 0);
    }
    if (result != 0) fs_connection_watch(connection, descriptor); /* somebody is stopped within: tokens for good */
}

void fs_poller_report_edge(struct fs_poller *poller, int descriptor, int at_once)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || fs_seats_edge(&poller->seats, descriptor) == NULL) return;
    fs_seats_report_edge(&poller->seats, descriptor);
    if (!fs_carry_is_attached(connection)) return;
    struct fs_polled *place = place_of(poller, descriptor);
    if (place == NULL) place = make_place(poller);
    if (place != NULL)
        *place = (struct fs_polled){.connection = connection,
                                    .generation = atomic_load(&connection->generation),
                                    .descriptor = descriptor,
                                    .unsettled = 1,
                                    .by_edges = 1,
                                    .reported = poller->turn};
    if (at_once || (place == NULL && !fs_seats_has_bit(&poller->seats, descriptor)))
        ask_at_once(poller, connection, descriptor);
}

void fs_poller_drop(struct fs_poller *poller, int descriptor)
{
    struct fs_polled *place = place_of(poller, descriptor);
    if (place != NULL) *place = poller->among[--poller->count];
}

/* ---- looking ---- */

/* With the connection entered.  edge: NULL: any data. */
static int has_news(const struct fs_connection *connection, const struct fs_edge *edge)
{
    const struct fs_record *record = connection->record;
    const struct fs_end *end = connection->end;
    return end != NULL && !fs_record_is_plain(record) && fs_switch_reads_ring(record, end) &&
           fs_edge_has_news(edge, record, end);
}

static const struct fs_edge *edge_of(const struct fs_polled *one) { return one->by_edges ? &one->edge : NULL; }

static int shows_news(struct fs_connection *connection, int descriptor, const struct fs_edge *edge)
{
    if (!fs_connection_enter(connection, descriptor)) return 0;
    int found = has_news(connection, edge);
    fs_connection_exit(connection);
    return found;
}

static void take_edge(const struct fs_poller *poller, struct fs_polled *one)
{
    const struct fs_edge *edge = fs_seats_edge(&poller->seats, one->descriptor);
    one->by_edges = edge != NULL;
    if (edge != NULL) one->edge = *edge;
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
        take_edge(poller, one);
        if (shows_news(one->connection, one->descriptor, edge_of(one))) {
            one->reported = poller->turn;
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
    poller->pressing = 0;
    for (int i = 0; i < poller->count; i++) {
        struct fs_polled *one = &poller->among[i];
        if (!one->unsettled || !is_still(one) || fs_seats_has_bit(&poller->seats, one->descriptor)) continue;
        int result = settle_edge(poller, one->connection, one->descriptor, FS_AT_ONCE);
        if (result == 0) one->unsettled = 0;
        if (result < 0 && one->by_edges) poller->pressing = 1;
        if (result != 1) continue; /* who is at work there leaves at least a token; an old one is no edge */
        one->reported = poller->turn;
        ready[found++] = one->descriptor;
    }
    return found;
}

/* ---- waiting a moment ---- */

struct wait {
    const struct fs_polled *far[FS_POLLED_MOST], *near[FS_POLLED_MOST];
    int far_count, near_count;
    int is_core_wanted; /* who runs on this core has not read all that it was sent */
    double spin_us;
};

static int has_unread(const struct fs_end *end)
{
    const struct fs_direction *out = end->out.shared;
    return fs_published(out) != atomic_load_explicit(&out->tail, memory_order_relaxed);
}

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
        if (fs_end_is_elsewhere(end)) {
            wait->far[wait->far_count++] = &among[i];
        } else {
            wait->near[wait->near_count++] = &among[i];
            if (has_unread(end)) wait->is_core_wanted = 1;
        }
    }
}

static void exit_all(const struct wait *wait)
{
    for (int i = 0; i < wait->far_count; i++) fs_connection_exit(wait->far[i]->connection);
    for (int i = 0; i < wait->near_count; i++) fs_connection_exit(wait->near[i]->connection);
}

static int has_any(const struct fs_polled *const *among, int count)
{
    for (int i = 0; i < count; i++) {
        const struct fs_connection *connection = among[i]->connection;
        if (fs_edge_has_news(edge_of(among[i]), connection->record, connection->end)) return 1;
    }
    return 0;
}

/* Not while somebody who has work waits for this core. */
static int spin(struct fs_poller *poller, const struct wait *wait, uint64_t limit_ns)
{
    double us = wait->spin_us < (double)limit_ns / 1e3 ? wait->spin_us : (double)limit_ns / 1e3;
    if (wait->far_count == 0 || wait->is_core_wanted || us <= 0 || !fs_spin_is_due(&poller->spin)) return 0;
    uint64_t limit = (uint64_t)(us * fs_ticks_per_us()), start = fs_ticks(), now = start;
    int found = 0, lost = 0;
    do {
        for (int i = 0; i < LOOKS_PER_CLOCK && !(found = has_any(wait->far, wait->far_count)); i++) fs_pause();
        lost = fs_spin_has_lost_core(&now);
    } while (!found && !lost && now - start < limit);
    if (lost) fs_spin_put_off(&poller->spin);
    else fs_spin_learn(&poller->spin, found);
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

static int shows(int descriptor, short events)
{
    struct pollfd one = {descriptor, events, 0};
    return poll(&one, 1, 0) > 0;
}

static int is_stale(int descriptor, int flags, const struct fs_edge *edge)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_carry_is_attached(connection) || shows_news(connection, descriptor, edge)) return 0;
    int result = fs_carry_settle_edge(connection, descriptor, flags, edge);
    if (result != 0) return result > 0 ? 0 : result;
    /* what he was told of keeps its tokens on TCP */
    return !shows(descriptor, edge != NULL && shows_news(connection, descriptor, NULL) ? POLLRDHUP : POLLIN);
}

int fs_polling_is_stale(int descriptor, int flags) { return is_stale(descriptor, flags, NULL); }

int fs_poller_is_edge_stale(struct fs_poller *poller, int descriptor)
{
    return is_stale(descriptor, fs_seats_flags(&poller->seats, descriptor), fs_seats_edge(&poller->seats, descriptor));
}

/* With the reader's lock. */
static void make_way(struct fs_connection *connection, struct fs_record *record, int descriptor)
{
    struct fs_end *end = connection->end;
    if (end == NULL || !fs_table_is(connection, descriptor, record) || fs_record_is_plain(record)) return;
    fs_switch_mend_reader(record, descriptor);
    if (fs_traffic_inside(atomic_load(&record->received)) != 0 || !fs_connection_is_joined(end)) return;
    fs_switch_catch_up(connection, end, descriptor); /* the program may not have read since memory came */
    if (!fs_switch_reads_ring(record, end)) return;
    if (fs_tokens_settle(connection, end, descriptor) > 0 && fs_end_has_data(end))
        fs_tokens_keep_one(connection, end, descriptor);
}

void fs_polling_reported_edge(int descriptor)
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
