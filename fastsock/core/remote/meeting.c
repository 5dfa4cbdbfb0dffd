#define _GNU_SOURCE
#include "meeting.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "key.h"
#include "queue_pair.h"
#include "system.h"

#ifdef FS_HAS_VERBS

#define MAGIC 0x46735232u /* "FsR2": another version is another number */
#define BACKLOG 128
#define MOST_OFFERED 64 /* spans that nobody has accepted yet */
#define ACK_TIMEOUT 17  /* 4.096 us times 2 to the power of it: half a second, then so often again: */
#define RETRIES 7
#define RESOLVING_MS 100
#define WISHES_RESUME 1 /* where the carrier breaks; it needs both ends */

/* Private data of both ends.  56 bytes are the most that RDMA over InfiniBand and Ethernet carries in a request. */
struct greeting {
    uint32_t magic;
    uint16_t wishes, source_port;
    uint8_t source[16];
    uint64_t cookie;
    uint64_t window_address;
    uint32_t window_key, window_bytes;
};
_Static_assert(sizeof(struct greeting) <= 56, "the private data of a request");

/* What belongs to a span here. */
struct met {
    struct fs_span *span;
    struct rdma_cm_id *id;
    struct fs_key from;
    struct met *next;
};

struct fs_meeting_listener {
    struct rdma_cm_id *id;
};

static struct {
    pthread_mutex_t opening; /* never taken with another one held */
    pthread_mutex_t lock;    /* of the list alone */
    struct rdma_event_channel *news;
    struct met *first;
    _Atomic int resumes, offers;
} meetings = {.opening = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the spans that were met ---- */

static void enter(struct met *met)
{
    pthread_mutex_lock(&meetings.lock);
    met->next = meetings.first;
    meetings.first = met;
    pthread_mutex_unlock(&meetings.lock);
}

static struct met *leave(const struct fs_span *span)
{
    pthread_mutex_lock(&meetings.lock);
    struct met **place = &meetings.first, *met;
    while (*place != NULL && (*place)->span != span) place = &(*place)->next;
    met = *place;
    if (met != NULL) *place = met->next;
    pthread_mutex_unlock(&meetings.lock);
    return met;
}

static void destroy(const struct fs_verbs_library *verbs, struct rdma_cm_id *id, struct fs_carrier *carrier)
{
    if (carrier != NULL) carrier->calls->close(carrier);
    verbs->rdma_destroy_id(id);
}

/* By the thread, once a span is over. */
static void ended(struct fs_span *span)
{
    int error = 0;
    const struct fs_verbs_library *verbs = fs_verbs_library(&error);
    struct met *met = leave(span);
    if (met == NULL) return;
    verbs->rdma_disconnect(met->id);
    destroy(verbs, met->id, span->carrier);
    span->carrier = NULL;
    free(met);
}

/* ---- a queue pair on an identifier ---- */

static int make_span(const struct fs_verbs_library *verbs, struct rdma_cm_id *id, int connecting, struct fs_span **made)
{
    struct fs_ring_memory memory;
    int error = 0;
    struct fs_span *span = fs_span_make(connecting, &error);
    if (span == NULL) return error;
    span->resumes = atomic_load(&meetings.resumes);
    memory.out = fs_span_out(span, &memory.out_bytes);
    memory.in = fs_span_in(span, &memory.in_bytes);
    span->offers = memory.offers = atomic_load(&meetings.offers);
    span->carrier = fs_queue_pair_make(verbs, id, &memory, &error);
    if (span->carrier == NULL) {
        fs_span_drop(span);
        return error;
    }
    *made = span;
    return 0;
}

static struct greeting greeting_of(const struct fs_span *span, const struct fs_key *source, uint64_t cookie)
{
    struct fs_window window = fs_queue_pair_window(span->carrier);
    struct greeting greeting = {.magic = htole32(MAGIC), .source_port = source->port, .cookie = cookie};
    memcpy(greeting.source, source->address, 16);
    if (span->resumes) greeting.wishes = htole16(WISHES_RESUME);
    greeting.window_address = htole64(window.address);
    greeting.window_key = htole32(window.key);
    greeting.window_bytes = htole32(window.bytes);
    return greeting;
}

/* 0, or -EPROTO: another version, or a window that no version has. */
static int heed_greeting(struct fs_span *span, const struct greeting *greeting)
{
    struct fs_window window = {le64toh(greeting->window_address), le32toh(greeting->window_key),
                               le32toh(greeting->window_bytes)};
    uint64_t size = window.bytes;
    if (le32toh(greeting->magic) != MAGIC || size < 65536 || size > 1u << 30 || (size & (size - 1)) != 0)
        return -EPROTO;
    fs_queue_pair_connected(span->carrier, &window);
    span->resumes = span->resumes && le16toh(greeting->wishes) & WISHES_RESUME;
    return 0;
}

static struct rdma_conn_param parameters_of(const struct greeting *greeting)
{
    return (struct rdma_conn_param){
        .private_data = greeting,
        .private_data_len = sizeof *greeting,
        .responder_resources = RDMA_MAX_RESP_RES, /* reads under way: as many as both devices have room for */
        .initiator_depth = RDMA_MAX_INIT_DEPTH,
        .retry_count = RETRIES,
        .rnr_retry_count = RETRIES,
    };
}

/* A device that loses a packet asks again, half a second later.  So a path that is cut for a second does not end the
 * connection: TCP's would go on. */
static void be_patient(const struct fs_verbs_library *verbs, struct rdma_cm_id *id)
{
    uint8_t timeout = ACK_TIMEOUT;
    verbs->rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout); /* iWARP: no */
}

/* ---- the thread's events ---- */

static unsigned offered(void)
{
    unsigned count = 0;
    pthread_mutex_lock(&meetings.lock);
    for (struct met *met = meetings.first; met != NULL; met = met->next)
        count += atomic_load(&met->span->state) == FS_SPAN_OFFERED;
    pthread_mutex_unlock(&meetings.lock);
    return count;
}

static void refuse(const struct fs_verbs_library *verbs, struct rdma_cm_id *id)
{
    verbs->rdma_reject(id, NULL, 0);
    verbs->rdma_destroy_id(id);
}

/* The address in the greeting must be the one from which the request came: nobody speaks for another host. */
static int is_its_own(struct rdma_cm_id *id, const struct fs_key *from)
{
    struct fs_key came = fs_key_of(&id->route.addr.dst_addr);
    return memcmp(came.address, from->address, 16) == 0;
}

static void heed_request(const struct fs_verbs_library *verbs, struct rdma_cm_id *id, const struct greeting *greeting)
{
    struct fs_span *span = NULL;
    struct met *met = calloc(1, sizeof *met);
    struct fs_key from = {.port = greeting->source_port};
    memcpy(from.address, greeting->source, 16);
    if (met == NULL || le32toh(greeting->magic) != MAGIC || !is_its_own(id, &from) || offered() >= MOST_OFFERED ||
        make_span(verbs, id, 0, &span) != 0) {
        free(met);
        refuse(verbs, id);
        return;
    }
    struct greeting answer = greeting_of(span, &from, greeting->cookie);
    struct rdma_conn_param parameters = parameters_of(&answer);
    *met = (struct met){span, id, from, NULL};
    id->context = span;
    be_patient(verbs, id);
    if (heed_greeting(span, greeting) != 0 || verbs->rdma_accept(id, &parameters) != 0 ||
        fs_agent_serve_here(span, ended) != 0) {
        destroy(verbs, id, span->carrier);
        span->carrier = NULL;
        fs_span_drop(span);
        free(met);
        return;
    }
    enter(met);
}

static void heed_event(const struct fs_verbs_library *verbs, struct rdma_cm_event *event)
{
    struct greeting greeting = {0};
    enum rdma_cm_event_type kind = event->event;
    struct rdma_cm_id *id = event->id;
    if (kind == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data_len >= sizeof greeting)
        memcpy(&greeting, event->param.conn.private_data, sizeof greeting);
    verbs->rdma_ack_cm_event(event);
    struct fs_span *span = id->context;
    switch (kind) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: heed_request(verbs, id, &greeting); break;
    case RDMA_CM_EVENT_DISCONNECTED: /* what arrived before is still taken off the queue */
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        if (span != NULL) span->disconnected = kind == RDMA_CM_EVENT_DISCONNECTED ? ECONNRESET : ENETDOWN;
        break;
    default: break;
    }
}

static void heed_news(void)
{
    int error = 0;
    struct rdma_cm_event *event;
    const struct fs_verbs_library *verbs = fs_verbs_library(&error);
    while (verbs != NULL && verbs->rdma_get_cm_event(meetings.news, &event) == 0) heed_event(verbs, event);
}

static int open_news(const struct fs_verbs_library *verbs)
{
    int error = fs_verbs_use();
    if (error != 0) return error;
    pthread_mutex_lock(&meetings.opening);
    if (meetings.news == NULL) {
        meetings.news = verbs->rdma_create_event_channel();
        error = meetings.news == NULL ? -errno : fs_agent_start();
        if (error == 0) {
            fcntl(meetings.news->fd, F_SETFL, fcntl(meetings.news->fd, F_GETFL) | O_NONBLOCK);
            fcntl(meetings.news->fd, F_SETFD, FD_CLOEXEC);
            error = fs_agent_watch(meetings.news->fd, heed_news);
        }
    }
    pthread_mutex_unlock(&meetings.opening);
    return error;
}

/* ---- listening ---- */

/* iWARP's ports are TCP's own: a server without fastsock would see a connection that it does not understand. */
static int is_iwarp(const struct rdma_cm_id *id)
{
    return id->verbs != NULL && id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
}

void fs_meeting_resume(int resumes) { atomic_store(&meetings.resumes, resumes); }
void fs_meeting_rendezvous(int offers) { atomic_store(&meetings.offers, offers); }

int fs_meeting_usable(void)
{
    int error = 0;
    fs_verbs_library(&error);
    return error == 0 && fs_verbs_is_inherited() ? -EPERM : error;
}

struct fs_meeting_listener *fs_meeting_listen(const struct sockaddr *at, int *error)
{
    const struct fs_verbs_library *verbs = fs_verbs_library(error);
    struct fs_meeting_listener *listener = verbs == NULL ? NULL : calloc(1, sizeof *listener);
    if (listener == NULL) return NULL;
    *error = open_news(verbs);
    if (*error == 0 && verbs->rdma_create_id(meetings.news, &listener->id, NULL, RDMA_PS_TCP) != 0) *error = -errno;
    if (*error == 0 && verbs->rdma_bind_addr(listener->id, (struct sockaddr *)(uintptr_t)at) != 0) *error = -errno;
    /* at any address of the host it would listen on all devices */
    if (*error == 0 && (is_iwarp(listener->id) || (listener->id->verbs == NULL && fs_verbs_any_is_iwarp(verbs))))
        *error = -EOPNOTSUPP;
    if (*error == 0 && verbs->rdma_listen(listener->id, BACKLOG) != 0) *error = -errno;
    if (*error == 0) return listener;
    if (listener->id != NULL) verbs->rdma_destroy_id(listener->id);
    free(listener);
    return NULL;
}

void fs_meeting_unlisten(struct fs_meeting_listener *listener)
{
    int error = 0;
    const struct fs_verbs_library *verbs = fs_verbs_library(&error);
    if (!fs_verbs_is_inherited()) verbs->rdma_destroy_id(listener->id);
    free(listener);
}

static int is_from(struct fs_span *span, const void *key)
{
    int found = 0;
    if (atomic_load(&span->state) != FS_SPAN_OFFERED) return 0;
    pthread_mutex_lock(&meetings.lock);
    for (struct met *met = meetings.first; met != NULL && !found; met = met->next)
        found = met->span == span && fs_same_key(&met->from, key);
    pthread_mutex_unlock(&meetings.lock);
    return found;
}

struct fs_span *fs_meeting_claim(const struct sockaddr *source)
{
    struct fs_key key = fs_key_of(source);
    if (fs_verbs_is_inherited()) return NULL;
    /* behind the agent's lock: its thread may be at the request that the other end has an answer to */
    struct fs_span *span = fs_agent_find(is_from, &key);
    if (span == NULL || fs_span_claim(span)) return span;
    fs_span_drop(span);
    return NULL;
}

/* ---- connecting ---- */

/* The next event of an identifier that has a channel of its own; NULL and -errno. */
static struct rdma_cm_event *next_event(const struct fs_verbs_library *verbs, struct rdma_event_channel *channel,
                                        uint64_t limit_ns, int *error)
{
    struct rdma_cm_event *event;
    for (;;) {
        if (verbs->rdma_get_cm_event(channel, &event) == 0) return event;
        if (errno != EAGAIN && errno != EINTR) break;
        uint64_t now = fs_now_ns();
        if (now >= limit_ns) {
            *error = -ETIMEDOUT;
            return NULL;
        }
        struct pollfd one = {channel->fd, POLLIN, 0};
        struct timespec left = {(time_t)((limit_ns - now) / 1000000000ull), (long)((limit_ns - now) % 1000000000ull)};
        ppoll(&one, 1, &left, NULL);
    }
    *error = -errno;
    return NULL;
}

static int error_of(const struct rdma_cm_event *event)
{
    switch (event->event) {
    case RDMA_CM_EVENT_REJECTED: return -ECONNREFUSED;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return event->status < 0 ? event->status : -ENODEV;
    case RDMA_CM_EVENT_UNREACHABLE: return -ETIMEDOUT;
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return -ENODEV;
    default: return -EIO;
    }
}

/* Waits for one kind of event.  0 or -errno; `greeting`: the other end's, if it is asked for. */
static int await(const struct fs_verbs_library *verbs, struct rdma_event_channel *channel, enum rdma_cm_event_type kind,
                 uint64_t limit_ns, struct greeting *greeting)
{
    int error = 0;
    struct rdma_cm_event *event = next_event(verbs, channel, limit_ns, &error);
    if (event == NULL) return error;
    if (event->event != kind) error = error_of(event);
    else if (greeting != NULL && event->param.conn.private_data_len < sizeof *greeting) error = -EPROTO;
    else if (greeting != NULL) memcpy(greeting, event->param.conn.private_data, sizeof *greeting);
    verbs->rdma_ack_cm_event(event);
    return error;
}

struct attempt {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct fs_span *span;
    uint64_t limit_ns;
};

static int milliseconds_until(uint64_t limit_ns)
{
    uint64_t now = fs_now_ns();
    return limit_ns > now ? (int)((limit_ns - now) / 1000000ull) + 1 : 0;
}

/* Where the other host's link address is not known yet, a kernel may look again only when the time given is over. */
static int resolve_address(const struct fs_verbs_library *verbs, struct attempt *attempt, const struct sockaddr *target)
{
    struct sockaddr *to = (struct sockaddr *)(uintptr_t)target;
    for (int left, error;;) {
        left = milliseconds_until(attempt->limit_ns);
        if (left == 0) return -ETIMEDOUT;
        /* without an address of our own: with one a kernel would not ask the network for the other's */
        if (verbs->rdma_resolve_addr(attempt->id, NULL, to, left < RESOLVING_MS ? left : RESOLVING_MS) != 0)
            return -errno;
        error = await(verbs, attempt->channel, RDMA_CM_EVENT_ADDR_RESOLVED, attempt->limit_ns, NULL);
        if (error != -ETIMEDOUT) return error;
    }
}

static int resolve(const struct fs_verbs_library *verbs, struct attempt *attempt, const struct sockaddr *source,
                   const struct sockaddr *target)
{
    int error = resolve_address(verbs, attempt, target);
    if (error != 0) return error;
    struct fs_key own = fs_key_of(&attempt->id->route.addr.src_addr), wanted = fs_key_of(source);
    if (attempt->id->verbs == NULL) return -ENODEV;
    if (memcmp(own.address, wanted.address, sizeof own.address) != 0) return -EADDRNOTAVAIL;
    if (is_iwarp(attempt->id)) return -EOPNOTSUPP;
    if (verbs->rdma_resolve_route(attempt->id, milliseconds_until(attempt->limit_ns) + 1) != 0) return -errno;
    return await(verbs, attempt->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, attempt->limit_ns, NULL);
}

static int connect_now(const struct fs_verbs_library *verbs, struct attempt *attempt, const struct sockaddr *source)
{
    struct fs_key key = fs_key_of(source);
    struct greeting other;
    uint64_t cookie = fs_now_ns() ^ (uint64_t)(uintptr_t)attempt->span << 20;
    int error = make_span(verbs, attempt->id, 1, &attempt->span);
    if (error != 0) return error;
    struct greeting greeting = greeting_of(attempt->span, &key, cookie);
    struct rdma_conn_param parameters = parameters_of(&greeting);
    be_patient(verbs, attempt->id);
    if (verbs->rdma_connect(attempt->id, &parameters) != 0) return -errno;
    error = await(verbs, attempt->channel, RDMA_CM_EVENT_ESTABLISHED, attempt->limit_ns, &other);
    if (error == 0 && other.cookie != cookie) error = -EPROTO;
    return error != 0 ? error : heed_greeting(attempt->span, &other);
}

/* From now on the thread hears the identifier's events and serves the span. */
static int hand_over(const struct fs_verbs_library *verbs, struct attempt *attempt, const struct sockaddr *source)
{
    struct met *met = calloc(1, sizeof *met);
    if (met == NULL) return -ENOMEM;
    *met = (struct met){attempt->span, attempt->id, fs_key_of(source), NULL};
    attempt->id->context = attempt->span;
    int error = verbs->rdma_migrate_id(attempt->id, meetings.news) != 0 ? -errno : 0;
    if (error != 0) {
        free(met);
        return error;
    }
    enter(met);
    fs_span_hold(attempt->span);
    error = fs_agent_serve(attempt->span, ended);
    if (error != 0) {
        free(leave(attempt->span));
        fs_span_drop(attempt->span);
    }
    return error;
}

struct fs_span *fs_meeting_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error)
{
    struct attempt attempt = {.limit_ns = fs_now_ns() + patience_ns};
    const struct fs_verbs_library *verbs = fs_verbs_library(error);
    if (verbs == NULL || (*error = open_news(verbs)) != 0) return NULL;
    attempt.channel = verbs->rdma_create_event_channel();
    if (attempt.channel == NULL) {
        *error = -errno;
        return NULL;
    }
    fcntl(attempt.channel->fd, F_SETFL, fcntl(attempt.channel->fd, F_GETFL) | O_NONBLOCK);
    if (verbs->rdma_create_id(attempt.channel, &attempt.id, NULL, RDMA_PS_TCP) != 0) *error = -errno;
    if (*error == 0) *error = resolve(verbs, &attempt, source, target);
    if (*error == 0) *error = connect_now(verbs, &attempt, source);
    if (*error == 0) *error = hand_over(verbs, &attempt, source);
    if (*error != 0) {
        if (attempt.id != NULL) destroy(verbs, attempt.id, attempt.span == NULL ? NULL : attempt.span->carrier);
        if (attempt.span != NULL) {
            attempt.span->carrier = NULL;
            fs_span_drop(attempt.span);
        }
        attempt.span = NULL;
    }
    verbs->rdma_destroy_event_channel(attempt.channel);
    return attempt.span;
}

uint32_t fs_meeting_withdraw(struct fs_span *span, uint64_t patience_ns)
{
    atomic_store(&span->withdrawing, 1);
    fs_agent_wake();
    uint32_t state = fs_span_await(span, fs_now_ns() + patience_ns);
    return state == FS_SPAN_WAITING ? FS_SPAN_BROKEN : state;
}

#else

void fs_meeting_resume(int resumes) { (void)resumes; }
void fs_meeting_rendezvous(int offers) { (void)offers; }

int fs_meeting_usable(void) { return fs_verbs_has_device() ? -ENOSYS : -ENODEV; }

struct fs_meeting_listener *fs_meeting_listen(const struct sockaddr *at, int *error)
{
    (void)at;
    *error = fs_meeting_usable();
    return NULL;
}

void fs_meeting_unlisten(struct fs_meeting_listener *listener) { (void)listener; }

struct fs_span *fs_meeting_offer(const struct sockaddr *source, const struct sockaddr *target, uint64_t patience_ns,
                                 int *error)
{
    (void)source, (void)target, (void)patience_ns;
    *error = fs_meeting_usable();
    return NULL;
}

struct fs_span *fs_meeting_claim(const struct sockaddr *source)
{
    (void)source;
    return NULL;
}

uint32_t fs_meeting_withdraw(struct fs_span *span, uint64_t patience_ns)
{
    (void)span, (void)patience_ns;
    return FS_SPAN_BROKEN;
}

#endif
