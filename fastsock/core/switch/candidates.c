#define _GNU_SOURCE
#include "candidates.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "kernel.h"
#include "refusals.h"
#include "seeking.h"
#include "shown.h"
#include "system.h"
#include "table.h"

#define MOST_TRIES 6u
#define TRIES_APART 4u   /* the next one comes at so many times as many calls */
#define WINDOW_CALLS 16u /* and as many as there were at its begin: so many more calls a try lasts */
#define LOOKS_APART 8u   /* while somebody may come, an end looks about so often until a try is twice as old */
#define POLL_SLICE_NS 20000000ull
#define NAP_NS 50000ull

/* `word`: a thread is inside, of that generation of process; the connection has left. */
enum { INSIDE = 1, LEFT = 2, GENERATION_SHIFT = 8 };

/* Its memory is never given back, and serves a later connection: who comes too late to it finds one. */
struct fs_candidate {
    _Atomic uint64_t word;
    _Atomic uint32_t why;
    struct fs_candidate *next;     /* among those that are free */
    _Atomic uint32_t from, lesson; /* a struct fs_threshold; 0: not known yet */
    /* of who is inside: */
    uint32_t began, tries; /* calls at the begin of this try, 0: between two */
    int learns;            /* its life is a lesson */
    struct fs_seeking seeking;
    struct fs_shown *shown; /* what other processes see of the connection, or NULL */
};

/* Under the process's lock, as `unused`. */
static struct fs_candidate_settings set = {.learns = 1, .ring_bytes = 64 * 1024};
static struct fs_candidate *unused;

static struct fs_candidate_settings settings(void)
{
    fs_hold_process();
    struct fs_candidate_settings now = set;
    fs_release_process();
    return now;
}

/* A new connection is asked when the first one of any listener would look. */
static void look_from_least(void)
{
    if (!settings().learns) return;
    uint32_t calls = fs_lives_least();
    atomic_store(&fs_first_calls, calls);
    atomic_store(&fs_first_bytes, (uint64_t)calls * FS_LIVES_CALL_BYTES);
}

/* ---- how long it lived ---- */

static uint32_t calls_of(const struct fs_record *record)
{
    uint32_t in = atomic_load_explicit(&record->calls_in, memory_order_relaxed);
    uint32_t out = atomic_load_explicit(&record->calls_out, memory_order_relaxed);
    return in > out ? in : out;
}

static uint64_t most_of(uint64_t one, uint64_t other) { return one > other ? one : other; }

/* In calls of a direction; many bytes count as several. */
static uint64_t life_on_tcp(const struct fs_record *record)
{
    uint64_t bytes = most_of(fs_moved(&record->received), fs_moved(&record->sent));
    return most_of(calls_of(record), bytes / FS_LIVES_CALL_BYTES);
}

static uint64_t life_in_ring(const struct fs_end *end)
{
    const struct fs_statistics *seen = &end->statistics;
    return most_of(most_of(atomic_load(&seen->calls_in), atomic_load(&seen->calls_out)),
                   most_of(atomic_load(&seen->bytes_received), atomic_load(&seen->bytes_sent)) / FS_LIVES_CALL_BYTES);
}

static const struct fs_place *listener_of(const struct fs_candidate *candidate, const struct fs_record *record)
{
    return atomic_load(&record->role) == FS_ROLE_ACCEPTED ? &candidate->seeking.tuple.own
                                                          : &candidate->seeking.tuple.other;
}

/* It does not run fastsock, or can as little be had. */
static int is_other_end_silent(enum fs_why why)
{
    switch (why) {
    case FS_WHY_NOBODY:
    case FS_WHY_UNANSWERED:
    case FS_WHY_TAKEN:
    case FS_WHY_STRANGE:
    case FS_WHY_DISAGREE:
    case FS_WHY_OTHER_USER: return 1;
    default: return 0;
    }
}

/* Before it is let go. */
static void learn(const struct fs_candidate *candidate, const struct fs_connection *connection)
{
    const struct fs_record *record = connection->record;
    const struct fs_end *end = connection->end;
    uint64_t from = atomic_load(&candidate->from);
    uint64_t in_ring = end != NULL && fs_record_state(record) == FS_ATTACHED ? life_in_ring(end) : 0;
    struct fs_life life = {FS_LIFE_UNTRIED, life_on_tcp(record), 0};
    if (in_ring > 0) {
        life.outcome = fs_end_is_elsewhere(end) ? FS_LIFE_FAR : FS_LIFE_NEAR;
        life.late = life.calls > from ? life.calls - from : 0;
        life.calls += in_ring;
    } else if (candidate->tries > 0 && is_other_end_silent((enum fs_why)atomic_load(&candidate->why))) {
        life.outcome = FS_LIFE_IN_VAIN;
    } else if (candidate->tries > 0 || candidate->began != 0) {
        life.outcome = FS_LIFE_CUT_OFF;
    }
    fs_lives_learn(listener_of(candidate, record), &life);
    look_from_least();
}

/* ---- one thread at a time ---- */

static uint64_t inside_now(void) { return (uint64_t)fs_generation() << GENERATION_SHIFT | INSIDE; }
static int is_inside(uint64_t word) { return (word & ~(uint64_t)LEFT) == inside_now(); }

/* A mark from the process that this one was forked from is nobody's. */
static int enter(struct fs_candidate *candidate)
{
    uint64_t word = atomic_load(&candidate->word);
    do
        if (word & LEFT || is_inside(word)) return 0;
    while (!atomic_compare_exchange_weak(&candidate->word, &word, inside_now()));
    return 1;
}

static void retire(struct fs_candidate *candidate)
{
    fs_shown_give(candidate->shown);
    candidate->shown = NULL;
    fs_seeking_stop(&candidate->seeking);
    fs_hold_process();
    candidate->next = unused;
    unused = candidate;
    fs_release_process();
}

static void leave(struct fs_candidate *candidate)
{
    if (atomic_fetch_and(&candidate->word, LEFT) & LEFT) retire(candidate);
}

static void forget(struct fs_connection *connection)
{
    struct fs_candidate *candidate = atomic_exchange(&connection->candidate, NULL);
    if (candidate == NULL || is_inside(atomic_fetch_or(&candidate->word, LEFT))) return;
    if (candidate->learns) learn(candidate, connection);
    retire(candidate);
}

static struct fs_candidate *make(void)
{
    fs_hold_process();
    struct fs_candidate *made = unused;
    if (made != NULL) unused = made->next;
    fs_release_process();
    if (made == NULL) made = calloc(1, sizeof *made);
    if (made == NULL) return NULL;
    made->began = made->tries = 0;
    made->shown = NULL;
    made->learns = 0;
    atomic_store(&made->from, 0);
    atomic_store(&made->lesson, FS_LESSON_NONE);
    fs_seeking_clear(&made->seeking);
    atomic_store(&made->why, FS_WHY_YOUNG);
    atomic_store(&made->word, inside_now());
    return made;
}

/* Of a connection that is entered: its candidate, with this thread alone inside, or NULL. */
static struct fs_candidate *enter_candidate_of(struct fs_connection *connection, int descriptor)
{
    struct fs_candidate *candidate = atomic_load(&connection->candidate), *none = NULL;
    if (candidate != NULL) {
        if (!enter(candidate)) return NULL;
        if (atomic_load(&connection->candidate) == candidate) return candidate;
        leave(candidate);
        return NULL;
    }
    struct fs_candidate *made = make();
    if (made == NULL) return NULL;
    connection->forget = forget;
    if (!atomic_compare_exchange_strong(&connection->candidate, &none, made)) {
        atomic_store(&made->word, LEFT);
        retire(made);
        return NULL;
    }
    if (fs_table_find(descriptor) == connection) return made;
    forget(connection); /* it has left meanwhile, and found no candidate */
    leave(made);
    return NULL;
}

/* ---- in the program's own calls ---- */

static void ask_at(struct fs_record *record, uint64_t calls)
{
    atomic_store(&record->next_bytes, UINT64_MAX);
    atomic_store(&record->next_try, calls < UINT32_MAX ? (uint32_t)calls : UINT32_MAX);
}

static void end_try(struct fs_candidate *candidate, struct fs_record *record, int for_good)
{
    uint64_t next = (uint64_t)TRIES_APART * candidate->began;
    fs_seeking_stop(&candidate->seeking);
    candidate->began = 0;
    if (++candidate->tries >= MOST_TRIES || for_good) next = UINT32_MAX;
    ask_at(record, next);
}

/* A try lasts till twice as many calls as at its begin, and the next one comes at four times as many.  So, however many
 * calls one end makes for each of the other, both are there at once. */
static uint64_t end_of_try(const struct fs_candidate *candidate)
{
    return 2 * (uint64_t)candidate->began + WINDOW_CALLS;
}

static int is_over(const struct fs_candidate *candidate, uint32_t calls) { return calls >= end_of_try(candidate); }

/* At once where something is open with the other end, else the later the longer this try lasts.  A look for a name that
 * nobody has costs as much as a small message: an end whose peer is plain TCP makes a few of them, and the last one when
 * its try ends, for a name that has come meanwhile. */
static void go_on(struct fs_candidate *candidate, struct fs_record *record, uint32_t calls, enum fs_why why)
{
    enum fs_stage stage = candidate->seeking.stage;
    uint32_t age = stage == FS_RESTING || stage == FS_LISTENING ? calls - candidate->began : 0;
    uint32_t apart = why == FS_WHY_NOBODY ? age : age / LOOKS_APART;
    uint64_t next = (uint64_t)calls + (apart > 1 ? apart : 1), last = end_of_try(candidate);
    ask_at(record, calls < last && last < next ? last : next);
}

/* When it first looks.  ATTACHED: now, or it has begun to. */
static enum fs_why is_time(struct fs_candidate *candidate, const struct fs_record *record, int descriptor,
                           const struct fs_candidate_settings *now)
{
    struct fs_threshold threshold = {now->calls, FS_LESSON_NONE};
    if (atomic_load(&candidate->from) != 0 || candidate->tries > 0) return FS_WHY_ATTACHED;
    if (now->learns) {
        const struct fs_tuple *tuple = &candidate->seeking.tuple;
        enum fs_why why = fs_seeking_know(&candidate->seeking, descriptor);
        if (why != FS_WHY_ATTACHED) return why;
        int accepted = atomic_load(&record->role) == FS_ROLE_ACCEPTED;
        threshold = fs_lives_threshold(listener_of(candidate, record), accepted ? tuple->other.port : tuple->own.port);
        candidate->learns = atomic_load(&record->role) != FS_ROLE_UNKNOWN;
    }
    atomic_store(&candidate->lesson, threshold.lesson);
    atomic_store(&candidate->from, threshold.calls > 0 ? threshold.calls : 1);
    return life_on_tcp(record) >= threshold.calls || !now->learns ? FS_WHY_ATTACHED : FS_WHY_YOUNG;
}

static enum fs_why try_once(struct fs_candidate *candidate, struct fs_connection *connection, struct fs_record *record,
                            int descriptor)
{
    struct fs_candidate_settings now = settings();
    uint32_t calls = calls_of(record);
    enum fs_why early = is_time(candidate, record, descriptor, &now);
    if (early == FS_WHY_YOUNG) return early;
    if (candidate->began == 0) candidate->began = calls > 0 ? calls : 1;
    if (early != FS_WHY_ATTACHED) return early;
    enum fs_stage stage = candidate->seeking.stage;
    if (stage == FS_RESTING && atomic_load(&record->watched)) return FS_WHY_WATCHED;
    enum fs_why why = fs_seek(&candidate->seeking, connection, descriptor, &now);
    if (why == FS_WHY_OFFERED && stage != FS_OFFERING) candidate->began = calls; /* an offer stands as long again */
    if (why == FS_WHY_OFFERED && is_over(candidate, calls)) why = fs_seeking_withdraw(connection, descriptor);
    return why;
}

/* Nobody else came, because who did runs as another user.  He may yet not be the other end. */
static void note_why(struct fs_candidate *candidate, enum fs_why why)
{
    int is_in_vain = why == FS_WHY_LISTENING || why == FS_WHY_NOBODY;
    atomic_store(&candidate->why, is_in_vain && candidate->seeking.met_other_user ? FS_WHY_OTHER_USER : why);
}

static void show(struct fs_candidate *candidate, const struct fs_connection *connection, int descriptor)
{
    const struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    if (candidate->shown == NULL && !settings().hides)
        candidate->shown = fs_shown_take(descriptor, atomic_load(&record->role));
    if (candidate->shown == NULL) return;
    atomic_store(&candidate->shown->why, atomic_load(&candidate->why));
    atomic_store(&candidate->shown->state, fs_record_state(record));
    if (end == NULL) return;
    atomic_store(&candidate->shown->peer, (uint32_t)atomic_load(&end->peer));
    atomic_store(&end->shown, candidate->shown);
}

static void heed(struct fs_candidate *candidate, struct fs_record *record, enum fs_why why)
{
    uint32_t calls = calls_of(record);
    switch (why) {
    case FS_WHY_YOUNG:
        ask_at(record, atomic_load(&candidate->from));
        atomic_store(&record->next_bytes, (uint64_t)atomic_load(&candidate->from) * FS_LIVES_CALL_BYTES);
        break;
    case FS_WHY_LISTENING:
    case FS_WHY_NOBODY:
    case FS_WHY_BUSY:
        if (!is_over(candidate, calls)) {
            go_on(candidate, record, calls, why);
            break;
        }
        if (why == FS_WHY_LISTENING) why = FS_WHY_NOBODY;
        end_try(candidate, record, 0);
        break;
    case FS_WHY_OFFERED:
        fs_descriptor_close(&candidate->seeking.stream); /* what was sent stays */
        go_on(candidate, record, calls, why);
        break;
    default: end_try(candidate, record, why == FS_WHY_ATTACHED || why >= FS_WHY_OTHER_HOST);
    }
    note_why(candidate, why);
}

static void step(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    struct fs_candidate *candidate = enter_candidate_of(connection, descriptor);
    if (candidate != NULL) {
        heed(candidate, record, try_once(candidate, connection, record, descriptor));
        show(candidate, connection, descriptor);
        leave(candidate);
    }
    fs_connection_exit(connection);
}

void fs_candidates_set(const struct fs_candidate_settings *settings)
{
    fs_hold_process();
    set = *settings;
    fs_release_process();
    atomic_store(&fs_first_calls, settings->calls);
    atomic_store(&fs_first_bytes, settings->bytes);
    look_from_least();
    atomic_store(&fs_candidate_step, settings->never ? NULL : step);
}

void fs_candidate_never(struct fs_connection *connection)
{
    struct fs_record *record = connection->record;
    if (record == NULL) return;
    atomic_store(&record->next_try, UINT32_MAX);
    atomic_store(&record->next_bytes, UINT64_MAX);
}

enum fs_why fs_candidate_why(struct fs_connection *connection)
{
    const struct fs_record *record = connection->record;
    const struct fs_candidate *candidate = connection->candidate;
    if (record != NULL && fs_record_has_memory(record)) return FS_WHY_ATTACHED;
    return candidate != NULL ? (enum fs_why)atomic_load(&candidate->why) : FS_WHY_YOUNG;
}

struct fs_threshold fs_candidate_threshold(struct fs_connection *connection)
{
    const struct fs_candidate *candidate = connection->candidate;
    if (candidate == NULL) return (struct fs_threshold){0, FS_LESSON_NONE};
    return (struct fs_threshold){atomic_load(&candidate->from), (enum fs_lesson)atomic_load(&candidate->lesson)};
}

/* ---- for who waits ---- */

static void nap(void)
{
    const struct timespec time = {0, NAP_NS};
    nanosleep(&time, NULL);
}

static int wait_at(const struct fs_candidate *candidate, const struct fs_descriptor *owned, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now = fs_now_ns(), left = now < deadline_ns ? deadline_ns - now : 0;
        uint64_t slice = left < POLL_SLICE_NS ? left : POLL_SLICE_NS;
        struct timespec time = {0, (long)slice};
        struct pollfd one = {fs_descriptor_number(owned), POLLIN, 0};
        if (left == 0) return -ETIMEDOUT;
        if (atomic_load(&candidate->word) & LEFT) return -ECANCELED;
        int ready = one.fd < 0 ? -1 : fs_poll_on(&one, 1, &time);
        if (ready != 0) return ready > 0 || one.fd < 0 ? 0 : -errno;
    }
}

static int nap_until(uint64_t deadline_ns)
{
    nap();
    return fs_now_ns() < deadline_ns ? 0 : -ETIMEDOUT;
}

/* Until somebody listens at the connection's name, who then knocks here. */
static int wait_for_name(struct fs_candidate *candidate, struct fs_connection *connection, int descriptor,
                         const struct fs_candidate_settings *now, uint64_t deadline_ns)
{
    struct fs_descriptor waits = FS_DESCRIPTOR_NONE, stream = FS_DESCRIPTOR_NONE;
    pid_t process;
    int error = fs_name_listen(&waits, FS_NAME_WAITS, &candidate->seeking.tuple, 1);
    if (error != 0) return nap_until(deadline_ns); /* a stranger has that name, or no number is free */
    /* it may have come between the look and the name */
    enum fs_why why = fs_seek(&candidate->seeking, connection, descriptor, now);
    if (why == FS_WHY_NOBODY) error = wait_at(candidate, &waits, deadline_ns);
    if (error == 0 && fs_name_accept(&waits, &stream, now->peers, &process) == 0) fs_descriptor_close(&stream);
    fs_descriptor_close(&waits);
    return error;
}

/* 0: look again. */
static int wait_for_next(struct fs_candidate *candidate, struct fs_connection *connection, int descriptor,
                         const struct fs_candidate_settings *now, enum fs_why why, uint64_t deadline_ns)
{
    struct fs_seeking *seeking = &candidate->seeking;
    switch (why) {
    case FS_WHY_NOBODY: return wait_for_name(candidate, connection, descriptor, now, deadline_ns);
    case FS_WHY_LISTENING:
        return wait_at(candidate, seeking->stage == FS_TAKING ? &seeking->stream : &seeking->listener, deadline_ns);
    case FS_WHY_OFFERED: /* the other end hangs up when it is done */
        if (fs_descriptor_number(&seeking->stream) >= 0) return wait_at(candidate, &seeking->stream, deadline_ns);
        break;
    default: break;
    }
    return nap_until(deadline_ns);
}

static enum fs_why seek_until(struct fs_candidate *candidate, struct fs_connection *connection, int descriptor,
                              uint64_t deadline_ns, int *error)
{
    const struct fs_candidate_settings now = settings();
    int is_last = 0; /* of the looks at an offer */
    for (;;) {
        enum fs_why why = fs_seek(&candidate->seeking, connection, descriptor, &now);
        int offered = why == FS_WHY_OFFERED;
        if (offered && is_last) why = fs_seeking_withdraw(connection, descriptor);
        if (why == FS_WHY_UNANSWERED && *error == 0) { /* its name went: there may be another one */
            fs_seeking_stop(&candidate->seeking);
            why = FS_WHY_BUSY;
        }
        if (why != FS_WHY_NOBODY && why != FS_WHY_LISTENING && why != FS_WHY_OFFERED && why != FS_WHY_BUSY) return why;
        if (*error != 0) return why;
        int hears = offered && fs_descriptor_number(&candidate->seeking.stream) >= 0;
        *error = wait_for_next(candidate, connection, descriptor, &now, why, deadline_ns);
        if (*error != 0 && !offered) return why;
        is_last = offered && (hears || *error != 0);
    }
}

int fs_candidate_attach(struct fs_connection *connection, int descriptor, uint64_t deadline_ns)
{
    if (!fs_connection_enter(connection, descriptor)) return -ECANCELED;
    struct fs_candidate *candidate;
    int error = 0;
    while ((candidate = enter_candidate_of(connection, descriptor)) == NULL && error == 0) {
        nap(); /* another thread is inside */
        if (fs_table_find(descriptor) != connection) error = -ECANCELED;
        else if (fs_now_ns() >= deadline_ns) error = -ETIMEDOUT;
    }
    if (candidate != NULL) {
        enum fs_why why = seek_until(candidate, connection, descriptor, deadline_ns, &error);
        note_why(candidate, why);
        show(candidate, connection, descriptor);
        fs_seeking_stop(&candidate->seeking);
        candidate->began = 0;
        leave(candidate);
        if (why == FS_WHY_ATTACHED) error = 0;
        else if (error == 0) error = -ECANCELED;
    }
    fs_connection_exit(connection);
    return error;
}
