/* Collectives that go on by themselves.
 *
 * A collective under way is in one of three hands: whoever follows its steps has it alone and needs no lock for it; or
 * it waits for requests, and whoever completes the last of them puts it among the ready ones; or it stands there, for
 * the next who makes progress.  It changes hands under the engine's lock.
 */
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "internal.h"

#define SLICE (256u << 10) /* bytes that are copied or combined before others have their turn */

static size_t smaller(size_t one, size_t other) { return one < other ? one : other; }

/* ---- memory ---- */

struct fs_collective *fs_collective_new(const struct fs_schedule *schedule)
{
    size_t requests = schedule->request_count * sizeof(struct fs_request);
    size_t parts = schedule->part_count * sizeof(struct iovec);
    struct fs_collective *collective = calloc(1, sizeof *collective + requests + parts);
    if (!collective) return NULL;
    collective->schedule = schedule;
    collective->requests = (struct fs_request *)(collective + 1);
    collective->parts = (struct iovec *)(collective->requests + schedule->request_count);
    return collective;
}

void fs_collective_free(struct fs_collective *collective) { free(collective); }

void fs_collective_bind(struct fs_collective *collective, void *const *buffers)
{
    const struct fs_schedule *schedule = collective->schedule;
    for (size_t i = 0; i < schedule->part_count; i++) {
        const struct fs_part *part = &schedule->parts[i];
        void *start = part->length ? (unsigned char *)buffers[part->buffer] + part->offset : NULL;
        collective->parts[i] = (struct iovec){start, part->length};
    }
}

/* ---- its end ---- */

static void finish(struct fs_collective *collective, int error)
{
    struct fs_engine *engine = collective->engine;
    fs_engine_lock(engine);
    if (collective->previous) collective->previous->next = collective->next;
    else engine->collectives = collective->next;
    if (collective->next) collective->next->previous = collective->previous;
    fs_complete(engine, collective->whole, error); /* the caller may be gone with the collective */
    fs_engine_unlock(engine);
}

/* What nobody waits for any more is taken back: the memory is about to go. */
static void take_back(struct fs_collective *collective)
{
    for (size_t i = 0; i < collective->schedule->request_count; i++)
        if (!fs_request_is_done(&collective->requests[i]))
            fs_engine_abandon(collective->engine, &collective->requests[i]);
}

/* As a probe would tell that one of the members failed. */
static int blame(struct fs_collective *collective)
{
    const struct fs_schedule *schedule = collective->schedule;
    struct fs_request *whole = collective->whole;
    int failed = FS_ANY;
    fs_engine_lock(collective->engine);
    for (size_t i = 0; i < schedule->channel_count && failed == FS_ANY; i++) {
        failed = fs_failed_member(collective->engine, schedule->contexts[i], 1);
        whole->context = schedule->contexts[i];
        whole->tag = collective->tags[i];
    }
    fs_engine_unlock(collective->engine);
    whole->kind = FS_RECEIVING;
    whole->peer = FS_ANY;
    whole->envelope.source = failed;
    return failed != FS_ANY;
}

static void fail(struct fs_collective *collective, const struct fs_request *part)
{
    struct fs_request *whole = collective->whole;
    int error = FS_PEER_FAILED, withdrawn = !part || part->error == FS_CANCELLED;
    if (!(withdrawn && blame(collective)) && part) {
        error = part->error == FS_PEER_LEFT ? FS_PEER_FAILED : part->error; /* it left the others in the middle */
        whole->kind = part->kind;
        whole->peer = part->peer;
        whole->tag = part->tag;
        whole->context = part->context;
        whole->envelope = part->envelope;
        whole->length = part->length;
    }
    take_back(collective);
    finish(collective, error);
}

/* ---- its steps ---- */

/* Until they are given back by whoever completes the last one, or by the one who loses patience. */
static int wait_for(struct fs_collective *collective, const struct fs_step *step)
{
    const uint32_t *awaited = collective->schedule->awaited + step->first;
    fs_engine_lock(collective->engine);
    uint32_t missing = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        struct fs_request *request = &collective->requests[awaited[i]];
        if (fs_request_is_done(request)) continue;
        request->awaited_by = collective;
        missing++;
    }
    collective->missing = missing;
    collective->waits = missing != 0;
    if (missing) collective->whole->tracked = collective->whole->owner != NULL;
    fs_engine_unlock(collective->engine);
    return missing != 0;
}

static const struct fs_request *failed_one(const struct fs_collective *collective)
{
    const struct fs_step *step = &collective->schedule->steps[collective->at]; /* a wait: nothing else fails */
    const uint32_t *awaited = collective->schedule->awaited + step->first;
    for (uint32_t i = 0; i < step->count; i++) {
        const struct fs_request *request = &collective->requests[awaited[i]];
        if (request->error != FS_FINE) return request;
    }
    return NULL;
}

/* Whoever withdrew its message knows of a member that failed; it will be known here too. */
static void lose_patience(struct fs_collective *collective)
{
    fs_engine_lock(collective->engine);
    collective->waits = 1;
    collective->whole->tracked = collective->whole->owner != NULL;
    fs_collective_is_doomed(collective->engine, collective);
    fs_engine_unlock(collective->engine);
}

static void start_message(struct fs_collective *collective, const struct fs_step *step)
{
    struct fs_request *request = &collective->requests[step->request];
    const struct iovec *parts = collective->parts + step->first;
    uint32_t context = collective->schedule->contexts[step->channel];
    int tag = collective->tags[step->channel], sends = step->kind == FS_STEP_SEND;
    if (step->count == 1) request->one = *parts;
    fs_request_prepare(request, sends ? FS_SENDING : FS_RECEIVING, step->count == 1 ? NULL : parts, step->count);
    if (sends) fs_engine_send(collective->engine, request, step->peer, tag, context, FS_STANDARD);
    else if (fs_engine_expect(collective->engine, request, step->peer, tag, context) == FS_LATER)
        request->late = 1, collective->late++;
}

/* Receives whose messages came before the sends that stand beside them had gone, in their order. */
static void start_late(struct fs_collective *collective)
{
    const struct fs_schedule *schedule = collective->schedule;
    size_t first = collective->at;
    while (first > 0 && schedule->steps[first - 1].kind <= FS_STEP_RECEIVE) first--;
    for (; collective->late > 0; first++) {
        const struct fs_step *step = &schedule->steps[first];
        struct fs_request *request = &collective->requests[step->request];
        if (!request->late) continue;
        request->late = 0;
        collective->late--;
        fs_engine_receive(collective->engine, request, step->peer, collective->tags[step->channel],
                          schedule->contexts[step->channel]);
    }
}

static int overlap(const struct iovec *one, const struct iovec *other)
{
    const unsigned char *a = one->iov_base, *b = other->iov_base;
    return a < b + other->iov_len && b < a + one->iov_len;
}

/* Some of a step's bytes, and no more than `most`; how many. */
static size_t do_some(struct fs_collective *collective, const struct fs_step *step, size_t most)
{
    const struct iovec *from = collective->parts + step->first, *to = from + 1;
    size_t left = to->iov_len - collective->done;
    const unsigned char *source = (unsigned char *)from->iov_base + collective->done;
    unsigned char *target = (unsigned char *)to->iov_base + collective->done;
    if (step->kind == FS_STEP_COPY) {
        if (!overlap(from, to)) left = smaller(left, most);
        if (left) fs_move(target, source, left);
    } else {
        size_t element = collective->schedule->element;
        left = smaller(left, most / element * element);
        if (left) collective->schedule->combine(source, target, target, left / element);
    }
    return left;
}

/* 1: the rest is for another time. */
static int work(struct fs_collective *collective, const struct fs_step *step, size_t *budget)
{
    size_t length = collective->parts[step->first + 1].iov_len;
    if (*budget == 0 && length != 0) return 1;
    size_t some = length ? do_some(collective, step, *budget) : 0;
    *budget -= smaller(some, *budget);
    collective->done += some;
    if (collective->done < length) return 1;
    collective->done = 0;
    return 0;
}

static void stand_by(struct fs_collective *collective)
{
    fs_engine_lock(collective->engine);
    collective->whole->tracked = collective->whole->owner != NULL;
    fs_collective_is_ready(collective->engine, collective);
    fs_engine_unlock(collective->engine);
}

/* Until it has to wait, or has moved so many bytes: 1, or 0 when it is over.  It is in other hands then. */
static int follow(struct fs_collective *collective, size_t budget)
{
    const struct fs_schedule *schedule = collective->schedule;
    for (; collective->at < schedule->step_count; collective->at++) {
        const struct fs_step *step = &schedule->steps[collective->at];
        if (step->kind > FS_STEP_RECEIVE && collective->late) start_late(collective);
        if (step->kind <= FS_STEP_RECEIVE) {
            start_message(collective, step);
        } else if (step->kind != FS_STEP_WAIT) {
            if (!work(collective, step, &budget)) continue;
            stand_by(collective);
            return 1;
        } else {
            if (wait_for(collective, step)) return 1;
            const struct fs_request *failed = failed_one(collective);
            if (!failed) continue;
            if (failed->error == FS_CANCELLED) {
                lose_patience(collective);
                return 1;
            }
            fail(collective, failed);
            return 0;
        }
    }
    finish(collective, FS_FINE);
    return 0;
}

/* ---- starting ---- */

int fs_engine_ask_for(struct fs_engine *engine, int peer)
{
    if (!fs_is_peer(engine, peer)) return 0;
    fs_engine_lock(engine);
    int missing = engine->peers[peer].state == FS_MISSING && !engine->peers[peer].asked;
    if (missing) engine->peers[peer].asked = 1;
    fs_engine_unlock(engine);
    return missing;
}

int fs_collective_start(struct fs_engine *engine, struct fs_collective *collective, struct fs_request *whole,
                        const int *tags)
{
    const struct fs_schedule *schedule = collective->schedule;
    whole->engine = engine;
    whole->tracked = 0;
    collective->engine = engine;
    collective->whole = whole;
    collective->at = collective->missing = collective->late = 0;
    collective->done = 0;
    collective->waits = 0;
    collective->patient_until = 0;
    for (size_t i = 0; i < schedule->channel_count; i++) collective->tags[i] = tags[i];
    for (size_t i = 0; i < schedule->request_count; i++) {
        collective->requests[i].awaited_by = NULL;
        collective->requests[i].error = FS_FINE;
        atomic_store_explicit(&collective->requests[i].done, 1, memory_order_relaxed); /* nobody knows it yet */
    }
    fs_engine_lock(engine);
    collective->previous = NULL;
    collective->next = engine->collectives;
    if (collective->next) collective->next->previous = collective;
    engine->collectives = collective;
    for (size_t i = 0; i < schedule->channel_count; i++)
        if (fs_failed_member(engine, schedule->contexts[i], 1) != FS_ANY) fs_collective_is_doomed(engine, collective);
    fs_engine_unlock(engine);
    return follow(collective, SIZE_MAX) ? FS_PENDING : FS_DONE;
}

/* ---- progress ---- */

static struct fs_collective *take_ready(struct fs_engine *engine)
{
    fs_engine_lock(engine);
    struct fs_collective *collective = engine->ready_first;
    if (collective) {
        engine->ready_first = collective->next_ready;
        if (!engine->ready_first) engine->ready_last = NULL;
        atomic_store_explicit(&engine->ready, engine->ready - 1, memory_order_relaxed);
    }
    fs_engine_unlock(engine);
    return collective;
}

/* One that waited too long for what a failed member, or those who wait for it, will never send. */
static struct fs_collective *take_hopeless(struct fs_engine *engine)
{
    uint64_t now = fs_now_ns(), next = 0;
    struct fs_collective *found = NULL;
    fs_engine_lock(engine);
    for (struct fs_collective *each = engine->collectives; each; each = each->next) {
        uint64_t until = each->patient_until;
        if (until == 0) continue;
        if (!found && each->waits && until <= now) found = each;
        else if (next == 0 || until < next) next = until;
    }
    if (found) {
        found->waits = 0;
        for (size_t i = 0; i < found->schedule->request_count; i++) found->requests[i].awaited_by = NULL;
    }
    if (!found && engine->doomed_at != 0 && engine->doomed_at <= now) fs_end_doomed(engine);
    if (engine->doomed_at != 0 && (next == 0 || engine->doomed_at < next)) next = engine->doomed_at;
    atomic_store_explicit(&engine->patient_until, found ? now : next, memory_order_relaxed);
    fs_engine_unlock(engine);
    return found;
}

int fs_collectives_advance(struct fs_engine *engine)
{
    int done = 0;
    struct fs_collective *collective;
    for (uint32_t left = atomic_load_explicit(&engine->ready, memory_order_relaxed); left > 0; left--, done++) {
        collective = take_ready(engine);
        if (!collective) break;
        follow(collective, SLICE);
    }
    uint64_t patient_until = atomic_load_explicit(&engine->patient_until, memory_order_relaxed);
    if (patient_until == 0 || fs_now_ns() < patient_until) return done;
    while ((collective = take_hopeless(engine)) != NULL) {
        fail(collective, failed_one(collective));
        done++;
    }
    return done;
}

void fs_collectives_close(struct fs_engine *engine)
{
    fs_engine_lock(engine);
    for (struct fs_collective *each = engine->collectives; each; each = each->next) {
        each->patient_until = 1;
        atomic_store(&engine->patient_until, 1);
    }
    fs_engine_unlock(engine);
    while (fs_collectives_advance(engine) != 0) continue;
}

int fs_engine_progress(struct fs_engine *engine)
{
    int done = fs_links_round(engine);
    if (!fs_engine_is_usable(engine)) return done;
    return fs_collectives_have_work(engine) ? done + fs_collectives_advance(engine) : done;
}
