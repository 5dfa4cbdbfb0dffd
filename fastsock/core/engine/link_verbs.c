/* A link over a queue pair.  The connected stream that came with it carries, first, where the two queue pairs are, then
 * nothing: it ends when the peer does.
 *
 * Neither end waits for the other here: the meeting goes on as progress does. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/ibvx.h"
#include "verbs/library.h"
#include "link.h"

#ifdef FS_HAS_VERBS

#define PATIENCE_MS 2000

/* One end tells its address, and READY once it can receive.  It sends when it has heard both. */
struct fs_verbs_meeting {
    struct fs_ibvx_address there;
    size_t known; /* bytes of it */
};

static const char ready_byte = 'R';

static void watch_for(struct fs_engine *engine, int what, struct fs_link *link, uint32_t events)
{
    struct epoll_event event = {.events = events};
    (void)epoll_ctl(engine->verbs_events, what, link->descriptor, &event);
}

static int send_all(const struct fs_link *link, const void *what, size_t length)
{
    return send(link->descriptor, what, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* 0, or -EPIPE or -EPROTO. */
static int meet(struct fs_link *link)
{
    struct fs_verbs_meeting *meeting = link->meeting;
    while (meeting) {
        char byte, *target = &byte;
        size_t wanted = sizeof meeting->there - meeting->known;
        if (wanted) target = (char *)(&meeting->there + 1) - wanted;
        ssize_t got = recv(link->descriptor, target, wanted ? wanted : 1, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (got <= 0) return -EPIPE;
        if (!wanted) {
            if (byte != ready_byte) return -EPROTO;
            fs_ibvx_begin(link->pair);
            watch_for(link->engine, EPOLL_CTL_MOD, link, EPOLLRDHUP);
            free(meeting);
            link->meeting = NULL;
            return 0;
        }
        meeting->known += (size_t)got;
        if ((size_t)got < wanted) continue;
        if (fs_ibvx_connect(link->pair, &meeting->there) != 0) return -EPROTO;
        if (!send_all(link, &ready_byte, 1)) return -EPIPE;
    }
    return 0;
}

static ssize_t verbs_write(struct fs_link *link, const struct iovec *parts, int count)
{
    return fs_ibvx_write(link->pair, parts, count);
}

static ssize_t verbs_read(struct fs_link *link, void *target, size_t length)
{
    int error = link->meeting ? meet(link) : 0;
    if (error) return error;
    return fs_ibvx_read(link->pair, target, length);
}

static void verbs_taken(struct fs_link *link) { fs_ibvx_taken(link->pair); }

static int verbs_has_input(const struct fs_link *link)
{
    return link->meeting != NULL || fs_ibvx_has_input(link->pair); /* of a meeting the kernel knows */
}

static int verbs_has_room(const struct fs_link *link) { return fs_ibvx_has_room(link->pair); }

static int verbs_watch(struct fs_link *link, struct pollfd *one)
{
    struct fs_engine *engine = link->engine;
    *one = (struct pollfd){engine->verbs_events, POLLIN, 0};
    if (link->meeting) {
        *one = (struct pollfd){link->descriptor, POLLIN, 0};
        return 0;
    }
    if (fs_ibvx_must_be_looked_at(link->pair)) return 1;
    if (fs_ibvx_arm(engine->verbs) || fs_ibvx_has_input(link->pair)) return 1;
    return atomic_load(&link->pending) && fs_ibvx_has_room(link->pair);
}

static const char *verbs_failure(const struct fs_link *link) { return fs_ibvx_failure(link->pair); }

static void verbs_close(struct fs_link *link)
{
    struct pollfd end = {link->descriptor, POLLRDHUP, 0};
    int gone = poll(&end, 1, 0) > 0 && (end.revents & (POLLRDHUP | POLLHUP | POLLERR));
    fs_ibvx_pair_close(link->pair, gone ? 0 : PATIENCE_MS);
    watch_for(link->engine, EPOLL_CTL_DEL, link, 0);
    close(link->descriptor);
}

static const struct fs_link_calls calls = {
    .path = "RDMA",
    .write = verbs_write,
    .read = verbs_read,
    .taken = verbs_taken,
    .has_input = verbs_has_input,
    .has_room = verbs_has_room,
    .watch = verbs_watch,
    .failure = verbs_failure,
    .close = verbs_close,
};

int fs_engine_open_verbs(struct fs_engine *engine, const struct fs_ibvx_options *options, int offers)
{
    int error = 0;
    struct fs_ibvx *found = fs_ibvx_open(options, &error);
    if (!found) return error;
    int events = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event news = {.events = EPOLLIN};
    if (events < 0 || epoll_ctl(events, EPOLL_CTL_ADD, fs_ibvx_descriptor(found), &news) != 0 ||
        epoll_ctl(events, EPOLL_CTL_ADD, fs_ibvx_news_descriptor(found), &news) != 0)
        error = -errno;
    fs_engine_lock(engine);
    if (error == 0 && engine->verbs) error = -EEXIST;
    if (error == 0) {
        engine->verbs = found;
        engine->verbs_events = events;
        engine->opens_keys = offers;
    }
    fs_engine_unlock(engine);
    if (error == 0) return 0;
    if (events >= 0) close(events);
    fs_ibvx_close(found);
    return error;
}

void fs_verbs_close(struct fs_engine *engine)
{
    if (!engine->verbs || engine->generation != fs_generation()) return; /* a child would end what is its parent's */
    fs_ibvx_close(engine->verbs);
    close(engine->verbs_events);
}

int fs_engine_attach_verbs(struct fs_engine *engine, int peer, int descriptor)
{
    if (!engine->verbs) return -ENODEV;
    struct fs_link *link = fs_link_new(peer, &calls, descriptor);
    int error = -ENOMEM;
    if (!link) return error;
    link->engine = engine;
    link->meeting = calloc(1, sizeof *link->meeting);
    if (link->meeting) link->pair = fs_ibvx_pair_new(engine->verbs, engine->rank, peer, &error);
    if (link->pair) {
        struct fs_ibvx_address here = fs_ibvx_address_of(link->pair);
        int flags = fcntl(descriptor, F_GETFL);
        if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
        error = send_all(link, &here, sizeof here) ? 0 : -EPIPE;
        watch_for(engine, EPOLL_CTL_ADD, link, EPOLLIN | EPOLLRDHUP);
        if (error == 0) error = fs_link_attach(engine, link);
        if (error == 0) return 0;
        fs_ibvx_pair_close(link->pair, 0);
        watch_for(engine, EPOLL_CTL_DEL, link, 0);
    }
    fs_link_free(link);
    return error;
}

int fs_engine_verbs_counts(struct fs_engine *engine, int peer, struct fs_ibvx_counts *counts, char *device, size_t size)
{
    if (!fs_is_peer(engine, peer)) return 0;
    fs_engine_lock(engine);
    struct fs_link *link = engine->peers[peer].link;
    int found = link && link->pair;
    if (found) {
        *counts = fs_ibvx_counts_of(link->pair);
        snprintf(device, size, "%s", fs_ibvx_name(engine->verbs));
    }
    fs_engine_unlock(engine);
    return found;
}

int fs_engine_pin(struct fs_engine *engine, void *memory, size_t length, int pins)
{
    int error = -ENODEV;
    fs_engine_lock(engine);
    if (engine->verbs && engine->opens_keys)
        error = -EOPNOTSUPP; /* what others may read serves one message at a time */
    else if (engine->verbs) error = (pins ? fs_ibvx_pin : fs_ibvx_unpin)(engine->verbs, memory, length);
    fs_engine_unlock(engine);
    return error;
}

#else

int fs_engine_pin(struct fs_engine *engine, void *memory, size_t length, int pins)
{
    (void)engine, (void)memory, (void)length, (void)pins;
    return -ENODEV;
}

void fs_verbs_close(struct fs_engine *engine) { (void)engine; }

int fs_engine_open_verbs(struct fs_engine *engine, const struct fs_ibvx_options *options, int offers)
{
    (void)engine, (void)options, (void)offers;
    return -ENOSYS;
}

int fs_engine_attach_verbs(struct fs_engine *engine, int peer, int descriptor)
{
    (void)engine, (void)peer, (void)descriptor;
    return -ENOSYS;
}

int fs_engine_verbs_counts(struct fs_engine *engine, int peer, struct fs_ibvx_counts *counts, char *device, size_t size)
{
    (void)engine, (void)peer, (void)counts, (void)device, (void)size;
    return 0;
}

#endif
