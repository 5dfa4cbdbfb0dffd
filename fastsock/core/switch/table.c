#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define CHUNK (1 << FS_TABLE_CHUNK_BITS)
#define LEFT (1u << 31)                  /* of `users`: it is nobody's any more once the last user is out */
#define LOCK_PATIENCE_NS 50000000ull     /* then its owner is stopped */
#define WORKER_PATIENCE_NS 1000000000ull /* for a thread of this process */

fs_table_chunk fs_table_chunks[FS_TABLE_CHUNKS];
static _Atomic int end_of_table;                         /* all numbers from there on are free */
static struct fs_connection *free_first, *free_last;     /* a queue, so that a place rests before it serves again */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* it keeps records, too */

void fs_table_hold(void) { pthread_mutex_lock(&lock); }
void fs_table_release(void) { pthread_mutex_unlock(&lock); }

/* ---- numbers ---- */

/* With the table held. */
static fs_table_entry *make_entry(int descriptor)
{
    if (descriptor < 0 || descriptor >= CHUNK * FS_TABLE_CHUNKS) return NULL;
    fs_table_entry *_Atomic *chunk = &fs_table_chunks[descriptor >> FS_TABLE_CHUNK_BITS];
    if (atomic_load(chunk) == NULL) {
        fs_table_entry *fresh = calloc(CHUNK, sizeof *fresh);
        if (fresh == NULL) return NULL;
        atomic_store(chunk, fresh);
    }
    if (descriptor >= end_of_table) end_of_table = descriptor + 1;
    return fs_table_place(descriptor);
}

int fs_table_next(int descriptor)
{
    for (; descriptor < end_of_table; descriptor++) {
        if (fs_table_place(descriptor) == NULL) descriptor |= CHUNK - 1;
        else if (fs_table_find(descriptor) != NULL) return descriptor;
    }
    return -1;
}

/* ---- places ---- */

static void give_place(struct fs_connection *connection)
{
    connection->next = NULL;
    if (free_last != NULL) free_last->next = connection;
    else free_first = connection;
    free_last = connection;
}

static struct fs_connection *take_first(void)
{
    struct fs_connection *connection = free_first;
    if (connection == NULL) return calloc(1, sizeof *connection);
    free_first = connection->next;
    if (free_first == NULL) free_last = NULL;
    return connection;
}

/* Without order but for the record, whose words whoever finds it here must see: the store to the number's entry releases
 * the others. */
static struct fs_connection *take_place(enum fs_role role)
{
    const memory_order none = memory_order_relaxed;
    struct fs_connection *connection = take_first();
    struct fs_record *record = connection == NULL ? NULL : fs_record_take(role);
    if (record == NULL) {
        if (connection != NULL) give_place(connection);
        return NULL;
    }
    atomic_store_explicit(&connection->generation, atomic_load_explicit(&connection->generation, none) + 1, none);
    atomic_store_explicit(&connection->descriptors, 1, none);
    atomic_store_explicit(&connection->candidate, NULL, none);
    atomic_store_explicit(&connection->answers_as, 0, none);
    atomic_store_explicit(&connection->identity, 0, none);
    atomic_store_explicit(&connection->forget, NULL, none);
    connection->is_last = 0;
    atomic_store_explicit(&connection->record, record, memory_order_release);
    return connection;
}

/* With the table held.  Nobody uses it any more, and no number leads here: so the stores need no order. */
static void give_back(struct fs_connection *connection)
{
    struct fs_record *record = atomic_load(&connection->record);
    atomic_store_explicit(&connection->record, NULL, memory_order_relaxed);
    fs_record_give(record);
    give_place(connection);
}

/* Nobody uses it any more.  One of those who found that out does it. */
static void finish_once(struct fs_connection *connection)
{
    uint32_t left = LEFT;
    if (!atomic_compare_exchange_strong(&connection->users, &left, 0)) return;
    struct fs_end *end = atomic_exchange(&connection->end, NULL);
    if (end != NULL) fs_end_free(end);
    for (size_t i = 0; i < sizeof connection->withdrawn / sizeof connection->withdrawn[0]; i++) {
        if (connection->withdrawn[i] != NULL) fs_end_free(connection->withdrawn[i]);
        connection->withdrawn[i] = NULL;
    }
    fs_table_hold();
    give_back(connection);
    fs_table_release();
}

int fs_connection_enter(struct fs_connection *connection, int descriptor)
{
    atomic_fetch_add(&connection->users, 1);
    if (fs_table_find(descriptor) == connection) return 1;
    fs_connection_exit(connection);
    return 0;
}

void fs_connection_exit(struct fs_connection *connection)
{
    if (atomic_fetch_sub(&connection->users, 1) == (LEFT | 1)) finish_once(connection);
}

/* ---- entering and leaving ---- */

/* With the table held.  The connection, if this was its last number here. */
static struct fs_connection *take_out(fs_table_entry *place)
{
    struct fs_connection *connection =
        place == NULL || atomic_load(place) == NULL ? NULL : atomic_exchange(place, NULL);
    return connection != NULL && atomic_fetch_sub(&connection->descriptors, 1) == 1 ? connection : NULL;
}

/* A number that others of its connection survive.  A thread may be at work by it, under a lock, even one that the program
 * knows nothing of (answering.c).  What it does next the kernel would refuse, or do to another file. */
struct leaver {
    struct fs_connection *stays; /* entered; or NULL */
};

/* With the table held. */
static struct leaver begin_to_leave(fs_table_entry *place, int descriptor)
{
    struct fs_connection *connection = place == NULL ? NULL : atomic_load(place);
    int stays = connection != NULL && atomic_load(&connection->descriptors) > 1 && connection->end != NULL;
    return (struct leaver){stays && fs_connection_enter(connection, descriptor) ? connection : NULL};
}

/* Without it, and before the kernel gives the number to another file.  Who takes a lock later finds no such number. */
static void await_workers(struct leaver leaver)
{
    if (leaver.stays == NULL) return;
    const struct fs_record *record = leaver.stays->record;
    fs_await_owner(&record->sender, WORKER_PATIENCE_NS);
    fs_await_owner(&record->receiver, WORKER_PATIENCE_NS);
    fs_connection_exit(leaver.stays);
}

/* Whether others are left matters where they have memory. */
static void count_out(struct fs_connection *connection)
{
    enum fs_asking asking = connection->end != NULL ? FS_ASK_ALL : FS_ASK_LATER;
    connection->is_last = fs_holders_leave(&connection->record->holders, asking);
}

/* It never had memory, nor looked for it, as most that end early, and no thread has entered it.  Whoever does after this
 * look at `users` finds that its number was taken out, and touches nothing.  With the table held, so that nothing
 * attaches. */
static int is_untouched(struct fs_connection *connection)
{
    return atomic_load(&connection->end) == NULL && connection->withdrawn[0] == NULL &&
           atomic_load(&connection->forget) == NULL && atomic_load(&connection->users) == 0;
}

/* Likewise.  Its number was just taken out.  The connection, where more is to be done about it. */
static struct fs_connection *forget_untouched(struct fs_connection *connection)
{
    if (connection == NULL || !is_untouched(connection)) return connection;
    fs_holders_leave(&connection->record->holders, FS_ASK_LATER);
    give_back(connection);
    return NULL;
}

struct fs_connection *fs_table_remove(int descriptor)
{
    if (fs_table_find(descriptor) == NULL) return NULL;
    fs_table_hold();
    fs_table_entry *place = fs_table_place(descriptor);
    struct leaver leaver = begin_to_leave(place, descriptor);
    struct fs_connection *connection = forget_untouched(take_out(place));
    fs_table_release();
    await_workers(leaver);
    if (connection != NULL) count_out(connection);
    return connection;
}

/* Whoever works under a lock has looked at the table after he took it. */
static int wait_for_worker(fs_lock_word *word)
{
    if (fs_lock(word, LOCK_PATIENCE_NS) != 0) return 0;
    fs_unlock(word);
    return 1;
}

void fs_table_forget(struct fs_connection *connection)
{
    struct fs_record *record = connection->record;
    if (connection->forget != NULL) connection->forget(connection);
    if (connection->end != NULL && (!wait_for_worker(&record->sender) || !wait_for_worker(&record->receiver)))
        return; /* somebody is stopped within: he keeps it */
    atomic_fetch_or(&connection->users, LEFT);
    finish_once(connection);
}

void fs_table_lose(int descriptor)
{
    struct fs_connection *connection = fs_table_remove(descriptor);
    if (connection != NULL) fs_table_forget(connection);
}

int fs_table_enter(int descriptor, enum fs_role role)
{
    fs_table_hold();
    fs_table_entry *place = make_entry(descriptor);
    struct fs_connection *connection = place == NULL ? NULL : take_place(role);
    struct fs_connection *before = connection == NULL ? NULL : forget_untouched(take_out(place));
    if (connection != NULL) atomic_store(place, connection);
    fs_table_release();
    if (before != NULL) {
        count_out(before);
        fs_table_forget(before);
    }
    return connection != NULL ? 0 : place == NULL ? -EMFILE : -ENOMEM;
}

int fs_table_duplicate(int descriptor, int as)
{
    fs_table_hold();
    fs_table_entry *from = fs_table_place(descriptor), *place = make_entry(as);
    struct fs_connection *connection = from == NULL || place == NULL ? NULL : atomic_load(from);
    struct fs_connection *before = NULL;
    struct leaver leaver = {NULL};
    if (connection != NULL && atomic_load(place) != connection) {
        leaver = begin_to_leave(place, as);
        before = forget_untouched(take_out(place));
        atomic_fetch_add(&connection->descriptors, 1);
        atomic_store(place, connection);
    }
    fs_table_release();
    await_workers(leaver);
    if (before != NULL) {
        count_out(before);
        fs_table_forget(before);
    }
    return connection != NULL ? 0 : -ENOENT;
}

/* ---- forks ---- */

/* Counted before there is a child: nobody may take for its own alone what the child has too. */
static void before_fork(void)
{
    static uint32_t forks;
    fs_table_hold();
    fs_holders_before_fork(fs_table_next(0) >= 0);
    forks++;
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        struct fs_connection *connection = fs_table_find(i);
        if (connection->forks == forks) continue;
        connection->forks = forks;
        fs_holders_add_child(&connection->record->holders);
        fs_holders_add_child(&connection->record->keepers);
    }
}

/* What they lie in stays: the process is about to end, or to serve for something else. */
void fs_table_abandon(void)
{
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        struct fs_connection *connection = fs_table_remove(i);
        if (connection == NULL) continue;
        fs_table_hold();
        fs_record_give(connection->record);
        fs_table_release();
    }
}

static void after_fork_in_parent(void)
{
    fs_holders_after_fork(0);
    fs_table_release();
}

/* The threads that used them are not here. */
static void after_fork_in_child(void)
{
    fs_records_after_fork_in_child();
    fs_holders_after_fork(1);
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) atomic_store(&fs_table_find(i)->users, 0);
    fs_table_release();
}

__attribute__((constructor)) static void heed_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
