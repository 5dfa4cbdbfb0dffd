#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "switch/answering.h"

#define PIECE (1u << 20)

static const _Atomic int never_leaving;

struct connection connection_make(uint32_t small_bytes)
{
    struct connection connection = {.memory = fs_segment_create(small_bytes)};
    CHECK(connection.memory >= 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, connection.bell) == 0);
    for (int side = 0; side < 2; side++) CHECK_EQUAL(fs_doorbell_prepare(connection.bell[side]), 0);
    return connection;
}

void connection_open(struct connection *connection, int side, double spin_us)
{
    struct fs_limits limits = {spin_us, connection->direct_min, connection->holder[!side]};
    int error = 0;
    connection->end[side] = fs_end_open(connection->memory, side, &limits, &error);
    CHECK_EQUAL(error, 0);
}

struct connection connection_both(uint32_t small_bytes, double spin_us)
{
    map_same_memory_once = 1;
    struct connection connection = connection_make(small_bytes);
    for (int side = 0; side < 2; side++) connection_open(&connection, side, spin_us);
    return connection;
}

void connection_close(struct connection *connection, int side)
{
    struct fs_end *end = connection->end[side];
    fs_end_closing(end, connection->bell[side], 0);
    close(connection->bell[side]);
    fs_end_closed(end);
    fs_end_free(end);
    connection->end[side] = NULL;
    if (connection->end[!side] == NULL) close(connection->memory);
}

void connection_forget(struct connection *connection, int side)
{
    if (connection->end[side] != NULL) fs_end_free(connection->end[side]);
    connection->end[side] = NULL;
    close(connection->bell[side]);
}

static uint64_t stream_word(uint64_t stream, uint64_t index)
{
    uint64_t x = (index + 1) * 0x9E3779B97F4A7C15ull + stream * 0xBF58476D1CE4E5B9ull;
    return x ^ x >> 29;
}

void stream_fill(uint64_t stream, uint64_t position, unsigned char *target, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint64_t word = stream_word(stream, (position + i) / 8);
        size_t offset = (position + i) % 8, part = 8 - offset < length - i ? 8 - offset : length - i;
        memcpy(target + i, (unsigned char *)&word + offset, part);
        i += part;
    }
}

void stream_check(uint64_t stream, uint64_t position, const unsigned char *source, size_t length)
{
    for (size_t i = 0; i < length;) {
        uint64_t word = stream_word(stream, (position + i) / 8);
        size_t offset = (position + i) % 8, part = 8 - offset < length - i ? 8 - offset : length - i;
        if (memcmp(source + i, (unsigned char *)&word + offset, part) != 0)
            fail(__FILE__, __LINE__, "stream %llu is wrong at byte %llu", (unsigned long long)stream,
                 (unsigned long long)(position + i));
        i += part;
    }
}

void wait_for(struct fs_end *end, int bell, int what)
{
    int result = fs_end_wait(end, bell, what, fs_now_ns() + STALL_NS, &never_leaving);
    if (result == -ETIMEDOUT)
        fail(__FILE__, __LINE__, "stalled waiting to %s: %zd unread, %zd room", what == FS_READABLE ? "read" : "write",
             fs_ring_unread(&end->in), fs_ring_room(&end->out));
    CHECK(result == 0 || result == -EINTR);
}

ssize_t send_some(struct fs_end *end, int bell, const void *data, size_t length)
{
    for (;;) {
        ssize_t result = fs_end_send(end, bell, data, length, FS_PATIENT | FS_NO_SIGNAL);
        if (result != -EAGAIN) return result;
        wait_for(end, bell, FS_WRITABLE);
    }
}

ssize_t send_everything(struct fs_end *end, int bell, const void *data, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t result = send_some(end, bell, (const char *)data + done, length - done);
        if (result < 0) return result;
        done += (size_t)result;
    }
    return (ssize_t)done;
}

ssize_t receive_some(struct fs_end *end, int bell, void *target, size_t length)
{
    for (int look = 0;; look = 1) {
        ssize_t result = fs_end_receive(end, bell, target, length, 0, look);
        if (result != -EAGAIN) return result;
        wait_for(end, bell, FS_READABLE);
    }
}

void *flow_send(void *argument)
{
    struct flow *flow = argument;
    struct random random = random_from(flow->salt);
    unsigned char *piece = malloc(PIECE);
    CHECK(piece != NULL);
    for (uint64_t position = 0; position < flow->total;) {
        size_t size = random_size(&random, flow->largest < PIECE ? flow->largest : PIECE);
        if (size > flow->total - position) size = (size_t)(flow->total - position);
        stream_fill(flow->stream, position, piece, size);
        ssize_t sent = send_everything(flow->end, flow->bell, piece, size);
        CHECK_EQUAL(sent, size);
        position += size;
    }
    free(piece);
    return NULL;
}

void *flow_receive(void *argument)
{
    struct flow *flow = argument;
    struct random random = random_from(flow->salt);
    unsigned char *piece = malloc(PIECE);
    uint64_t position = 0;
    CHECK(piece != NULL);
    while (position < flow->total) {
        size_t size = random_size(&random, flow->largest < PIECE ? flow->largest : PIECE);
        if (size > flow->total - position) size = (size_t)(flow->total - position);
        ssize_t got = receive_some(flow->end, flow->bell, piece, size);
        if (got <= 0 && flow->total == UINT64_MAX) break;
        CHECK(got > 0);
        stream_check(flow->stream, position, piece, (size_t)got);
        position += (uint64_t)got;
    }
    flow->total = position;
    free(piece);
    return NULL;
}

pthread_t start_thread(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    CHECK_EQUAL(pthread_create(&thread, NULL, body, argument), 0);
    return thread;
}

void join_thread(pthread_t thread) { CHECK_EQUAL(pthread_join(thread, NULL), 0); }

pid_t start_process(void)
{
    fs_answering_rest(); /* as the bindings do: a sanitizer's own locks may be a thread's at the fork */
    pid_t process = fork();
    CHECK(process >= 0);
    if (process != 0) fs_answering_go_on();
    return process;
}

void join_process(pid_t process)
{
    int status = -1;
    CHECK_EQUAL(waitpid(process, &status, 0), process);
    if (WIFSIGNALED(status)) fail(__FILE__, __LINE__, "the other process died of signal %d", WTERMSIG(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

void exact_sleep_us(uint64_t microseconds)
{
    struct timespec time = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    nanosleep(&time, NULL);
}
