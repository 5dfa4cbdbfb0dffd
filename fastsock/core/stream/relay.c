#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_PARTS 16 /* in one turn: others are served by the same thread */

enum { GOES_ON = 0, OVER = 1 };

static void reset_on_close(int stream)
{
    struct linger at_once = {1, 0};
    setsockopt(stream, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

static int has_hung_up(int descriptor)
{
    struct pollfd one = {descriptor, 0, 0};
    return poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR)) != 0;
}

/* The stream failed: whoever is at the ring is told of a reset, behind what came before it. */
static int broken(struct fs_relay *relay)
{
    atomic_store(&relay->end->header->reset[relay->end->side], 1);
    return OVER;
}

static int skip_some(struct fs_relay *relay, char *buffer, size_t size)
{
    size_t part = relay->skip < size ? (size_t)relay->skip : size;
    ssize_t got = fs_end_receive(relay->end, relay->doorbell, buffer, part, 0, 1);
    if (got > 0) relay->skip -= (uint64_t)got;
    return got == -EAGAIN || got > 0 ? (int)(got > 0) : -1;
}

static int outwards(struct fs_relay *relay, char *buffer, size_t size)
{
    for (int parts = 0; !relay->outwards_over; parts++) {
        if (relay->skip > 0) {
            int skipped = skip_some(relay, buffer, size);
            if (skipped > 0) continue;
            if (skipped == 0) {
                relay->doorbell_wants |= POLLIN;
                return GOES_ON;
            }
        }
        ssize_t there = fs_end_receive(relay->end, relay->doorbell, buffer, size, 1, 1);
        if (there == -EAGAIN || (there > 0 && parts >= MOST_PARTS)) {
            relay->doorbell_wants |= POLLIN;
            return GOES_ON;
        }
        if (there < 0) {
            reset_on_close(relay->stream);
            return OVER;
        }
        if (there == 0) {
            relay->outwards_over = 1;
            shutdown(relay->stream, SHUT_WR);
            break;
        }
        ssize_t sent = send(relay->stream, buffer, (size_t)there, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            relay->stream_wants |= POLLOUT;
            return GOES_ON;
        }
        if (sent < 0 && errno != EINTR) return broken(relay);
        if (sent > 0 && fs_end_receive(relay->end, relay->doorbell, buffer, (size_t)sent, 0, 0) != sent)
            return broken(relay);
    }
    /* who closed wholly takes nothing any more */
    return has_hung_up(relay->doorbell) ? OVER : GOES_ON;
}

static int inwards(struct fs_relay *relay, char *buffer, size_t size)
{
    for (int parts = 0; !relay->inwards_over; parts++) {
        ssize_t there = recv(relay->stream, buffer, size, MSG_PEEK | MSG_DONTWAIT);
        if ((there < 0 && errno == EAGAIN) || (there > 0 && parts >= MOST_PARTS)) {
            relay->stream_wants |= POLLIN;
            return GOES_ON;
        }
        if (there < 0 && errno == EINTR) continue;
        if (there < 0) return broken(relay);
        if (there == 0) {
            relay->inwards_over = 1;
            fs_end_shutdown(relay->end, relay->doorbell, SHUT_WR);
            return GOES_ON;
        }
        ssize_t sent = fs_end_send(relay->end, relay->doorbell, buffer, (size_t)there, FS_NO_SIGNAL);
        if (sent == -EAGAIN) {
            relay->doorbell_wants |= POLLOUT;
            return GOES_ON;
        }
        if (sent < 0) { /* nobody takes it: TCP's receiver would answer by a reset */
            reset_on_close(relay->stream);
            return OVER;
        }
        if (recv(relay->stream, buffer, (size_t)sent, MSG_DONTWAIT) != sent) return broken(relay);
    }
    return GOES_ON;
}

int fs_relay_turn(struct fs_relay *relay, char *buffer, size_t size)
{
    relay->doorbell_wants = relay->stream_wants = 0;
    if (inwards(relay, buffer, size) == OVER || outwards(relay, buffer, size) == OVER) return OVER;
    return relay->inwards_over && relay->outwards_over;
}

void fs_relay_end(struct fs_relay *relay)
{
    int reset = (int)atomic_load(&relay->end->header->reset[relay->end->side]);
    fs_end_closing(relay->end, relay->doorbell, reset);
    close(relay->doorbell);
    fs_end_closed(relay->end);
    fs_end_free(relay->end);
    close(relay->stream);
}
