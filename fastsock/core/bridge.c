/* A pump between the ring and an ordinary socket, for code that must have a descriptor which carries the bytes
 * while unread ones still lie in the ring.  Half-closes pass through both ways. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "end.h"
#include "system.h"

#define BUFFER (128u * 1024)

struct bridge {
    struct fs_end *end;
    int doorbell, inner;
    ino_t doorbell_file, inner_file;
    _Atomic int users;
};

static const _Atomic int never_leaving;

/* A program that closes every number may use ours for files of its own, which no payload may reach. */
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
            int waited = fs_end_wait(bridge->end, bridge->doorbell, FS_WRITABLE, UINT64_MAX, &never_leaving);
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
    int doorbell = ours_or_none(bridge->doorbell, bridge->doorbell_file);
    int inner = ours_or_none(bridge->inner, bridge->inner_file);
    fs_end_closing(bridge->end, doorbell, 0);
    if (doorbell >= 0) close(doorbell);
    fs_end_closed(bridge->end);
    if (inner >= 0) close(inner);
    fs_end_free(bridge->end);
    free(bridge);
}

static int is_closed(int inner)
{
    struct pollfd one = {inner, 0, 0};
    return inner < 0 || (poll(&one, 1, 0) > 0 && (one.revents & (POLLHUP | POLLERR)) != 0);
}

static void *pump_outwards(void *argument)
{
    struct bridge *bridge = argument;
    char *buffer = malloc(BUFFER);
    int unread_lost = 0;
    for (;;) {
        ssize_t got = buffer && is_whole(bridge) ? recv(bridge->inner, buffer, BUFFER, 0) : 0;
        if (got < 0 && errno == EINTR) continue;
        unread_lost = got < 0 && errno == ECONNRESET;
        if (got <= 0 || send_all(bridge, buffer, (size_t)got) != 0) break;
    }
    int inner = ours_or_none(bridge->inner, bridge->inner_file);
    int doorbell = ours_or_none(bridge->doorbell, bridge->doorbell_file);
    int closed = is_closed(inner);
    shutdown(inner, SHUT_RD); /* whoever is blocked in sending must hear that nobody takes it any more */
    if (unread_lost) { /* as TCP: no orderly end, but a reset */
        fs_end_leaves(bridge->end, FS_BY_RESET);
        shutdown(doorbell, SHUT_RDWR);
        fs_end_wake(bridge->end);
    } else {
        fs_end_shutdown(bridge->end, doorbell, closed ? SHUT_RDWR : SHUT_WR);
    }
    free(buffer);
    leave(bridge);
    return NULL;
}

static void *pump_inwards(void *argument)
{
    struct bridge *bridge = argument;
    char *buffer = malloc(BUFFER);
    int error = buffer ? 0 : -ENOMEM, look = 0;
    while (error == 0) {
        ssize_t got = is_whole(bridge) ? fs_end_receive(bridge->end, bridge->doorbell, buffer, BUFFER, 0, look) : -EBADF;
        if (got == -EAGAIN) {
            int waited = fs_end_wait(bridge->end, bridge->doorbell, FS_READABLE, UINT64_MAX, &never_leaving);
            error = waited == -EINTR ? 0 : waited;
            look = 1;
        } else if (got > 0) {
            error = write_all(bridge, buffer, (size_t)got);
            int inner = ours_or_none(bridge->inner, bridge->inner_file);
            if (error == -EPIPE && !is_closed(inner)) error = 0; /* nobody will read it, and nobody left */
            else if (error != 0) fs_end_leaves(bridge->end, FS_BY_RESET);
        } else {
            error = got < 0 ? (int)got : -ENODATA;
        }
    }
    /* an orderly end passes on as one; anything else ends both ways, so that nobody waits for what cannot come */
    shutdown(ours_or_none(bridge->inner, bridge->inner_file), error == -ENODATA ? SHUT_WR : SHUT_RDWR);
    free(buffer);
    leave(bridge);
    return NULL;
}

static struct bridge *make(struct fs_end *end, int doorbell, int inner)
{
    struct bridge *bridge = malloc(sizeof *bridge);
    if (bridge == NULL) return NULL;
    *bridge = (struct bridge){fs_end_hold(end), doorbell, inner, file_of(doorbell), file_of(inner), 2};
    fs_end_leaves(end, FS_BY_RESET_UNLESS_SHUT);
    return bridge;
}

/* What is unread already must be there at once, for callers that do not wait. */
static void preload(struct fs_end *end, int doorbell, int inner)
{
    char *buffer = malloc(BUFFER);
    while (buffer != NULL) {
        ssize_t there = fs_end_receive(end, doorbell, buffer, BUFFER, FS_PEEK, 0);
        ssize_t taken = there > 0 ? send(inner, buffer, (size_t)there, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (taken <= 0 || fs_end_receive(end, doorbell, buffer, (size_t)taken, 0, 0) != taken) break;
    }
    free(buffer);
}

int fs_bridge_start(struct fs_end *end, int doorbell, int inner)
{
    struct bridge *bridge = make(end, doorbell, inner);
    pthread_t thread;
    if (bridge == NULL) return -ENOMEM;
    preload(end, doorbell, inner);
    int error = fs_start_thread(&thread, pump_outwards, bridge);
    if (error != 0) {
        fs_end_free(end);
        free(bridge);
        return error;
    }
    pthread_detach(thread);
    error = fs_start_thread(&thread, pump_inwards, bridge);
    if (error != 0) { /* half a bridge would hang its users: end both ways */
        shutdown(inner, SHUT_RDWR);
        leave(bridge);
        return 0;
    }
    pthread_detach(thread);
    return 0;
}

void fs_bridge_run(struct fs_end *end, int doorbell, int inner)
{
    struct bridge *bridge = make(end, doorbell, inner);
    pthread_t thread;
    if (bridge == NULL || fs_start_thread(&thread, pump_outwards, bridge) != 0) return;
    pump_inwards(bridge);
    pthread_join(thread, NULL);
}

/* Everything but the two ends of the bridge: above all the copies of the descriptor that the bridge serves, whose
 * last close must reach it. */
static void close_all_but(int first, int second)
{
    int low = first < second ? first : second, high = first < second ? second : first;
    if (low > 0) syscall(SYS_close_range, 0, low - 1, 0);
    if (high > low + 1) syscall(SYS_close_range, low + 1, high - 1, 0);
    syscall(SYS_close_range, high + 1, ~0u, 0);
}

int fs_bridge_fork(struct fs_end *end, int doorbell, int inner)
{
    preload(end, doorbell, inner);
    pid_t child = fork();
    if (child < 0) return -errno;
    if (child == 0) { /* twice, so that nobody has to wait for it */
        if (fork() == 0) {
            setsid();
            close_all_but(doorbell, inner);
            fs_bridge_run(end, doorbell, inner);
        }
        _exit(0);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    close(doorbell);
    close(inner);
    return 0;
}
