#include "scenes.h"

static void send_long(struct scene *scene)
{
    scene->held = held_new(FS_SENDING, LIAR_LONG);
    fs_engine_send(scene->liar->engine, scene->held.request, 1, 7, 0, FS_STANDARD);
    scene->id = scene->held.request->id;
}

static void send_short(struct scene *scene)
{
    scene->held = held_new(FS_SENDING, 10);
    fs_engine_send(scene->liar->engine, scene->held.request, 1, 7, 0, FS_SYNCHRONOUS);
    scene->id = scene->held.request->id;
}

void send_behind_a_full_ring(struct scene *scene)
{
    scene->held = held_new(FS_SENDING, 90000);
    fs_engine_send(scene->liar->engine, scene->held.request, 1, 7, 0, FS_SYNCHRONOUS);
    scene->id = scene->held.request->id;
}

static void ask_for_share(struct scene *scene, uint32_t number)
{
    struct fs_frame frame = fs_frame_of(FS_FRAME_SHARE, scene->id, LIAR_LONG, (uint64_t)(uintptr_t)scene->liar->memory);
    frame.tag = (int32_t)number;
    frame.context = 77;
    liar_put(scene->liar, frame);
}

void be_helping(struct scene *scene) /* both frames come in one round */
{
    send_long(scene);
    ask_for_share(scene, 5);
}

void be_copying(struct scene *scene)
{
    send_long(scene);
    atomic_store(&scene->liar->end->in.shared->offer, (uint64_t)6 << 32);
    ask_for_share(scene, 6);
    liar_progress(scene->liar);
}

static void have_helped(struct scene *scene)
{
    send_long(scene);
    ask_for_share(scene, 5);
    liar_progress(scene->liar);
}

static void be_streaming(struct scene *scene)
{
    send_long(scene);
    liar_put(scene->liar, fs_frame_of(FS_FRAME_READY_TO_RECEIVE, scene->id, LIAR_LONG, 77));
    liar_progress(scene->liar);
}

static void abandon(struct scene *scene)
{
    fs_engine_abandon(scene->liar->engine, scene->held.request);
    scene->held.request->done = 1;
    held_settle(&scene->held);
}

static void abandon_a_send(struct scene *scene)
{
    send_long(scene);
    abandon(scene);
}

static void receive_long(struct scene *scene, int fetched)
{
    scene->held = held_new(FS_RECEIVING, LIAR_LONG);
    fs_engine_receive(scene->liar->engine, scene->held.request, 1, 7, 0);
    scene->far_id = 1;
    struct fs_frame frame = liar_announcement(scene->liar, scene->far_id, LIAR_LONG, fetched);
    frame.tag = 7;
    liar_put(scene->liar, frame);
    liar_progress(scene->liar);
}

void be_sharing(struct scene *scene)
{
    receive_long(scene, 1);
    struct fs_frame share = liar_get(scene->liar, FS_FRAME_SHARE);
    scene->id = share.context;
    scene->share = (uint32_t)share.tag;
}

void claim_one(struct scene *scene)
{
    atomic_store(&scene->liar->end->out.shared->offer, (uint64_t)scene->share << 32 | 1u);
}

static void have_shared(struct scene *scene)
{
    be_sharing(scene);
    claim_one(scene);
    liar_put(scene->liar, fs_frame_of(FS_FRAME_SHARED, scene->id, 1, 0));
}

static void be_expecting(struct scene *scene)
{
    receive_long(scene, 0);
    scene->id = (uint32_t)liar_get(scene->liar, FS_FRAME_READY_TO_RECEIVE).word;
}

static void abandon_a_receive(struct scene *scene)
{
    be_expecting(scene);
    abandon(scene);
}

static void abandon_while_the_sender_copies(struct scene *scene)
{
    be_sharing(scene);
    claim_one(scene);
    abandon(scene);
}

static void do_nothing(struct scene *scene) { scene->id = 999; }

const struct place places[] = {
    {"before the greeting", do_nothing, FS_STRANGER, 0, -1, " GREETING "},
    {"after the greeting", do_nothing, FS_MET, 1, -1, " EAGER READY_TO_SEND CREDIT CANCEL GOODBYE "},
    {"for a number that is nobody's", do_nothing, FS_NOBODY, 1, -1, " CANCELLED(refused) "},
    {"for a send whose first frame is on its way", send_behind_a_full_ring, FS_BEGINNING, 1, FS_SENDING,
     " CANCELLED(refused) "},
    {"for a send that went with its envelope", send_short, FS_SENT, 1, FS_SENDING,
     " ACKNOWLEDGE CANCELLED CANCELLED(refused) "},
    {"for a send that was announced", send_long, FS_ANNOUNCED, 1, FS_SENDING,
     " READY_TO_RECEIVE ACKNOWLEDGE CANCELLED CANCELLED(refused) SHARE "},
    {"for a send that both ends may copy", be_helping, FS_HELPING, 1, FS_SENDING,
     " READY_TO_RECEIVE ACKNOWLEDGE CANCELLED(refused) "},
    {"for a send of which both ends copy a part", be_copying, FS_COPYING, 1, FS_SENDING, " CANCELLED(refused) "},
    {"for a send that both ends have copied", have_helped, FS_HELPED, 1, FS_SENDING,
     " READY_TO_RECEIVE ACKNOWLEDGE CANCELLED(refused) "},
    {"for a send whose bytes are on their way", be_streaming, FS_STREAMING, 1, FS_SENDING, " CANCELLED(refused) "},
    {"for a send that was abandoned", abandon_a_send, FS_SEND_GONE, 1, FS_SENDING,
     " READY_TO_RECEIVE ACKNOWLEDGE CANCELLED CANCELLED(refused) SHARE "},
    {"for a receive that both ends copy", be_sharing, FS_SHARING, 1, FS_RECEIVING, " SHARED "},
    {"for a receive of which the sender has copied its part", have_shared, FS_SHARED, 1, FS_RECEIVING, " "},
    {"for a receive that was abandoned while both ends copied", abandon_while_the_sender_copies, FS_REVOKED, 1,
     FS_RECEIVING, " SHARED "},
    {"for a receive that asked for its bytes", be_expecting, FS_EXPECTING, 1, FS_RECEIVING, " DATA WITHDRAWN "},
    {"for a receive that was abandoned", abandon_a_receive, FS_RECEIVE_GONE, 1, FS_RECEIVING, " DATA WITHDRAWN "},
};
const int place_count = sizeof places / sizeof places[0];
