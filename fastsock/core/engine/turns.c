/* Which frame may come when.
 *
 * A frame stands either for the link itself or names, by its number, a request of this end.  What this end is doing with
 * that request then says which frames an honest peer can have sent by now; every other one ends the link before anything
 * of the request was touched.  No handler asks for the state again. */
#include <stdio.h>

#include "link.h"

#define IN(state) (1u << (state))
#define NAMED_NOTHING -1

static const struct {
    const char *name;
    int names; /* the kind of request whose number it carries */
    uint32_t states;
} turns[FS_TURNS] = {
    [FS_FRAME_GREETING] = {"GREETING", NAMED_NOTHING, IN(FS_STRANGER)},
    [FS_FRAME_EAGER] = {"EAGER", NAMED_NOTHING, IN(FS_MET)},
    [FS_FRAME_KEY] = {"KEY", NAMED_NOTHING, IN(FS_MET)},
    [FS_FRAME_READY_TO_SEND] = {"READY_TO_SEND", NAMED_NOTHING, IN(FS_MET)},
    [FS_FRAME_CREDIT] = {"CREDIT", NAMED_NOTHING, IN(FS_MET)},
    [FS_FRAME_CANCEL] = {"CANCEL", NAMED_NOTHING, IN(FS_MET)},
    [FS_FRAME_GOODBYE] = {"GOODBYE", NAMED_NOTHING, IN(FS_MET)},
    /* where this end has copied a part, the receiver waits for SHARED before it says anything else */
    [FS_FRAME_READY_TO_RECEIVE] = {"READY_TO_RECEIVE", FS_SENDING,
                                   IN(FS_ANNOUNCED) | IN(FS_HELPING) | IN(FS_HELPED) | IN(FS_SEND_GONE)},
    [FS_FRAME_PUT] = {"PUT", FS_SENDING, IN(FS_ANNOUNCED) | IN(FS_SEND_GONE)},
    [FS_FRAME_ACKNOWLEDGE] = {"ACKNOWLEDGE", FS_SENDING,
                              IN(FS_SENT) | IN(FS_ANNOUNCED) | IN(FS_HELPING) | IN(FS_HELPED) | IN(FS_SEND_GONE)},
    [FS_FRAME_CANCELLED] = {"CANCELLED", FS_SENDING, IN(FS_SENT) | IN(FS_ANNOUNCED) | IN(FS_SEND_GONE)},
    /* may come behind what made it too late, so behind the end of the request too */
    [FS_TURN_REFUSED] = {"CANCELLED (refused)", FS_SENDING,
                         IN(FS_NOBODY) | IN(FS_BEGINNING) | IN(FS_SENT) | IN(FS_ANNOUNCED) | IN(FS_HELPING) |
                             IN(FS_COPYING) | IN(FS_HELPED) | IN(FS_STREAMING) | IN(FS_PUTTING) | IN(FS_SEND_GONE)},
    [FS_FRAME_SHARE] = {"SHARE", FS_SENDING, IN(FS_ANNOUNCED) | IN(FS_SEND_GONE)},
    [FS_FRAME_DATA] = {"DATA", FS_RECEIVING, IN(FS_EXPECTING) | IN(FS_OPENED) | IN(FS_RECEIVE_GONE)},
    [FS_FRAME_WITHDRAWN] = {"WITHDRAWN", FS_RECEIVING, IN(FS_EXPECTING) | IN(FS_OPENED) | IN(FS_RECEIVE_GONE)},
    [FS_FRAME_PUT_DONE] = {"PUT_DONE", FS_RECEIVING, IN(FS_OPENED) | IN(FS_RECEIVE_GONE)},
    [FS_FRAME_SHARED] = {"SHARED", FS_RECEIVING, IN(FS_SHARING) | IN(FS_REVOKED)},
};

static const char *const states[FS_STATES] = {
    [FS_STRANGER] = "before the greeting",
    [FS_MET] = "after the greeting",
    [FS_NOBODY] = "for a number that is nobody's",
    [FS_BEGINNING] = "for a send whose first frame is on its way",
    [FS_SENT] = "for a send that went with its envelope",
    [FS_ANNOUNCED] = "for a send that was announced",
    [FS_HELPING] = "for a send that both ends may copy",
    [FS_COPYING] = "for a send of which both ends copy a part",
    [FS_HELPED] = "for a send that both ends have copied",
    [FS_STREAMING] = "for a send whose bytes are on their way",
    [FS_PUTTING] = "for a send whose bytes the device writes",
    [FS_SEND_GONE] = "for a send that was abandoned",
    [FS_SHARING] = "for a receive that both ends copy",
    [FS_SHARED] = "for a receive of which the sender has copied its part",
    [FS_EXPECTING] = "for a receive that asked for its bytes",
    [FS_OPENED] = "for a receive whose memory is open to the sender's device",
    [FS_GETTING] = "for a receive whose bytes the device reads",
    [FS_RECEIVE_GONE] = "for a receive that was abandoned",
    [FS_REVOKED] = "for a receive that was abandoned while both ends copied",
};

int fs_turn_of(const struct fs_frame *frame)
{
    if (frame->kind == FS_FRAME_CANCELLED && frame->length == 0) return FS_TURN_REFUSED;
    return frame->kind;
}

int fs_state_named(struct fs_engine *engine, const struct fs_link *link, int turn, uint32_t id, struct fs_slot **slot)
{
    *slot = NULL;
    if (!link->greeted) return FS_STRANGER;
    if (turns[turn].names == NAMED_NOTHING) return FS_MET;
    *slot = fs_slot_find(engine, id, link->peer, turns[turn].names);
    if (!*slot) return FS_NOBODY;
    return (*slot)->request ? (*slot)->request->state : (*slot)->gone;
}

int fs_is_in_turn(int turn, int state) { return (int)(turns[turn].states >> state & 1); }

void fs_out_of_turn(struct fs_engine *engine, struct fs_link *link, int turn, int state)
{
    char reason[160];
    const char *where = states[state] ? states[state] : "for a request that no other end knows";
    snprintf(reason, sizeof reason, "a frame out of turn: %s %s", turns[turn].name, where);
    fs_link_broken(engine, link, reason);
}
