/* Every frame in every state of what it names: either an honest peer may send it then, or the peer is lost with an error
 * that names both.  Whatever becomes of a request, its owner frees it and its buffer as soon as it is done. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "scenes.h"

static const char *const frames[FS_TURNS] = {
    [FS_FRAME_GREETING] = "GREETING",   [FS_FRAME_EAGER] = "EAGER",
    [FS_FRAME_READY_TO_SEND] = "READY_TO_SEND",       [FS_FRAME_READY_TO_RECEIVE] = "READY_TO_RECEIVE",
    [FS_FRAME_DATA] = "DATA",           [FS_FRAME_ACKNOWLEDGE] = "ACKNOWLEDGE",
    [FS_FRAME_CREDIT] = "CREDIT",       [FS_FRAME_CANCEL] = "CANCEL",
    [FS_FRAME_CANCELLED] = "CANCELLED", [FS_TURN_REFUSED] = "CANCELLED (refused)",
    [FS_FRAME_WITHDRAWN] = "WITHDRAWN", [FS_FRAME_SHARE] = "SHARE",
    [FS_FRAME_SHARED] = "SHARED",       [FS_FRAME_GOODBYE] = "GOODBYE",
};

static int names_a_request(int turn, int *kind)
{
    *kind = turn == FS_FRAME_DATA || turn == FS_FRAME_WITHDRAWN || turn == FS_FRAME_SHARED ? FS_RECEIVING : FS_SENDING;
    return *kind == FS_RECEIVING || turn == FS_FRAME_READY_TO_RECEIVE || turn == FS_FRAME_ACKNOWLEDGE ||
           turn == FS_FRAME_CANCELLED || turn == FS_TURN_REFUSED || turn == FS_FRAME_SHARE;
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
    if (strcmp(reason, expected) != 0) fail(__FILE__, __LINE__, "%s %s: \"%s\", not \"%s\"", frames[turn], place->name, reason, expected);
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
    send_behind_a_full_ring(&scene); /* so that what follows looks how far the liar has read */
    struct held sent = scene.held;
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
