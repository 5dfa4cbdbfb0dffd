/* The way out: from an agreed byte on, the doorbell itself carries the payload of both directions.
 *
 * The end that needs it does it alone.  For what comes in it marks the position at which the other end stands, if all up
 * to there is read: by the very word by which the other end publishes, so nothing more comes through the ring.  Then it
 * ends the tokens, and the other end's next send goes over the doorbell.  Its own direction may hold unread data: the
 * other end reads the ring to its end, takes off the announced tokens, and finds the payload behind them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>

#include "end.h"
#include "system.h"

#define PATIENCE_NS 20000000ull

static int has_left(int doorbell)
{
    struct pollfd left = {doorbell, POLLRDHUP, 0};
    return poll(&left, 1, 0) > 0;
}

static int release_incoming(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    if (end->raw_in) return 0;
    if (fs_is_raw(in)) { /* the other end was first: what it sends from now on lies behind its last token */
        if (fs_ring_unread(&end->in) != 0 || fs_doorbell_eat_all(end, doorbell) != 0) return -EAGAIN;
        end->raw_in = 1;
        return 0;
    }
    if (!fs_ring_ask_raw(&end->in)) return -EAGAIN;
    if (fs_doorbell_end(end, doorbell) != 0) {
        fs_doorbell_begin_again(end); /* first: what is published next must ring */
        if (fs_ring_take_back_raw(&end->in) || fs_doorbell_end(end, doorbell) != 0) return -EAGAIN;
    }
    end->raw_in = 1;
    return 0;
}

int fs_end_release(struct fs_end *end, int doorbell)
{
    struct fs_direction *out = end->out.shared;
    int error = fs_lock(end->exclusion.receiver, PATIENCE_NS);
    if (error != 0) return -EAGAIN;
    /* a raw stream refuses at once what TCP would still take; and a farewell is for nobody else to read */
    int leaves = (atomic_load(&end->in.shared->head) & FS_FAREWELL) != 0 || (!end->raw_in && has_left(doorbell));
    /* of a shut reading half the kernel was not told: receives by the raw number would wait for ever */
    int deaf = !end->raw_in && atomic_load(&end->in.shared->reading_shut);
    error = leaves || deaf ? -EAGAIN : release_incoming(end, doorbell);
    fs_unlock(end->exclusion.receiver);
    if (error != 0) return error;
    /* the incoming half is raw: there is no way back, so a sender of ours that was stopped here is not waited for */
    error = fs_lock(end->exclusion.sender, PATIENCE_NS);
    if (!atomic_load(&out->producer_shut)) atomic_store(&out->raw, 1); /* else nothing more will go there */
    end->raw_out = 1;
    if (error == 0) fs_unlock(end->exclusion.sender);
    atomic_store(&out->reader_sleeps, 0);
    fs_futex_wake_all(&out->reader_sleeps);
    return fs_doorbell_plain(doorbell);
}

/* What was sent to the other end is all read, and no token is left for it. */
static int nothing_is_under_way(const struct fs_end *end)
{
    const struct fs_direction *out = end->out.shared;
    return fs_ring_unread(&end->out) == 0 && atomic_load(&out->eaten) >= atomic_load(&out->bell) >> FS_BELL_SHIFT;
}

/* Behind a farewell nothing more is published, so nobody need agree. */
static int follow_incoming(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    if (!(atomic_load(&in->head) & FS_FAREWELL)) return release_incoming(end, doorbell);
    if (fs_ring_unread(&end->in) != 0 || fs_doorbell_end(end, doorbell) != 0) return -EAGAIN;
    atomic_store(&in->raw, 1);
    end->raw_in = 1;
    return 0;
}

int fs_end_follow(struct fs_end *end, int doorbell)
{
    struct fs_direction *out = end->out.shared;
    int error = fs_lock(end->exclusion.sender, 0);
    if (error != 0) return -EAGAIN;
    error = end->gone || nothing_is_under_way(end) ? follow_incoming(end, doorbell) : -EPROTO;
    if (error == 0) {
        if (!atomic_load(&out->producer_shut)) atomic_store(&out->raw, 1);
        end->raw_out = 1;
    }
    fs_unlock(end->exclusion.sender);
    return error == 0 ? fs_doorbell_plain(doorbell) : error;
}
