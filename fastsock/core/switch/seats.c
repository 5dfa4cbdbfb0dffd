#define _GNU_SOURCE
#include "seats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "carry.h"
#include "edge.h"
#include "loop.h"
#include "table.h"
#include "waiting.h"

#define FEWEST 64
#define LOOP_PAYS 16 /* times that the kernel has told of one with memory: a loop costs as much as many wake-ups */

/* ---- places ---- */

static int make_room(struct fs_seats *seats, int descriptor)
{
    if (descriptor < seats->room) return 1;
    int room = seats->room < FEWEST ? FEWEST : seats->room;
    while (room <= descriptor && room < FS_TABLE_CHUNKS << FS_TABLE_CHUNK_BITS) room *= 2;
    struct fs_seat *places = room > descriptor ? realloc(seats->places, (size_t)room * sizeof *places) : NULL;
    if (places == NULL) return 0;
    memset(places + seats->room, 0, (size_t)(room - seats->room) * sizeof *places);
    seats->places = places;
    seats->room = room;
    return 1;
}

static int is_mine(const struct fs_seats *seats) { return seats->process == fs_generation(); }

/* Of the connection that has sat down; another one may have its number by now. */
static void count_as_listener(const struct fs_seat *seat, int descriptor, int change)
{
    if (!fs_connection_enter(seat->connection, descriptor)) return;
    if (atomic_load(&seat->connection->generation) == seat->generation)
        fs_carry_listen(seat->connection, descriptor, change);
    fs_connection_exit(seat->connection);
}

static void vacate(struct fs_seats *seats, struct fs_seat *seat, int descriptor)
{
    if (seat->connection == NULL) return;
    if (seat->slot >= 0) fs_loop_leave(seats->loop, seat->slot);
    else count_as_listener(seat, descriptor, -1);
    free(seat->edge);
    *seat = (struct fs_seat){NULL, 0, FS_HEARS_ANY, NULL};
}

static void give_up_bit(struct fs_seats *seats, struct fs_seat *seat, int descriptor)
{
    if (seat->slot < 0) return;
    count_as_listener(seat, descriptor, 1);
    fs_loop_leave(seats->loop, seat->slot);
    seat->slot = FS_HEARS_ANY;
}

/* By a forked child.  What the parent has counted it takes back itself. */
static void take_over(struct fs_seats *seats)
{
    if (is_mine(seats)) return;
    seats->process = fs_generation();
    atomic_store(&seats->asking, 0);
    if (seats->places == NULL) return;
    if (seats->loop != NULL) fs_loop_free(seats->loop);
    if (seats->dropped != NULL) fs_loop_free(seats->dropped);
    seats->loop = seats->dropped = NULL;
    seats->sleepers = 0;
    seats->never = 1; /* the kernel's list is the parent's too: it would be told of this bell */
    seats->reported = 0;
    seats->unshown = 1;
    for (int i = 0; (i = fs_seats_next(seats, i)) >= 0; i++) {
        seats->places[i].slot = FS_HEARS_ANY;
        count_as_listener(&seats->places[i], i, 1);
    }
}

static int is_of(const struct fs_seat *seat, struct fs_connection *connection)
{
    return seat->connection == connection && seat->generation == atomic_load(&connection->generation);
}

/* 1: it has the bit from now on, and the loop looks at it first. */
static int take_bit(struct fs_seats *seats, struct fs_seat *seat, int descriptor)
{
    if (seats->loop == NULL || !fs_carry_is_attached(seat->connection)) return 0;
    int slot = fs_loop_join(seats->loop, seat->connection, descriptor, seat->edge);
    if (slot < 0) return 0;
    count_as_listener(seat, descriptor, -1); /* from now on the bit is asked for */
    seat->slot = slot;
    return 1;
}

int fs_seats_take(struct fs_seats *seats, int descriptor, enum fs_hearing hearing)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) {
        fs_seats_leave(seats, descriptor);
        return 0;
    }
    take_over(seats);
    int by_edges = hearing == FS_HEARS_EDGES;
    if (!make_room(seats, descriptor)) return by_edges ? -ENOMEM : fs_carry_is_attached(connection);
    struct fs_seat *seat = &seats->places[descriptor];
    if (is_of(seat, connection) && !by_edges && seat->edge == NULL) {
        int had_bit = seat->slot >= 0;
        if (had_bit && hearing == FS_HEARS_ANY) return 0;
        give_up_bit(seats, seat, descriptor);
        seat->slot = (int)hearing;
        return had_bit;
    }
    vacate(seats, seat, descriptor);
    struct fs_edge *edge = by_edges ? calloc(1, sizeof *edge) : NULL;
    if (by_edges && edge == NULL) return -ENOMEM;
    *seat = (struct fs_seat){connection, atomic_load(&connection->generation),
                             by_edges ? (int)FS_HEARS_ANY : (int)hearing, edge};
    count_as_listener(seat, descriptor, 1);
    /* who sleeps in the loop would not hear of what is unread */
    if (seat->slot == FS_HEARS_ANY && seats->sleepers == 0 && take_bit(seats, seat, descriptor)) return 0;
    return fs_carry_is_attached(connection);
}

void fs_seats_leave(struct fs_seats *seats, int descriptor)
{
    take_over(seats);
    if (descriptor < seats->room) vacate(seats, &seats->places[descriptor], descriptor);
}

int fs_seats_next(const struct fs_seats *seats, int descriptor)
{
    for (; descriptor < seats->room; descriptor++)
        if (seats->places[descriptor].connection != NULL) return descriptor;
    return -1;
}

/* Whose connection has the number still; or NULL. */
static const struct fs_seat *seat_of(const struct fs_seats *seats, int descriptor)
{
    if (descriptor >= seats->room || seats->places[descriptor].connection == NULL) return NULL;
    const struct fs_seat *seat = &seats->places[descriptor];
    return is_of(seat, seat->connection) && fs_table_find(descriptor) == seat->connection ? seat : NULL;
}

int fs_seats_flags(const struct fs_seats *seats, int descriptor)
{
    const struct fs_seat *seat = seat_of(seats, descriptor);
    return seat == NULL ? 0 : seat->slot >= 0 ? FS_BY_BIT : FS_COUNTED;
}

const struct fs_edge *fs_seats_edge(const struct fs_seats *seats, int descriptor)
{
    const struct fs_seat *seat = seat_of(seats, descriptor);
    return seat == NULL ? NULL : seat->edge;
}

void fs_seats_report_edge(struct fs_seats *seats, int descriptor)
{
    const struct fs_seat *seat = seat_of(seats, descriptor);
    if (seat == NULL || seat->edge == NULL || !fs_connection_enter(seat->connection, descriptor)) return;
    const struct fs_end *end = seat->connection->end;
    if (end != NULL) fs_edge_report(seat->edge, seat->connection->record, end);
    fs_connection_exit(seat->connection);
}

/* ---- the loop ---- */

int fs_seats_reported(struct fs_seats *seats, int descriptor)
{
    if (descriptor >= seats->room || seats->places[descriptor].connection == NULL) return 0;
    struct fs_seat *seat = &seats->places[descriptor];
    if (seat->slot >= 0) fs_loop_heat(seats->loop, seat->slot, 0);
    if (seat->slot != FS_HEARS_ANY || seats->never || !fs_carry_is_attached(seat->connection)) return 0;
    if (seats->loop == NULL) return ++seats->reported >= LOOP_PAYS && atomic_load(&seats->asking) == 0;
    take_bit(seats, seat, descriptor);
    return 0;
}

int fs_seats_make_loop(struct fs_seats *seats)
{
    int error = 0;
    struct fs_loop *loop = fs_loop_make(&error);
    int bell = loop == NULL ? error : fs_loop_descriptor(loop);
    if (bell > 0) {
        seats->loop = loop;
        seats->bell = bell;
        return bell;
    }
    seats->never = 1;
    if (loop != NULL) fs_loop_free(loop);
    return bell < 0 ? bell : -EBADF;
}

static void free_unused(struct fs_seats *seats)
{
    if (seats->dropped == NULL || seats->sleepers > 0) return;
    fs_loop_free(seats->dropped);
    seats->dropped = NULL;
}

void fs_seats_drop_loop(struct fs_seats *seats)
{
    take_over(seats);
    seats->never = 1;
    seats->bell = 0;
    if (seats->loop == NULL) return;
    for (int i = 0; (i = fs_seats_next(seats, i)) >= 0; i++) give_up_bit(seats, &seats->places[i], i);
    seats->dropped = seats->loop;
    seats->loop = NULL;
    free_unused(seats);
}

void fs_seats_end(struct fs_seats *seats)
{
    if (is_mine(seats)) {
        fs_seats_drop_loop(seats);
        for (int i = 0; (i = fs_seats_next(seats, i)) >= 0; i++) vacate(seats, &seats->places[i], i);
    } else if (seats->loop != NULL) {
        fs_loop_free(seats->loop); /* the page alone: the rest is the parent's */
        seats->loop = NULL;
    }
    for (int i = 0; i < seats->room; i++) free(seats->places[i].edge); /* of a child's, too */
    free(seats->places);
    seats->places = NULL;
    seats->room = 0;
    seats->bell = 0;
    seats->process = seats->reported = 0;
    seats->never = seats->unshown = 0; /* for the next object in its place; `asking` goes on */
}

int fs_seats_moved(struct fs_seats *seats)
{
    take_over(seats);
    int result = seats->unshown;
    seats->unshown = 0;
    return result;
}

/* ---- waiting ---- */

int fs_seats_look(struct fs_seats *seats, int *numbers, int most, int flags)
{
    return seats->loop == NULL ? 0 : fs_loop_look(seats->loop, numbers, most, flags);
}

int fs_seats_sleep(struct fs_seats *seats, int *numbers, int most, int flags, struct fs_loop **asleep)
{
    *asleep = NULL;
    if (seats->loop == NULL) return 0;
    if (fs_loop_descriptor(seats->loop) != seats->bell) { /* nobody would hear it */
        fs_seats_drop_loop(seats);
        return -ESTALE;
    }
    int result = fs_loop_sleep(seats->loop, numbers, most, flags);
    if (result != 0) return result;
    *asleep = seats->loop;
    seats->sleepers++;
    return 0;
}

void fs_seats_awake(struct fs_seats *seats, struct fs_loop *asleep, int rung)
{
    if (asleep == NULL && rung && seats->loop != NULL) fs_loop_hush(seats->loop);
    if (asleep == NULL || (asleep != seats->loop && asleep != seats->dropped)) return; /* a child of who slept */
    fs_loop_awake(asleep, rung);
    seats->sleepers--;
    free_unused(seats);
}

void fs_seats_pass_on(struct fs_seats *seats)
{
    if (seats->loop != NULL && seats->sleepers > 0) fs_loop_pass_on(seats->loop);
}
