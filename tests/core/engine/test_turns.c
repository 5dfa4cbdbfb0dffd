/* Every frame in every state of what it names: either an honest peer may send it then, or the peer is lost with an error
 * that names both.  Whatever becomes of a request, its owner frees it and its buffer as soon as it is done. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenes.h"

static const char *const frames[FS_TURNS] = {
    [FS_FRAME_GREETING] = "GREETING",
    [FS_FRAME_EAGER] = "EAGER",
    [FS_FRAME_KEY] = "KEY",
    [FS_FRAME_READY_TO_SEND] = "READY_TO_SEND",
    [FS_FRAME_READY_TO_RECEIVE] = "READY_TO_RECEIVE",
    [FS_FRAME_DATA] = "DATA",
    [FS_FRAME_ACKNOWLEDGE] = "ACKNOWLEDGE",
    [FS_FRAME_CREDIT] = "CREDIT",
    [FS_FRAME_CANCEL] = "CANCEL",
    [FS_FRAME_CANCELLED] = "CANCELLED",
    [FS_TURN_REFUSED] = "CANCELLED (refused)",
    [FS_FRAME_WITHDRAWN] = "WITHDRAWN",
    [FS_FRAME_SHARE] = "SHARE",
    [FS_FRAME_SHARED] = "SHARED",
    [FS_FRAME_GOODBYE] = "GOODBYE",
    [FS_FRAME_PUT] = "PUT",
    [FS_FRAME_PUT_DONE] = "PUT_DONE",
};

static int names_a_request(int turn, int *kind)
{
    *kind = turn == FS_FRAME_DATA || turn == FS_FRAME_WITHDRAWN || turn == FS_FRAME_SHARED || turn == FS_FRAME_PUT_DONE
                ? FS_RECEIVING
                : FS_SENDING;
    return *kind == FS_RECEIVING || turn == FS_FRAME_READY_TO_RECEIVE || turn == FS_FRAME_ACKNOWLEDGE ||
           turn == FS_FRAME_CANCELLED || turn == FS_TURN_REFUSED || turn == FS_FRAME_SHARE || turn == FS_FRAME_PUT;
}

static int is_about(const struct place *place, int turn)
{
    int kind, named = names_a_request(turn, &kind);
    if (place->state == FS_STRANGER) return 1;
    if (place->state == FS_MET) return !named;
    return named && (place->kind < 0 || place->kind == kind);
}

static int is_allowed(const struct place *place, int turn)
{
    char name[40];
    snprintf(name, sizeof name, " %s ", turn == FS_TURN_REFUSED ? "CANCELLED(refused)" : frames[turn]);
    return strstr(place->allowed, name) != NULL;
}

/* What only a link over RDMA may say then; the liar's is none. */
static const char *needs_a_device(const struct place *place, int turn)
{
    if (turn == FS_FRAME_KEY && place->state == FS_MET) return "it opens its memory to a device that is not there";
    if (turn == FS_FRAME_PUT && (place->state == FS_ANNOUNCED || place->state == FS_SEND_GONE))
        return "it opens its memory to a device that is not there";
    if (turn == FS_FRAME_PUT_DONE && place->state == FS_RECEIVE_GONE) return "it has put what it was not asked to";
    return NULL;
}

static void put_turn(struct scene *scene, int turn)
{
    if (turn == FS_FRAME_GREETING) {
        liar_greet(scene->liar);
        return;
    }
    struct fs_frame frame = fs_frame_of(turn, scene->id, 100, 1);
    if (turn == FS_TURN_REFUSED) frame = fs_frame_of(FS_FRAME_CANCELLED, scene->id, 0, 0);
    if (turn == FS_FRAME_EAGER || turn == FS_FRAME_CREDIT) frame.word = 0;
    if (turn == FS_FRAME_SHARE) frame.word = (uint64_t)(uintptr_t)scene->liar->memory;
    if (turn == FS_FRAME_SHARED) frame = fs_frame_of(turn, scene->id, 1, 0);
    if (turn == FS_FRAME_SHARED) claim_one(scene);
    liar_put(scene->liar, frame);
}

static void try_turn(const struct place *place, int turn)
{
    char reason[256], expected[256];
    const char *path;
    struct scene scene = {.liar = liar_new()};
    struct fs_engine *engine = scene.liar->engine;
    if (place->greeted) liar_greet(scene.liar);
    place->go(&scene);
    /* where cancelling is answered it was asked for */
    if ((turn == FS_FRAME_CANCELLED || turn == FS_TURN_REFUSED) && place->state != FS_SEND_GONE && place->greeted)
        engine->links[0]->cancels = 1;
    struct fs_slot *slot;
    if (place->state != FS_HELPING && place->state != FS_SHARED)
        CHECK_EQUAL(fs_state_named(engine, engine->links[0], turn, scene.id, &slot), place->state);
    put_turn(&scene, turn);
    liar_progress(scene.liar);
    fs_engine_reason(engine, 1, reason, sizeof reason, &path);
    snprintf(expected, sizeof expected, "a frame out of turn: %s %s", frames[turn], place->name);
    if (turn == FS_FRAME_GOODBYE && is_allowed(place, turn)) snprintf(expected, sizeof expected, "it has finished");
    else if (is_allowed(place, turn)) expected[0] = 0;
    else if (needs_a_device(place, turn)) snprintf(expected, sizeof expected, "%s", needs_a_device(place, turn));
    if (strcmp(reason, expected) != 0)
        fail(__FILE__, __LINE__, "%s %s: \"%s\", not \"%s\"", frames[turn], place->name, reason, expected);
    for (int i = 0; i < 50; i++) {
        held_settle(&scene.held);
        liar_progress(scene.liar);
    }
    liar_free(scene.liar);
    CHECK(held_settle(&scene.held) || scene.held.request == NULL);
}

TEST(every_frame_in_every_state_of_what_it_names, 0)
{
    int tried = 0, wrong = 0;
    for (int i = 0; i < place_count; i++)
        for (int turn = FS_FRAME_GREETING; turn < FS_TURNS; turn++) {
            if (!is_about(&places[i], turn)) continue;
            try_turn(&places[i], turn);
            tried++;
            wrong += !is_allowed(&places[i], turn);
        }
    printf("%d frames tried, %d of them out of turn\n", tried, wrong);
    for (int turn = FS_FRAME_GREETING; turn < FS_TURNS; turn++) CHECK(frames[turn] != NULL);
}

/* ---- what a stranger once did with it (each wrote into memory that its owner had freed) ---- */

static void settle_with(struct scene *scene)
{
    for (int i = 0; i < 50; i++) {
        held_settle(&scene->held);
        liar_progress(scene->liar);
    }
    CHECK(scene->held.request == NULL);
    liar_free(scene->liar);
}

TEST(a_message_is_withdrawn_while_both_ends_copy_it, 0)
{
    struct scene scene = {.liar = liar_new()};
    liar_greet(scene.liar);
    be_sharing(&scene);
    liar_put(scene.liar, fs_frame_of(FS_FRAME_WITHDRAWN, scene.id, 0, 0));
    settle_with(&scene);
}

TEST(a_message_comes_as_data_while_both_ends_copy_it, 0)
{
    struct scene scene = {.liar = liar_new()};
    liar_greet(scene.liar);
    be_sharing(&scene);
    atomic_store(&scene.liar->end->out.shared->offer, (uint64_t)scene.share << 32 | 31u << 16 | 1u);
    liar_put(scene.liar, fs_frame_of(FS_FRAME_DATA, scene.id, 65536, 0));
    settle_with(&scene);
}

TEST(bytes_are_asked_for_while_both_ends_copy_them, 0)
{
    struct scene scene = {.liar = liar_new()};
    liar_greet(scene.liar);
    atomic_store(&scene.liar->end->in.shared->offer, (uint64_t)5 << 32);
    be_helping(&scene);
    liar_put(scene.liar, fs_frame_of(FS_FRAME_READY_TO_RECEIVE, scene.id, 1, 77));
    settle_with(&scene);
}

/* The link is lost by the very frame that begins the copy. */
TEST(the_ring_turns_impossible_when_both_ends_are_to_copy, 0)
{
    struct scene scene = {.liar = liar_new()};
    liar_greet(scene.liar);
    struct held sent = held_new(FS_SENDING, 90000); /* fills the ring: what follows looks how far the liar has read */
    fs_engine_send(scene.liar->engine, sent.request, 1, 7, 0, FS_STANDARD);
    scene.held = held_new(FS_RECEIVING, LIAR_LONG);
    scene.held.request->owner = &scene;
    fs_engine_receive(scene.liar->engine, scene.held.request, 1, 7, 0);
    struct fs_frame frame = liar_announcement(scene.liar, 1, LIAR_LONG, 1);
    frame.tag = 7;
    liar_put(scene.liar, frame);
    atomic_store(&scene.liar->end->in.shared->tail, (uint64_t)1 << 60);
    liar_progress(scene.liar);
    CHECK(fs_engine_finished(scene.liar->engine) == scene.held.request);
    CHECK(!fs_engine_has_finished(scene.liar->engine)); /* it is told once */
    CHECK(held_settle(&sent));
    settle_with(&scene);
}

/* The word that says who copies what is set back again and again. */
TEST(pieces_to_copy_never_run_out, 0)
{
    char reason[256];
    const char *path;
    struct scene scene = {.liar = liar_new()};
    liar_greet(scene.liar);
    be_sharing(&scene);
    for (int i = 0; i < 1000 && !fs_request_is_done(scene.held.request); i++) {
        atomic_store(&scene.liar->end->out.shared->offer, (uint64_t)scene.share << 32);
        liar_progress(scene.liar);
    }
    CHECK(fs_request_is_done(scene.held.request));
    CHECK_EQUAL(scene.held.request->error, FS_PROTOCOL);
    fs_engine_reason(scene.liar->engine, 1, reason, sizeof reason, &path);
    CHECK(strstr(reason, "impossible values") != NULL);
    settle_with(&scene);
}

static void receive_is_well(struct liar *liar)
{
    struct held held = held_new(FS_RECEIVING, 100);
    fs_engine_receive(liar->engine, held.request, 1, 3, 0);
    struct fs_frame frame = fs_frame_of(FS_FRAME_EAGER, 0, 100, 0);
    frame.tag = 3;
    liar_put(liar, frame);
    for (int i = 0; i < 10; i++) liar_progress(liar);
    CHECK(fs_request_is_done(held.request));
    CHECK_EQUAL(held.request->error, FS_FINE);
    CHECK(held_settle(&held));
}

/* ---- a sender that is stopped between its claim and its write ---- */

static ssize_t write_as_a_sender(struct liar *liar, const struct fs_greeting *greeting, uint64_t call, uint64_t target)
{
    char one = 1;
    struct iovec from[] = {{&call, sizeof call}, {&one, 1}, {liar->memory, 1000}, {&call, sizeof call}};
    struct iovec to[] = {{(void *)(uintptr_t)greeting->calls, sizeof call},
                         {(void *)(uintptr_t)greeting->gate, 1},
                         {(void *)(uintptr_t)target, 1000},
                         {(void *)(uintptr_t)(greeting->calls + sizeof call), sizeof call}};
    return process_vm_writev(getpid(), from, 4, to, 4, 0);
}

/* The receiver is interrupted and takes its memory back; what the sender writes when it goes on does not arrive. */
TEST(a_receive_is_abandoned_behind_a_sender_that_is_stopped, 0)
{
    struct scene scene = {.liar = liar_new()};
    struct liar *liar = scene.liar;
    liar_greet(liar);
    struct fs_greeting greeting = liar_get_greeting(liar);
    CHECK(greeting.calls != 0 && greeting.gate != 0);
    be_sharing(&scene);
    memset(liar->memory, 'L', 1000);
    uint64_t target = (uint64_t)(uintptr_t)scene.held.buffer;
    CHECK_EQUAL(write_as_a_sender(liar, &greeting, 1, target), 1000 + 17);
    claim_one(&scene);
    fs_engine_abandon(liar->engine, scene.held.request);
    memset(scene.held.buffer, 'm', 1000); /* the caller's again */
    CHECK(write_as_a_sender(liar, &greeting, 2, target) < 1000);
    for (int i = 0; i < 1000; i++) CHECK_EQUAL(scene.held.buffer[i], 'm');
    liar_put(liar, fs_frame_of(FS_FRAME_SHARED, scene.id, 1, 1));
    CHECK_EQUAL(liar_get(liar, FS_FRAME_ACKNOWLEDGE).id, scene.far_id); /* so the sender is not left waiting */
    atomic_store(&scene.held.request->done, 1);
    CHECK(held_settle(&scene.held));
    receive_is_well(liar);
    liar_free(liar);
}

/* As above, but the sender's call is under way: it is waited for, and not for ever. */
TEST(a_receive_is_abandoned_while_its_sender_writes, 0)
{
    struct scene scene = {.liar = liar_new()};
    struct liar *liar = scene.liar;
    liar_greet(liar);
    struct fs_greeting greeting = liar_get_greeting(liar);
    be_sharing(&scene);
    ((struct fs_guard_calls *)(uintptr_t)greeting.calls)->begun = 1;
    claim_one(&scene);
    fs_engine_abandon(liar->engine, scene.held.request);
    atomic_store(&scene.held.request->done, 1);
    CHECK(held_settle(&scene.held));
    liar_free(liar);
}

/* Whoever has the peer's process number by now has not the pages that its greeting told of. */
TEST(nothing_is_written_into_a_process_without_the_gate, 0)
{
    for (int missing = 0; missing < 2; missing++) {
        struct scene scene = {.liar = liar_new()};
        struct liar *liar = scene.liar;
        liar_greet(liar);
        memset(liar->memory, 'm', LIAR_LONG);
        if (missing == 0) liar->engine->links[0]->greeting.calls = 4096;
        else liar->engine->links[0]->greeting.gate = 4096;
        be_copying(&scene);
        CHECK_EQUAL(liar_get(liar, FS_FRAME_SHARED).word, 1);
        for (unsigned i = 0; i < LIAR_LONG; i++) CHECK_EQUAL(liar->memory[i], 'm');
        liar_free(liar);
        CHECK(held_settle(&scene.held));
    }
}

#define STOPPED_BYTES 1000000

_Noreturn static void send_until_stopped(struct connection *c)
{
    int error, parent = getppid();
    struct fs_engine_options options = {.eager_limit = 1000, .credit = 1 << 20, .spin_us = 50};
    struct fs_engine *engine = fs_engine_new(1, 2, &options, &error);
    unsigned char *data = malloc(STOPPED_BYTES);
    memset(data, 's', STOPPED_BYTES);
    c->holder[0] = parent;
    connection_open(c, 1, 0);
    CHECK_EQUAL(fs_engine_attach_end(engine, 0, c->end[1], c->bell[1]), 0);
    for (;;) {
        struct fs_request request = {.one = {data, STOPPED_BYTES}};
        fs_request_prepare(&request, FS_SENDING, NULL, 1);
        fs_engine_send(engine, &request, 0, 0, 0, FS_STANDARD);
        while (!fs_request_is_done(&request)) fs_engine_progress(engine);
        if (request.error != FS_FINE) _exit(0);
    }
}

static void run_on(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((unsigned)core, &one);
    sched_setaffinity(0, sizeof one, &one); /* where there is one core only nothing is copied by both */
}

/* The same with a real sender, stopped wherever it is: 1 where its right to write was taken away. */
static int stop_and_abandon(struct random *random)
{
    int error, status;
    struct fs_engine_options options = {.eager_limit = 1000, .credit = 1 << 20, .spin_us = 50};
    struct connection c = connection_make(65536);
    pid_t sender = start_process();
    if (sender == 0) {
        run_on(1);
        close(c.bell[0]);
        send_until_stopped(&c);
    }
    run_on(0);
    close(c.bell[1]);
    c.holder[1] = sender;
    connection_open(&c, 0, 0);
    struct fs_engine *engine = fs_engine_new(0, 2, &options, &error);
    CHECK_EQUAL(fs_engine_attach_end(engine, 1, c.end[0], c.bell[0]), 0);
    struct held held = held_new(FS_RECEIVING, STOPPED_BYTES);
    for (uint64_t whole = random_below(random, 4); whole > 0; whole--) { /* which way they go is settled by then */
        fs_engine_receive(engine, held.request, 1, 0, 0);
        while (!fs_request_is_done(held.request)) fs_engine_progress(engine);
        held.request->one = (struct iovec){held.buffer, STOPPED_BYTES};
        fs_request_prepare(held.request, FS_RECEIVING, NULL, 1);
    }
    fs_engine_receive(engine, held.request, 1, 0, 0);
    uint64_t until = fs_now_ns() + random_below(random, 400000);
    while (fs_now_ns() < until) fs_engine_progress(engine);
    kill(sender, SIGSTOP);
    CHECK_EQUAL(waitpid(sender, &status, WUNTRACED), sender);
    fs_engine_abandon(engine, held.request);
    int shut = engine->links[0]->guard.gate == NULL;
    memset(held.buffer, 'm', STOPPED_BYTES);
    kill(sender, SIGCONT);
    for (int i = 0; i < 2000; i++) fs_engine_progress(engine);
    for (int i = 0; i < STOPPED_BYTES; i++) CHECK_EQUAL(held.buffer[i], 'm');
    kill(sender, SIGKILL);
    CHECK_EQUAL(waitpid(sender, &status, 0), sender);
    fs_engine_close(engine);
    fs_engine_release(engine);
    fs_end_free(c.end[0]);
    close(c.memory);
    atomic_store(&held.request->done, 1);
    CHECK(held_settle(&held));
    return shut;
}

TEST(receives_are_abandoned_behind_a_sender_that_is_stopped_at_any_moment, NEEDS_PROCESSES)
{
    struct random random = random_from(5);
    int shut = 0, rounds = scaled(100);
    for (int round = 0; round < rounds; round++) shut += stop_and_abandon(&random);
    printf("stopped %d times, %d of them between its claim and its word\n", rounds, shut);
}

/* ---- what a stranger could take of memory ---- */

static void flood(struct scene *scene, char *reason, size_t size)
{
    const char *path;
    liar_greet(scene->liar);
    for (int i = 0; i < 1000000; i++) {
        struct fs_frame frame = fs_frame_of(FS_FRAME_READY_TO_SEND, 1, LIAR_LONG, 0);
        frame.tag = 3;
        liar_put(scene->liar, frame);
        if (i % 100 == 0) liar_progress(scene->liar);
        if (i % 100 == 0) liar_read(scene->liar, &frame, sizeof frame); /* what it asks for is of no interest */
        fs_engine_reason(scene->liar->engine, 1, reason, size, &path);
        if (reason[0] != 0) return;
    }
    fail(__FILE__, __LINE__, "announced without end");
}

TEST(announcements_beyond_the_credit_end_their_sender, 0)
{
    char reason[256];
    struct scene scene = {.liar = liar_new()};
    flood(&scene, reason, sizeof reason);
    CHECK(strstr(reason, "more than its credit") != NULL);
    liar_free(scene.liar);
}

/* Each time that the receive is not among them some more are let in; but not for ever. */
TEST(announcements_of_other_messages_than_the_awaited_end_their_sender, 0)
{
    char reason[256];
    struct scene scene = {.liar = liar_new()};
    scene.held = held_new(FS_RECEIVING, 10);
    fs_engine_receive(scene.liar->engine, scene.held.request, 1, 7, 0);
    flood(&scene, reason, sizeof reason);
    CHECK(strstr(reason, "too many messages of it wait here") != NULL);
    CHECK(held_settle(&scene.held));
    liar_free(scene.liar);
}
