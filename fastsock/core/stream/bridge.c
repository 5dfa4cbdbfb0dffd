/* A pump between the ring and an ordinary socket, for code that must have a descriptor which carries the bytes
 * while unread ones still lie in the ring.  Half-closes pass through both ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "end.h"
#include "orphan.h"
#include "system.h"

#define BUFFER (128u * 1024)
#define GATE_SLICE_NS 100000000ull
#define LOOKING_NS 50000000ull

enum { CLOSED, OPEN, NEVER }; /* the gate before the pumps: none begins unless both can */

enum { IDLE, BUSY };

struct bridge {
    struct fs_end *end;
    int doorbell, inner;
    ino_t doorbell_file, inner_file;
    _Atomic int users;
    _Atomic uint32_t gate;
    _Atomic int carrying; /* inwards: IDLE, or what was taken out of the ring is not in `inner` yet */
    _Atomic int refused;  /* the inner end was closed before it took what came in: a reset, as soon as that is needed */
    char outwards[BUFFER], inwards[BUFFER];
};

static const _Atomic int never_leaving;

/* A program that closes every number may use these for files of its own.  No payload may reach those. */
static int is_ours(int descriptor, ino_t file)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == file;
}

static int ours_or_none(int descriptor, ino_t file) { return is_ours(descriptor, file) ? descriptor : -1; }

static int is_whole(const struct bridge *bridge)
{
    return is_ours(bridge->doorbell, bridge->doorbell_file) && is_ours(bridge->inner, bridge->inner_file);
}

static ino_t file_of(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

static int send_all(struct bridge *bridge, const char *data, size_t length)
{
    while (length > 0) {
        if (!is_whole(bridge)) return -EBADF;
        ssize_t sent = fs_end_send(bridge->end, bridge->doorbell, data, length, FS_PATIENT | FS_NO_SIGNAL);
        if (sent == -EAGAIN) {
            /* the other end may be waiting for us to take what nobody takes any more: each for the other, for ever */
            int waited = fs_end_wait(bridge->end, bridge->doorbell, FS_WRITABLE, UINT64_MAX, &bridge->refused);
            if (waited != 0 && waited != -EINTR) return waited;
        } else if (sent < 0) {
            return (int)sent;
        } else {
            data += sent, length -= (size_t)sent;
        }
    }
    return 0;
}

static int write_all(struct bridge *bridge, const char *data, size_t length)
{
    while (length > 0) {
        if (!is_whole(bridge)) return -EBADF;
        ssize_t sent = send(bridge->inner, data, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) return -errno;
        if (sent > 0) data += sent, length -= (size_t)sent;
    }
    return 0;
}

static void leave(struct bridge *bridge)
{
    if (atomic_fetch_sub(&bridge->users, 1) != 1) return;
    if (atomic_load(&bridge->gate) == OPEN) {
        int doorbell = ours_or_none(bridge->doorbell, bridge->doorbell_file);
        int inner = ours_or_none(bridge->inner, bridge->inner_file);
        fs_end_closing(bridge->end, doorbell, 0);
        if (doorbell >= 0) close(doorbell);
        fs_end_closed(bridge->end);
        if (inner >= 0) close(inner);
    }
    fs_end_free(bridge->end);
    free(bridge);
}

static int is_closed(int inner)
{
    struct pollfd one = {inner, 0, 0};
    return inner < 0 || (poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR)) != 0);
}

static void set_gate(struct bridge *bridge, uint32_t state)
{
    atomic_store(&bridge->gate, state);
    fs_futex_wake_all(&bridge->gate);
}

/* What is carried, and how it ends, is the pumps' business from now on. */
static void open_gate(struct bridge *bridge)
{
    fs_end_leaves(bridge->end, FS_BY_RESET_UNLESS_SHUT);
    bridge->end->abrupt = 1;
    set_gate(bridge, OPEN);
}

static int may_begin(struct bridge *bridge)
{
    uint32_t state;
    while ((state = atomic_load(&bridge->gate)) == CLOSED) fs_futex_wait(&bridge->gate, CLOSED, GATE_SLICE_NS);
    return state == OPEN;
}

/* Nobody reads `inner` any more: whether something that came in is left. */
static int inwards_lost(struct bridge *bridge)
{
    /* the other pump looks into the ring, or is told by `inner` that nobody is there, and then stays busy */
    for (uint64_t limit = fs_now_ns() + LOOKING_NS; atomic_load(&bridge->carrying) == BUSY && fs_now_ns() < limit;)
        sched_yield();
    return atomic_load(&bridge->carrying) == BUSY || fs_ring_unread(&bridge->end->in) > 0;
}

static void carry_outwards(struct bridge *bridge)
{
    int lost = 0; /* there is more than was carried, or something was not read */
    for (;;) {
        ssize_t got = is_whole(bridge) ? recv(bridge->inner, bridge->outwards, BUFFER, 0) : 0;
        if (got < 0 && errno == EINTR) continue;
        lost = got < 0 && errno == ECONNRESET;
        if (got <= 0) break;
        int error = send_all(bridge, bridge->outwards, (size_t)got);
        lost = error == -EBADF && atomic_load(&bridge->refused);
        if (error != 0) break;
    }
    int inner = ours_or_none(bridge->inner, bridge->inner_file);
    int doorbell = ours_or_none(bridge->doorbell, bridge->doorbell_file);
    int closed = is_closed(inner);
    if (closed && inwards_lost(bridge)) lost = 1;
    shutdown(inner, SHUT_RD); /* whoever is blocked in sending must hear that nobody takes it any more */
    if (lost) {               /* as TCP: no orderly end, but a reset */
        fs_end_leaves(bridge->end, FS_BY_RESET);
        shutdown(doorbell, SHUT_RDWR);
        fs_end_wake(bridge->end);
    } else {
        fs_end_shutdown(bridge->end, doorbell, closed ? SHUT_RDWR : SHUT_WR);
    }
}

/* What was sent before is still carried as far as the other end takes it: it lies in its buffers, where TCP's would. */
static void refuse(struct bridge *bridge)
{
    fs_end_leaves(bridge->end, FS_BY_RESET);
    atomic_store(&bridge->refused, 1);
    fs_end_wake(bridge->end);
}

static void carry_inwards(struct bridge *bridge)
{
    int error = 0, look = 0;
    char *buffer = bridge->inwards;
    while (error == 0) {
        atomic_store(&bridge->carrying, BUSY);
        ssize_t got =
            is_whole(bridge) ? fs_end_receive(bridge->end, bridge->doorbell, buffer, BUFFER, 0, look) : -EBADF;
        if (got <= 0) atomic_store(&bridge->carrying, IDLE);
        if (got == -EAGAIN) {
            int waited = fs_end_wait(bridge->end, bridge->doorbell, FS_READABLE, UINT64_MAX, &never_leaving);
            error = waited == -EINTR ? 0 : waited;
            look = 1;
        } else if (got > 0) {
            error = write_all(bridge, buffer, (size_t)got);
            int inner = ours_or_none(bridge->inner, bridge->inner_file);
            if (error == -EPIPE && !is_closed(inner)) error = 0; /* nobody will read it, and nobody left */
            else if (error != 0) refuse(bridge);
            if (error == 0) atomic_store(&bridge->carrying, IDLE);
        } else {
            error = got < 0 ? (int)got : -ENODATA;
        }
    }
    /* an orderly end passes on as one; anything else ends both ways, so that nobody waits for what cannot come */
    shutdown(ours_or_none(bridge->inner, bridge->inner_file), error == -ENODATA ? SHUT_WR : SHUT_RDWR);
}

static void *pump_outwards(void *argument)
{
    struct bridge *bridge = argument;
    if (may_begin(bridge)) carry_outwards(bridge);
    leave(bridge);
    return NULL;
}

static void *pump_inwards(void *argument)
{
    struct bridge *bridge = argument;
    if (may_begin(bridge)) carry_inwards(bridge);
    leave(bridge);
    return NULL;
}

static struct bridge *make(struct fs_end *end, int doorbell, int inner)
{
    struct bridge *bridge = malloc(sizeof *bridge);
    if (bridge == NULL) return NULL;
    bridge->end = fs_end_hold(end);
    bridge->doorbell = doorbell;
    bridge->inner = inner;
    bridge->doorbell_file = file_of(doorbell);
    bridge->inner_file = file_of(inner);
    atomic_init(&bridge->users, 2);
    atomic_init(&bridge->gate, CLOSED);
    atomic_init(&bridge->carrying, IDLE);
    atomic_init(&bridge->refused, 0);
    return bridge;
}

/* With its outward pump: that waits at the gate.  NULL with `error`: nothing was moved. */
static struct bridge *prepare(struct fs_end *end, int doorbell, int inner, pthread_t *thread, int *error)
{
    struct bridge *bridge = make(end, doorbell, inner);
    *error = bridge == NULL ? -ENOMEM : fs_start_thread(thread, pump_outwards, bridge);
    if (*error == 0) return bridge;
    if (bridge != NULL) fs_end_free(end);
    free(bridge);
    return NULL;
}

/* What is unread already must be there at once, for callers that do not wait. */
static void preload(struct bridge *bridge)
{
    for (;;) {
        ssize_t there = fs_end_receive(bridge->end, bridge->doorbell, bridge->inwards, BUFFER, FS_PEEK, 0);
        ssize_t taken =
            there > 0 ? send(bridge->inner, bridge->inwards, (size_t)there, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (taken <= 0) break;
        if (fs_end_receive(bridge->end, bridge->doorbell, bridge->inwards, (size_t)taken, 0, 0) != taken) break;
    }
}

int fs_bridge_start(struct fs_end *end, int doorbell, int inner)
{
    int error;
    pthread_t thread;
    struct bridge *bridge = prepare(end, doorbell, inner, &thread, &error);
    if (bridge == NULL) return error;
    pthread_detach(thread);
    error = fs_start_thread(&thread, pump_inwards, bridge);
    if (error != 0) {
        set_gate(bridge, NEVER);
        leave(bridge);
        return error;
    }
    pthread_detach(thread);
    preload(bridge);
    open_gate(bridge);
    return 0;
}

/* ---- in a process of its own ---- */

struct bridged {
    struct fs_end *end;
    int doorbell, inner;
};

static _Noreturn void be_bridge(void *given, int answers)
{
    const struct bridged *own = given;
    int error;
    pthread_t thread;
    fs_ends_leave(own->end);
    setsid();
    fs_close_all_but((const int[]){own->doorbell, own->inner, answers}, 3);
    struct bridge *bridge = prepare(own->end, own->doorbell, own->inner, &thread, &error);
    if (bridge != NULL) preload(bridge);
    fs_orphan_answer(answers, error);
    if (bridge != NULL) {
        open_gate(bridge);
        pump_inwards(bridge);
        pthread_join(thread, NULL);
    } else {
        fs_end_is_last(own->end);
    }
    _exit(0);
}

static void let_go(int is_alone)
{
    if (is_alone) fs_ends_leave(NULL); /* each was counted for the bridge, too */
    fs_ends_leave(NULL);
}

int fs_bridge_fork(struct fs_end *end, int doorbell, int inner)
{
    int error = fs_orphan_start(be_bridge, &(struct bridged){end, doorbell, inner}, let_go);
    if (error != 0) return error;
    fs_end_is_last(end); /* the bridge is */
    close(doorbell);
    close(inner);
    return 0;
}
