/* A context is revoked, or a member of one of collectives has failed: what is pending in it ends, in whatever state it is. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "engines.h"

enum { REVOKED = 6, OTHER = 8, COLLECTIVE = 7 }; /* contexts */
enum path { LOCAL, STREAM, APART };              /* APART: they never meet */

static void join(struct fs_engine *engines[2], enum path path)
{
    int pair[2];
    for (int i = 0; i < 2; i++) engines[i] = engine_of(i, 2);
    if (path == APART) return;
    if (path == STREAM) CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (int i = 0; i < 2; i++) {
        if (path == LOCAL) CHECK_EQUAL(fs_engine_attach_local(engines[i], !i, engines[!i]), 0);
        else CHECK_EQUAL(fs_engine_attach_descriptor(engines[i], !i, pair[i]), 0);
    }
}

static int revoke(struct fs_engine *engine, uint32_t context) { return fs_engine_revoke(engine, &context, 1); }

static void part(struct fs_engine *engines[2])
{
    for (int i = 0; i < 2; i++) fs_engine_close(engines[i]);
    for (int i = 0; i < 2; i++) fs_engine_release(engines[i]);
}

static void pump(struct fs_engine *engines[2])
{
    for (int i = 0; i < 50; i++)
        for (int rank = 0; rank < 2; rank++) fs_engine_progress(engines[rank]);
}

static void ends_with(struct fs_engine *engines[2], const struct fs_request *request, int error)
{
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!fs_request_is_done(request)) {
        pump(engines);
        CHECK(fs_now_ns() < limit);
    }
    CHECK_EQUAL(request->error, error);
}

static unsigned char from[9000], into[9000];

static void start_send(struct fs_engine *engine, struct fs_request *request, size_t length, int mode, uint32_t context)
{
    request->one = (struct iovec){from, length};
    fs_request_prepare(request, FS_SENDING, NULL, 1);
    fs_engine_send(engine, request, !engine->rank, 3, context, mode);
}

static void start_receive(struct fs_engine *engine, struct fs_request *request, int source, uint32_t context)
{
    request->one = (struct iovec){into, sizeof into};
    fs_request_prepare(request, FS_RECEIVING, NULL, 1);
    fs_engine_receive(engine, request, source, 3, context);
}

static void run_pending(enum path path)
{
    struct fs_engine *engines[2];
    struct fs_request receives[2], waits, whole, synchronous, other;
    struct fs_envelope envelope;
    join(engines, path);
    pump(engines);
    start_receive(engines[0], &receives[0], 1, REVOKED);
    start_receive(engines[0], &receives[1], FS_ANY, REVOKED);
    start_receive(engines[0], &waits, FS_ANY, OTHER);
    start_send(engines[0], &whole, sizeof from, FS_STANDARD, REVOKED); /* for a receive that does not come */
    start_send(engines[0], &synchronous, 10, FS_SYNCHRONOUS, REVOKED);
    start_send(engines[0], &other, sizeof from, FS_STANDARD, OTHER);
    pump(engines);
    CHECK_EQUAL(fs_engine_is_revoked(engines[0], REVOKED), 0);
    uint32_t arrivals = fs_engine_arrivals(engines[0]);
    for (int i = 0; i < 2; i++) /* twice is once */
        for (int rank = 0; rank < 2; rank++) CHECK_EQUAL(revoke(engines[rank], REVOKED), 0);
    CHECK(fs_engine_arrivals(engines[0]) != arrivals);
    ends_with(engines, &receives[0], FS_CONTEXT_REVOKED);
    ends_with(engines, &receives[1], FS_CONTEXT_REVOKED);
    ends_with(engines, &whole, FS_CONTEXT_REVOKED);
    ends_with(engines, &synchronous, FS_CONTEXT_REVOKED);
    CHECK(!fs_request_is_done(&waits) && !fs_request_is_done(&other));

    /* what begins ends at once */
    CHECK_EQUAL(fs_engine_is_revoked(engines[0], REVOKED), 1);
    start_send(engines[0], &whole, 10, FS_STANDARD, REVOKED);
    start_receive(engines[0], &receives[0], FS_ANY, REVOKED);
    CHECK_EQUAL(whole.error, FS_CONTEXT_REVOKED);
    CHECK_EQUAL(receives[0].error, FS_CONTEXT_REVOKED);
    CHECK_EQUAL(fs_engine_probe(engines[0], FS_ANY, FS_ANY, REVOKED, &envelope), FS_NEVER);
    CHECK_EQUAL(fs_engine_probe_failed(engines[0], &receives[0], FS_ANY, FS_ANY, REVOKED), 1);
    CHECK_EQUAL(receives[0].error, FS_CONTEXT_REVOKED);

    /* the other context goes on */
    if (path != APART) {
        start_receive(engines[1], &receives[1], 0, OTHER);
        ends_with(engines, &receives[1], FS_FINE);
        ends_with(engines, &other, FS_FINE);
        start_send(engines[1], &whole, 10, FS_STANDARD, OTHER);
        ends_with(engines, &waits, FS_FINE);
        ends_with(engines, &whole, FS_FINE);
    }

    /* once nobody uses it any more its number may be another's */
    for (int rank = 0; rank < 2; rank++) fs_engine_forget_fate(engines[rank], REVOKED);
    CHECK_EQUAL(fs_engine_is_revoked(engines[0], REVOKED), 0);
    if (path != APART) {
        start_receive(engines[1], &receives[0], FS_ANY, REVOKED);
        start_send(engines[0], &whole, sizeof from, FS_STANDARD, REVOKED);
        ends_with(engines, &receives[0], FS_FINE);
        ends_with(engines, &whole, FS_FINE);
    }
    part(engines);
}

TEST(what_is_pending_in_a_revoked_context_ends_among_threads, 0) { run_pending(LOCAL); }
TEST(what_is_pending_in_a_revoked_context_ends_over_a_stream, 0) { run_pending(STREAM); }
TEST(what_waits_for_a_rank_in_a_revoked_context_ends, 0) { run_pending(APART); }

/* A message of that context that has come, whole or announced, is nobody's; what comes later neither. */
TEST(messages_of_a_revoked_context_are_dropped, 0)
{
    for (enum path path = LOCAL; path <= STREAM; path++) {
        struct fs_engine *engines[2];
        struct fs_request sends[2];
        join(engines, path);
        pump(engines);
        start_send(engines[1], &sends[0], 10, FS_STANDARD, REVOKED);
        start_send(engines[1], &sends[1], 10, FS_STANDARD, OTHER);
        pump(engines);
        CHECK(engines[0]->oldest && engines[0]->oldest->newer);
        revoke(engines[0], REVOKED); /* the other one has not heard of it */
        CHECK(engines[0]->oldest && !engines[0]->oldest->newer);
        CHECK_EQUAL(engines[0]->oldest->context, OTHER);
        start_send(engines[1], &sends[0], 10, FS_STANDARD, REVOKED);
        pump(engines);
        CHECK(fs_request_is_done(&sends[0]));
        CHECK(!engines[0]->oldest->newer);
        part(engines);
    }
}

/* Where one of the members has failed nobody waits in a context of collectives for long, whoever else is waited for. */
TEST(what_waits_in_a_collective_without_a_member_ends, 0)
{
    struct fs_engine *engine = engine_of(0, 3);
    const int members[] = {0, 1, 2}, without[] = {0, 1};
    struct fs_request waits, goes_on, apart;
    fs_engine_has_collectives(engine);
    CHECK_EQUAL(fs_engine_set_members(engine, COLLECTIVE, members, 3), 0);
    CHECK_EQUAL(fs_engine_set_members(engine, COLLECTIVE + 2, without, 2), 0);
    start_receive(engine, &waits, 1, COLLECTIVE);
    start_receive(engine, &goes_on, 1, COLLECTIVE + 2);
    start_receive(engine, &apart, 1, OTHER);
    fs_engine_fail(engine, 2, "so the test wills");
    CHECK_EQUAL(fs_engine_failed_member(engine, COLLECTIVE), 2);
    CHECK_EQUAL(fs_engine_failure(engine, 2), 1);
    uint64_t limit = fs_now_ns() + STALL_NS;
    while (!fs_request_is_done(&waits)) {
        fs_engine_progress(engine);
        CHECK(fs_now_ns() < limit);
    }
    CHECK_EQUAL(waits.error, FS_PEER_FAILED);
    CHECK_EQUAL(waits.envelope.source, 2); /* who is to blame */
    CHECK(!fs_request_is_done(&goes_on) && !fs_request_is_done(&apart));
    fs_engine_close(engine);
    fs_engine_release(engine);
}

/* ---- while others send and receive ---- */

struct traffic {
    struct fs_engine *engine;
    int sends;
    _Atomic int *ended;
};

static void await(struct fs_engine *engine, struct fs_request *request)
{
    struct fs_wait wait;
    fs_wait_prepare(&wait, engine, &request, 1, 1, fs_now_ns() + STALL_NS);
    int result;
    do result = fs_wait(&wait);
    while (result == FS_LOOK_UP);
    CHECK_EQUAL(result, FS_SATISFIED);
}

static void *go_on(void *argument)
{
    struct traffic *traffic = argument;
    struct fs_engine *engine = traffic->engine;
    unsigned char *data = calloc(1, sizeof from);
    for (uint64_t round = 0;; round++) {
        struct fs_request request;
        request.one = (struct iovec){data, round % 3 ? 10 : sizeof from};
        fs_request_prepare(&request, traffic->sends ? FS_SENDING : FS_RECEIVING, NULL, 1);
        if (!traffic->sends) request.one.iov_len = request.length = sizeof from;
        int begun = traffic->sends ? fs_engine_send(engine, &request, !engine->rank, 3, REVOKED, FS_STANDARD)
                                   : fs_engine_receive(engine, &request, FS_ANY, FS_ANY, REVOKED);
        if (begun != FS_DONE) await(engine, &request);
        if (request.error == FS_CONTEXT_REVOKED) break;
        CHECK_EQUAL(request.error, FS_FINE);
    }
    free(data);
    atomic_fetch_add(traffic->ended, 1);
    return NULL;
}

static void run_traffic(enum path path)
{
    for (int round = 0; round < scaled(30); round++) {
        struct fs_engine *engines[2];
        join(engines, path);
        _Atomic int ended = 0;
        struct traffic each[] = {
            {engines[0], 1, &ended}, {engines[0], 0, &ended}, {engines[1], 1, &ended}, {engines[1], 0, &ended}};
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) threads[i] = start_thread(go_on, &each[i]);
        exact_sleep_us((unsigned)round % 7 * 100);
        for (int i = 0; i < 2; i++) CHECK_EQUAL(revoke(engines[(i + round) % 2], REVOKED), 0);
        while (atomic_load(&ended) < 4) pump(engines); /* ranks go on, and answer those that have not heard of it */
        for (int i = 0; i < 4; i++) join_thread(threads[i]);
        part(engines);
    }
}

TEST(a_context_is_revoked_under_local_traffic, 0) { run_traffic(LOCAL); }
TEST(a_context_is_revoked_under_traffic_over_a_stream, 0) { run_traffic(STREAM); }

/* Who sees one of several contexts revoked sees all: a collective call behind a receive is not told of a dead member first. */
struct watcher {
    struct fs_engine *engine;
    int rounds;
    _Atomic int seen;
};

static uint32_t context_of(int round) { return OTHER + 4 * (uint32_t)round; }

static void *see_both(void *argument)
{
    struct watcher *watcher = argument;
    for (int round = 0; round < watcher->rounds; round++) {
        struct fs_request first, second;
        start_receive(watcher->engine, &first, FS_ANY, context_of(round));
        if (!fs_request_is_done(&first)) await(watcher->engine, &first);
        CHECK_EQUAL(first.error, FS_CONTEXT_REVOKED);
        start_receive(watcher->engine, &second, 1, context_of(round) + 2);
        CHECK(fs_request_is_done(&second));
        CHECK_EQUAL(second.error, FS_CONTEXT_REVOKED);
        atomic_store(&watcher->seen, round + 1);
    }
    return NULL;
}

TEST(contexts_are_revoked_together, 0)
{
    struct watcher watcher = {engine_of(0, 2), scaled(2000), 0};
    pthread_t thread = start_thread(see_both, &watcher);
    for (int round = 0; round < watcher.rounds; round++) {
        uint32_t contexts[] = {context_of(round), context_of(round) + 2};
        CHECK_EQUAL(fs_engine_revoke(watcher.engine, contexts, 2), 0);
        while (atomic_load(&watcher.seen) <= round) sched_yield();
        for (int i = 0; i < 2; i++) fs_engine_forget_fate(watcher.engine, contexts[i]);
    }
    join_thread(thread);
    fs_engine_close(watcher.engine);
    fs_engine_release(watcher.engine);
}
