/* The states in which a frame can find an engine, and the way into each. */
#ifndef SCENES_H
#define SCENES_H

#include "lying_peer.h"

struct scene {
    struct liar *liar;
    struct held held;
    uint32_t id, far_id; /* the request's number here, and the liar's for the message */
    uint32_t share;      /* the number of the copy that both ends make */
};

struct place {
    const char *name;
    void (*go)(struct scene *scene);
    int state, greeted, kind; /* kind: of the request whose number is used; -1: of any, it is nobody's */
    const char *allowed;      /* the frames that an honest peer may send then, each between blanks */
};
extern const struct place places[];
extern const int place_count;

void be_helping(struct scene *scene);
void be_copying(struct scene *scene);
void be_sharing(struct scene *scene);
void claim_one(struct scene *scene); /* as the sender, in the word that says who copies what */
void send_behind_a_full_ring(struct scene *scene);

#endif
