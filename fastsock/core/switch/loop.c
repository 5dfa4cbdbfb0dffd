#define _GNU_SOURCE
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "loop_names.h"
#include "switch.h"
#include "table.h"
#include "waiting.h"

#define FEWEST_SLOTS 64u
#define MOST_LOOKS 8 /* at bits that come while it is about to sleep */

struct slot {
    struct fs_connection *connection; /* NULL: it is free */
    struct fs_record *record;
    uint32_t generation; /* the connection's */
    uint32_t uses;       /* of the slot */
    int descriptor;
    int is_hot;                 /* and it is in the queue */
    int is_reported;            /* by the kernel */
    uint32_t next;              /* of those that are free */
    uint64_t counted;           /* tokens, when it was looked at last */
    const struct fs_edge *edge; /* or NULL: it is watched by levels */
};

struct fs_loop {
    struct fs_loop_home home;
    uint64_t id;
    uint32_t process; /* its generation: a child is another one */
    pthread_mutex_t lock;
    /* under the lock */
    struct slot *slots;
    uint32_t room, begun,
        free;        /* slots there are; that were ever used; the first free one of those, or FS_LOOP_SLOTS */
    uint32_t *queue; /* of the hot ones, a ring of `room` */
    uint32_t first, hot;
    uint32_t sleepers;
    uint64_t sleeps;
    int is_asked; /* somebody may have asked for the page */
};

static int is_mine(const struct fs_loop *loop) { return loop->process == fs_generation(); }

static int hold(struct fs_loop *loop, int flags)
{
    if (!is_mine(loop)) return -ECHILD;
    if (!(flags & FS_AT_ONCE)) return -pthread_mutex_lock(&loop->lock);
    return pthread_mutex_trylock(&loop->lock) == 0 ? 0 : -EBUSY;
}

static void let_go(struct fs_loop *loop) { pthread_mutex_unlock(&loop->lock); }

/* ---- making ---- */

struct fs_loop *fs_loop_make(int *error)
{
    struct fs_loop *loop = calloc(1, sizeof *loop);
    *error = -ENOMEM;
    if (loop == NULL) return NULL;
    loop->process = fs_generation();
    loop->free = FS_LOOP_SLOTS;
    pthread_mutex_init(&loop->lock, NULL);
    *error = getrandom(&loop->id, sizeof loop->id, GRND_NONBLOCK) == (ssize_t)sizeof loop->id ? 0 : -EAGAIN;
    if (*error == 0 && loop->id == 0) loop->id = 1;
    if (*error == 0) *error = fs_loop_open(&loop->home, loop->id);
    if (*error == 0) return loop;
    free(loop);
    return NULL;
}

static uint64_t ticket_of(const struct fs_loop *loop, uint32_t slot) { return loop->id + slot; }

static void give_up_claim(const struct fs_loop *loop, uint32_t slot)
{
    uint64_t ticket = ticket_of(loop, slot);
    if (loop->slots[slot].connection != NULL)
        atomic_compare_exchange_strong(&loop->slots[slot].record->loop, &ticket, 0);
}

void fs_loop_free(struct fs_loop *loop)
{
    if (is_mine(loop)) {
        atomic_store(&loop->home.page->closed, 1);
        for (uint32_t i = 0; i < loop->begun; i++) give_up_claim(loop, i);
    }
    fs_loop_close(&loop->home);
    free(loop->slots);
    free(loop->queue);
    free(loop);
}

int fs_loop_descriptor(const struct fs_loop *loop) { return fs_descriptor_number(&loop->home.bell); }

/* ---- slots, with the lock ---- */

static int grow(struct fs_loop *loop)
{
    uint32_t room = loop->room == 0 ? FEWEST_SLOTS : loop->room * 2;
    if (room > FS_LOOP_SLOTS) return -ENOSPC;
    uint32_t *queue = malloc(room * sizeof *queue);
    if (queue == NULL) return -ENOMEM;
    struct slot *slots = realloc(loop->slots, room * sizeof *slots);
    if (slots == NULL) {
        free(queue);
        return -ENOMEM;
    }
    memset(slots + loop->room, 0, (room - loop->room) * sizeof *slots);
    for (uint32_t i = 0; i < loop->hot; i++) queue[i] = loop->queue[(loop->first + i) % loop->room];
    free(loop->queue);
    loop->queue = queue;
    loop->slots = slots;
    loop->first = 0;
    loop->room = room;
    return 0;
}

static int take_slot(struct fs_loop *loop)
{
    if (loop->free != FS_LOOP_SLOTS) {
        uint32_t slot = loop->free;
        loop->free = loop->slots[slot].next;
        return (int)slot;
    }
    int error = loop->begun == loop->room ? grow(loop) : 0;
    return error != 0 ? error : (int)loop->begun++;
}

static void give_slot(struct fs_loop *loop, uint32_t slot)
{
    loop->slots[slot].connection = NULL;
    loop->slots[slot].uses++;
    loop->slots[slot].next = loop->free;
    loop->free = slot;
}

static void heat(struct fs_loop *loop, uint32_t slot)
{
    if (loop->slots[slot].is_hot) return;
    loop->slots[slot].is_hot = 1;
    loop->queue[(loop->first + loop->hot++) % loop->room] = slot;
}

static uint32_t take_hot(struct fs_loop *loop)
{
    uint32_t slot = loop->queue[loop->first];
    loop->first = (loop->first + 1) % loop->room;
    loop->hot--;
    loop->slots[slot].is_hot = 0;
    return slot;
}

/* The place of its bit is written before the bit can be asked for. */
static int claim(struct fs_loop *loop, struct fs_connection *connection, int descriptor, uint32_t slot,
                 const struct fs_edge *edge)
{
    struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    uint64_t nobody = 0;
    if (end == NULL || fs_record_state(record) != FS_ATTACHED) return -EAGAIN;
    if (!atomic_compare_exchange_strong(&record->loop, &nobody, ticket_of(loop, slot))) return -EBUSY;
    atomic_store(&fs_words_in(end)->slot, slot);
    atomic_store(&fs_words_in(end)->loop, loop->id);
    struct slot *place = &loop->slots[slot];
    place->connection = connection;
    place->record = record;
    place->generation = atomic_load(&connection->generation);
    place->descriptor = descriptor;
    place->edge = edge;
    place->is_reported = 1;
    place->counted = UINT64_MAX;
    heat(loop, slot);
    return 0;
}

int fs_loop_join(struct fs_loop *loop, struct fs_connection *connection, int descriptor, const struct fs_edge *edge)
{
    int error = hold(loop, 0);
    if (error != 0) return error;
    int slot = take_slot(loop);
    if (slot >= 0) {
        error = -EBADF;
        if (fs_connection_enter(connection, descriptor)) {
            error = claim(loop, connection, descriptor, (uint32_t)slot, edge);
            fs_connection_exit(connection);
        }
        if (error != 0) give_slot(loop, (uint32_t)slot);
    }
    let_go(loop);
    return slot < 0 ? slot : error != 0 ? error : slot;
}

static int is_taken(const struct fs_loop *loop, int slot)
{
    return slot >= 0 && (uint32_t)slot < loop->begun && loop->slots[slot].connection != NULL;
}

void fs_loop_leave(struct fs_loop *loop, int slot)
{
    if (hold(loop, 0) != 0) return;
    if (is_taken(loop, slot)) {
        give_up_claim(loop, (uint32_t)slot);
        give_slot(loop, (uint32_t)slot);
    }
    let_go(loop);
}

void fs_loop_heat(struct fs_loop *loop, int slot, int asked)
{
    if (hold(loop, 0) != 0) return;
    if (is_taken(loop, slot)) {
        if (asked) loop->slots[slot].is_reported = 1;
        heat(loop, (uint32_t)slot);
    }
    let_go(loop);
}

/* ---- looking ---- */

/* Whatever stands in the page: a slot that is not used costs nothing, any other one a look. */
static void collect(struct fs_loop *loop)
{
    struct fs_loop_page *page = loop->home.page;
    for (uint32_t i = 0; i < FS_LOOP_SUMMARIES; i++) {
        if (atomic_load_explicit(&page->summary[i], memory_order_relaxed) == 0) continue;
        uint64_t words = atomic_exchange(&page->summary[i], 0);
        for (; words != 0; words &= words - 1) {
            uint32_t word = i * 64 + (uint32_t)__builtin_ctzll(words);
            uint64_t bits = atomic_exchange(&page->bits[word], 0);
            for (; bits != 0; bits &= bits - 1) {
                uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);
                if (is_taken(loop, (int)slot)) heat(loop, slot);
            }
        }
    }
}

static uint64_t tokens_of(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return 0;
    struct fs_end *end = connection->end;
    uint64_t count = end == NULL ? 0 : atomic_load(&fs_words_in(end)->tokens) >> FS_TOKEN_SHIFT;
    fs_connection_exit(connection);
    return count;
}

/* Bytes on TCP, or an end.  While the ring carries, what else shows is a token. */
static int shows_something(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return 0;
    const struct fs_end *end = connection->end;
    int reads_ring = end != NULL && fs_switch_reads_ring(connection->record, end);
    fs_connection_exit(connection);
    struct pollfd one = {descriptor, (short)(POLLRDHUP | (reads_ring ? 0 : POLLIN)), 0};
    return poll(&one, 1, 0) > 0;
}

/* The first hot one; the lock is given back meanwhile.  1: there is something to read; 0: not; -EBUSY. */
static int look_at_one(struct fs_loop *loop, int flags, int *number)
{
    uint32_t slot = take_hot(loop);
    const struct slot seen = loop->slots[slot];
    loop->slots[slot].is_reported = 0;
    if (seen.connection == NULL) return 0;
    if (atomic_load(&seen.connection->generation) != seen.generation ||
        fs_table_find(seen.descriptor) != seen.connection)
        return 0; /* closed: it waits for the caller to leave */
    let_go(loop);
    int ready = fs_carry_settle_edge(seen.connection, seen.descriptor, (flags & FS_AT_ONCE) | FS_BY_BIT, seen.edge);
    uint64_t counted = tokens_of(seen.connection, seen.descriptor);
    pthread_mutex_lock(&loop->lock);
    struct slot *now = &loop->slots[slot];
    if (now->uses != seen.uses) return 0;
    if (counted != now->counted) loop->is_asked = 1; /* by a token, perhaps for want of the page */
    now->counted = counted;
    if (ready != 0) heat(loop, slot);
    if (ready < 0) now->is_reported |= seen.is_reported;
    *number = seen.descriptor;
    if (ready != 0 || seen.edge != NULL) return ready; /* an edge of the kernel is told when it comes */
    return seen.is_reported && shows_something(seen.connection, seen.descriptor); /* the kernel tells it again */
}

static int look(struct fs_loop *loop, int *numbers, int most, int flags)
{
    int found = 0, busy = 0;
    collect(loop);
    for (uint32_t left = loop->hot; left > 0 && loop->hot > 0 && found < most; left--) {
        int ready = look_at_one(loop, flags, &numbers[found]);
        if (ready > 0) found++;
        else if (ready < 0) busy = 1;
    }
    if (loop->is_asked) {
        loop->is_asked = 0;
        fs_loop_answer(&loop->home);
    }
    return found == 0 && busy ? -EBUSY : found;
}

int fs_loop_look(struct fs_loop *loop, int *numbers, int most, int flags)
{
    int result = hold(loop, flags);
    if (result != 0) return result;
    result = look(loop, numbers, most, flags);
    let_go(loop);
    return result;
}

/* ---- sleeping ---- */

static void wake(struct fs_loop *loop)
{
    loop->sleepers--; /* as long as another thread sleeps, it must be woken */
    atomic_store(&loop->home.page->asleep, loop->sleepers == 0 ? 0 : ++loop->sleeps);
}

int fs_loop_sleep(struct fs_loop *loop, int *numbers, int most, int flags)
{
    int result = hold(loop, flags);
    if (result != 0) return result;
    for (int i = 0; i < MOST_LOOKS; i++) {
        result = look(loop, numbers, most, flags);
        if (result != 0) break;
        loop->sleepers++;
        atomic_store(&loop->home.page->asleep, ++loop->sleeps);
        if (loop->hot == 0 && !fs_loop_page_has_bits(loop->home.page)) break;
        wake(loop);
        result = -EBUSY;
    }
    let_go(loop);
    return result;
}

static int is_look_due(const struct fs_loop *loop)
{
    return loop->sleepers > 0 && (loop->hot > 0 || fs_loop_page_has_bits(loop->home.page));
}

void fs_loop_pass_on(struct fs_loop *loop)
{
    if (hold(loop, 0) != 0) return;
    int is_due = is_look_due(loop);
    let_go(loop);
    if (is_due) fs_loop_ring_own(&loop->home);
}

void fs_loop_hush(struct fs_loop *loop)
{
    if (!is_mine(loop)) return;
    fs_loop_still(&loop->home);
    if (hold(loop, 0) != 0) return;
    /* who has rung believes that all were woken */
    if (loop->sleepers > 0) atomic_store(&loop->home.page->asleep, ++loop->sleeps);
    let_go(loop);
    fs_loop_pass_on(loop);
}

void fs_loop_awake(struct fs_loop *loop, int rung)
{
    if (rung && is_mine(loop)) fs_loop_still(&loop->home);
    if (hold(loop, 0) != 0) return;
    wake(loop);
    let_go(loop);
}
