/* The way out: from an agreed byte on, the doorbell itself carries the payload of both directions.
 *
 * The end that needs it does it alone.  Holding the other end's producer lock it makes sure that nothing is unread
 * and marks the direction raw: the other end's next send goes over the doorbell.  Its own direction may hold unread
 * data: the other end reads the ring to its end, takes off the announced tokens, and finds the payload behind them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>

#include "end.h"
#include "system.h"

#define PATIENCE_NS 20000000ull

static int release_incoming(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared;
    if (atomic_load(&in->raw)) return end->raw_in ? 0 : -EAGAIN;
    struct pollfd left = {doorbell, POLLRDHUP, 0};
    if (poll(&left, 1, 0) > 0) return -EAGAIN; /* a raw stream refuses at once what TCP would still take */
    int error = fs_lock_as_visitor(&in->producer_lock, PATIENCE_NS);
    if (error != 0) return error == -ETIMEDOUT ? -EAGAIN : error;
    if (fs_ring_unread(&end->in) != 0 || fs_doorbell_eat_all(end, doorbell) != 0) error = -EAGAIN;
    else {
        atomic_store(&in->raw, 1);
        end->raw_in = 1;
    }
    fs_unlock(&in->producer_lock);
    return error;
}

int fs_end_release(struct fs_end *end, int doorbell)
{
    struct fs_direction *in = end->in.shared, *out = end->out.shared;
    int error = fs_lock(&in->consumer_lock, fs_end_shared(end), PATIENCE_NS);
    if (error != 0) return error == -ETIMEDOUT ? -EAGAIN : error;
    error = release_incoming(end, doorbell);
    fs_unlock(&in->consumer_lock);
    if (error != 0) return error;
    /* the incoming half is raw: there is no way back, so a sender of ours that was stopped here is not waited for */
    error = fs_lock(&out->producer_lock, fs_end_shared(end), PATIENCE_NS);
    atomic_store(&out->raw, 1);
    end->raw_out = 1;
    if (error == 0) fs_unlock(&out->producer_lock);
    atomic_store(&out->reader_sleeps, 0);
    fs_futex_wake_all(&out->reader_sleeps);
    return fs_doorbell_plain(doorbell);
}
