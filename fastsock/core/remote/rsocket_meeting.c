#define _GNU_SOURCE
#include "rsocket_meeting.h"

#include <errno.h>

#include "agent.h"
#include "meeting.h"
#include "rsocket_accepting.h"
#include "rsocket_apart.h"
#include "rsocket_bridge.h"
#include "rsocket_carrier.h"
#include "system.h"

#ifdef FS_HAS_RSOCKETS

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/random.h>

#define BACKLOG 128
#define MOST_OFFERED 64           /* spans that nobody has accepted yet */
#define GREETING_NS 2000000000ull /* who connects and says nothing is closed then */
#define BUFFER_BYTES (64u * 1024) /* the library registers twice so much each way */
#define REQUESTS 384u             /* of each queue: more than the pieces of FS_FRAMES frames */
#define LISTENING_NS 1000000000ull
#define CONNECTING_MS 2

/* ---- one rsocket ---- */

/* What the files in /etc/rdma/rsocket say holds for programs that chose rsockets. */
static int make_rsocket(const struct fs_rsocket_library *library, int family, int *error)
{
    const uint32_t bytes = BUFFER_BYTES, requests = REQUESTS;
    int number = library->rsocket(family, SOCK_STREAM, 0);
    if (number < 0) {
        *error = -errno;
        return -1;
    }
    if (library->rsetsockopt(number, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 &&
        library->rsetsockopt(number, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0 &&
        library->rsetsockopt(number, SOL_RDMA, RDMA_SQSIZE, &requests, sizeof requests) == 0 &&
        library->rsetsockopt(number, SOL_RDMA, RDMA_RQSIZE, &requests, sizeof requests) == 0 &&
        library->rfcntl(number, F_SETFL, O_NONBLOCK) == 0)
        return number;
    *error = -errno;
    library->rclose(number);
    return -1;
}

static socklen_t size_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* By the thread, once a span is over. */
static void ended(struct fs_span *span)
{
    if (span->carrier != NULL) span->carrier->calls->close(span->carrier);
    span->carrier = NULL;
}

/* A held span over a connected rsocket, which is the span's from now on, or closed. */
static struct fs_span *serve(const struct fs_rsocket_library *library, int number, struct fs_rsocket_greeting *greeting,
                             int *error)
{
    size_t window = 0;
    struct fs_span *span = fs_span_make(greeting->connecting, error);
    if (span != NULL) {
        fs_span_in(span, &window);
        greeting->window_bytes = (uint32_t)window;
        greeting->greeted = &span->greeted;
        span->carrier = fs_rsocket_carrier_make(library, number, greeting, error);
    }
    if (span == NULL || span->carrier == NULL) {
        fs_rsocket_close(library, number);
        if (span != NULL) fs_span_drop(span);
        return NULL;
    }
    fs_span_hold(span);
    *error = fs_agent_serve(span, ended);
    if (*error == 0) return span;
    ended(span);
    fs_span_drop(span);
    fs_span_drop(span);
    return NULL;
}

/* ---- accepting ---- */

static int counts_offered(struct fs_span *span, const void *counted)
{
    if (span->carrier != NULL && span->carrier->of_one_thread && atomic_load(&span->state) == FS_SPAN_OFFERED)
        ++**(unsigned *const *)counted;
    return 0;
}

static void accepted(int number)
{
    int error = 0;
    unsigned offered = 0, *counted = &offered;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    const struct fs_rsocket_library *library = fs_rsocket_library(&error);
    struct fs_rsocket_greeting greeting = {.limit_ns = fs_now_ns() + GREETING_NS};
    fs_agent_find(counts_offered, &counted);
    if (offered >= MOST_OFFERED || library->rfcntl(number, F_SETFL, O_NONBLOCK) != 0 ||
        library->rgetpeername(number, (struct sockaddr *)&peer, &length) != 0 ||
        getrandom(&greeting.cookie, sizeof greeting.cookie, GRND_NONBLOCK) != sizeof greeting.cookie) {
        fs_rsocket_close(library, number);
        return;
    }
    greeting.from = fs_key_of((struct sockaddr *)&peer);
    struct fs_span *span = serve(library, number, &greeting, &error);
    if (span != NULL) fs_span_drop(span);
}

static const struct fs_rsocket_library *begin(int *error)
{
    const struct fs_rsocket_library *library = fs_rsocket_library(error);
    if (library == NULL) return NULL;
    *error = fs_verbs_use();
    /* iWARP's ports are TCP's own: a server without fastsock would see a connection that it does not understand */
    if (*error == 0 && fs_verbs_any_is_iwarp(fs_verbs_library(error))) *error = -EOPNOTSUPP;
    if (*error == 0) *error = fs_rsocket_bridge_start(library);
    return *error == 0 ? library : NULL;
}

int fs_rsocket_usable(void)
{
    int error = 0;
    fs_rsocket_library(&error);
    return error == 0 && fs_verbs_is_inherited() ? -EPERM : error;
}

struct fs_rsocket_listener *fs_rsocket_listen(const struct sockaddr *at, int *error)
{
    const struct fs_rsocket_library *library = begin(error);
    int number = library == NULL ? -1 : make_rsocket(library, at->sa_family, error);
    if (number < 0) return NULL;
    struct fs_rsocket_listener *listener = NULL;
    if (library->rbind(number, at, size_of(at)) != 0) *error = -errno;
    else if ((*error = fs_rsocket_listen_apart(library, number, BACKLOG, fs_now_ns() + LISTENING_NS)) != 0) return NULL;
    else listener = fs_rsocket_accept_on(library, number, accepted, error);
    if (listener == NULL) fs_rsocket_close(library, number);
    return listener;
}

/* A child has a copy of the memory alone. */
void fs_rsocket_unlisten(struct fs_rsocket_listener *listener)
{
    if (fs_verbs_is_inherited()) free(listener);
    else fs_rsocket_accept_no_more(listener);
}

static int is_from(struct fs_span *span, const void *key)
{
    const struct fs_key *from = fs_rsocket_carrier_from(span->carrier);
    return atomic_load(&span->state) == FS_SPAN_OFFERED && from != NULL && fs_same_key(from, key);
}

struct fs_span *fs_rsocket_claim(const struct sockaddr *source)
{
    struct fs_key key = fs_key_of(source);
    if (fs_verbs_is_inherited()) return NULL;
    struct fs_span *span = fs_agent_find(is_from, &key);
    if (span == NULL || fs_span_claim(span)) return span;
    fs_span_drop(span);
    return NULL;
}

/* ---- connecting ---- */

/* 0 or -errno.  A thread of the library takes the events too, so the descriptor is not relied on. */
static int await_connected(const struct fs_rsocket_library *library, int number, uint64_t limit_ns)
{
    for (;;) {
        struct pollfd made = {number, POLLOUT, 0}, event = {number, POLLIN, 0};
        if (library->rpoll(&made, 1, 0) > 0) {
            int error = 0;
            socklen_t length = sizeof error;
            if (!(made.revents & (POLLERR | POLLHUP))) return 0;
            if (library->rgetsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
            return error == 0 ? -ECONNREFUSED : -error;
        }
        if (fs_now_ns() >= limit_ns) return -ETIMEDOUT;
        poll(&event, 1, CONNECTING_MS);
    }
}

static int connect_to(const struct fs_rsocket_library *library, const struct sockaddr *target, uint64_t limit_ns,
                      int *error)
{
    int number = make_rsocket(library, target->sa_family, error);
    if (number < 0) return -1;
    *error = fs_rsocket_connect_apart(library, number, target, size_of(target), limit_ns);
    if (*error == -EBUSY) *error = -ETIMEDOUT;
    if (*error != 0) return -1;
    *error = await_connected(library, number, limit_ns);
    if (*error == 0) return number;
    fs_rsocket_close(library, number);
    return -1;
}

static int await_greeting(struct fs_span *span, uint64_t limit_ns)
{
    for (;;) {
        uint32_t how = atomic_load(&span->greeted);
        uint64_t now = fs_now_ns();
        if (how == FS_GREETED) return 0;
        if (how != 0) return -(int)how;
        if (now >= limit_ns) return -ETIMEDOUT;
        fs_futex_wait(&span->greeted, 0, limit_ns - now);
    }
}

struct fs_span *fs_rsocket_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error)
{
    const uint64_t limit_ns = fs_now_ns() + patience_ns;
    const struct fs_rsocket_library *library = begin(error);
    struct fs_rsocket_greeting greeting = {.connecting = 1, .limit_ns = limit_ns, .from = fs_key_of(source)};
    int number = library == NULL ? -1 : connect_to(library, target, limit_ns, error);
    struct fs_span *span = number < 0 ? NULL : serve(library, number, &greeting, error);
    if (span == NULL) return NULL;
    *error = await_greeting(span, limit_ns);
    if (*error == 0) return span;
    fs_meeting_withdraw(span, 0); /* it may be greeted right now */
    fs_span_drop(span);
    return NULL;
}

#else

#include "verbs/library.h"

int fs_rsocket_usable(void) { return fs_verbs_has_device() ? -ENOSYS : -ENODEV; }

struct fs_rsocket_listener *fs_rsocket_listen(const struct sockaddr *at, int *error)
{
    (void)at;
    *error = fs_rsocket_usable();
    return NULL;
}

void fs_rsocket_unlisten(struct fs_rsocket_listener *listener) { (void)listener; }

struct fs_span *fs_rsocket_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error)
{
    (void)source, (void)target, (void)patience_ns;
    *error = fs_rsocket_usable();
    return NULL;
}

struct fs_span *fs_rsocket_claim(const struct sockaddr *source)
{
    (void)source;
    return NULL;
}

#endif
