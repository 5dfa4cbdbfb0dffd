#define _GNU_SOURCE
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE (256u * 1024)
#define STALL_MS 20000

static const _Atomic int never_leaving;

/* ---- the connection ---- */

struct pair pair_make(uint32_t small_bytes)
{
    struct pair pair = {.limits = {20, 0, 0}};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pair.fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(pair.fd[1] >= 0);
    /* a fuzzer's alarm may come */
    CHECK(TEMP_FAILURE_RETRY(connect(pair.fd[1], (struct sockaddr *)&address, sizeof address)) == 0);
    pair.fd[0] = TEMP_FAILURE_RETRY(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    CHECK(pair.fd[0] >= 0);
    close(listener);
    for (int i = 0; i < OFFERS; i++) CHECK((pair.memory[i] = fs_segment_create(small_bytes)) >= 0);
    pair.meeting = mmap(NULL, sizeof *pair.meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pair.meeting != MAP_FAILED);
    return pair;
}

void pair_enter(struct pair *pair, int side)
{
    CHECK_EQUAL(fs_table_enter(pair->fd[side], side == 0 ? FS_ROLE_ACCEPTED : FS_ROLE_CONNECTED), 0);
    pair->end[side] = fs_table_find(pair->fd[side]);
    CHECK(pair->end[side] != NULL);
}

struct pair pair_both(uint32_t small_bytes)
{
    map_same_memory_once = 1;
    struct pair pair = pair_make(small_bytes);
    pair_enter(&pair, 0);
    pair_enter(&pair, 1);
    return pair;
}

struct pair pair_attached(uint32_t small_bytes)
{
    struct pair pair = pair_both(small_bytes);
    pair_attach(&pair);
    return pair;
}

void pair_forget(struct pair *pair, int side)
{
    close(pair->fd[side]);
    pair->fd[side] = -1;
}

void pair_close(struct pair *pair, int side)
{
    fs_leave_descriptor(pair->fd[side]);
    close(pair->fd[side]);
    pair->fd[side] = -1;
}

void pair_done(struct pair *pair)
{
    for (int i = 0; i < OFFERS; i++) close(pair->memory[i]);
    munmap(pair->meeting, sizeof *pair->meeting);
}

/* ---- attach, by hand ---- */

static struct fs_segment *map(const struct pair *pair, int number)
{
    int error = 0;
    struct fs_segment *segment = fs_segment_map(pair->memory[number], &error);
    CHECK_EQUAL(error, 0);
    return segment;
}

int pair_offer(struct pair *pair)
{
    int number = atomic_load(&pair->meeting->offered);
    if (number == OFFERS) return -EINVAL;
    struct fs_segment *segment = map(pair, number);
    int result = fs_attach_offer(pair->end[1], pair->fd[1], segment, &pair->limits);
    fs_segment_drop(segment);
    if (result == 0) atomic_store(&pair->meeting->offered, number + 1);
    return result;
}

int pair_join(struct pair *pair)
{
    int number = atomic_load(&pair->meeting->offered);
    if (number == 0) return -EAGAIN;
    struct fs_segment *segment = map(pair, number - 1);
    int result = fs_attach_join(pair->end[0], pair->fd[0], segment, &pair->limits);
    fs_segment_drop(segment);
    if (result == 0) atomic_store(&pair->meeting->joined, 1);
    return result;
}

void pair_attach(struct pair *pair)
{
    CHECK_EQUAL(pair_offer(pair), 0);
    CHECK_EQUAL(pair_join(pair), 0);
    CHECK_EQUAL(fs_attach_progress(pair->end[1], pair->fd[1]), 1);
}

/* Two threads of an end may come here at once. */
void pair_step(struct pair *pair, int side, struct random *random)
{
    static pthread_mutex_t one[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    if (random_below(random, 6) != 0 || atomic_load(&pair->meeting->joined)) return;
    if (pthread_mutex_trylock(&one[side]) != 0) return;
    uint32_t state = fs_record_state(pair->end[side]->record);
    if (side == 0 && state == FS_CANDIDATE) pair_join(pair);
    else if (side == 1 && state == FS_CANDIDATE) pair_offer(pair);
    else if (side == 1 && state == FS_OFFERED && atomic_load(&pair->meeting->offered) < OFFERS &&
             random_below(random, 8) == 0)
        fs_attach_withdraw(pair->end[1], pair->fd[1]);
    pthread_mutex_unlock(&one[side]);
}

/* ---- waiting ---- */

struct waiter waiter_make(struct pair *pair, int side, int what, enum style style)
{
    struct waiter waiter = {pair, side, what, -1, style, 0};
    if (style == BLOCKING) return waiter;
    if (what == FS_READABLE) fs_connection_watch(pair->end[side], pair->fd[side]);
    if (style != EPOLL && style != EPOLL_EDGE) return waiter;
    uint32_t events = what == FS_READABLE ? EPOLLIN | EPOLLRDHUP : EPOLLOUT;
    struct epoll_event event = {.events = events | (style == EPOLL_EDGE ? EPOLLET : 0)};
    waiter.epoll = epoll_create1(EPOLL_CLOEXEC);
    CHECK(waiter.epoll >= 0 && epoll_ctl(waiter.epoll, EPOLL_CTL_ADD, pair->fd[side], &event) == 0);
    return waiter;
}

void waiter_drop(struct waiter *waiter)
{
    if (waiter->epoll >= 0) close(waiter->epoll);
}

static void show(const struct pair *pair, int side)
{
    struct fs_carriers carriers;
    struct fs_connection *connection = pair->end[side];
    fs_connection_report(connection, pair->fd[side], &carriers);
    struct fs_end *end = connection->end;
    struct fs_record *record = connection->record;
    fprintf(stderr, "side %d: state %d, tcp %lu in %lu out, ring %lu in %lu out, switches %lu spills %lu\n", side,
            carriers.state, carriers.tcp_in, carriers.tcp_out, carriers.ring_in, carriers.ring_out, carriers.switches,
            carriers.spills);
    for (int d = 0; end != NULL && d < 2; d++) {
        struct fs_switch_words *words = &end->header->words[d];
        struct fs_direction *direction = &end->header->direction[d];
        fprintf(stderr, "  %s: seq %u rseq %u x %lu y %lu tokens %lu rx_in %u release %u head %lu tail %lu\n",
                d == end->side ? "out" : "in", words->seq, words->rseq, words->x, words->y, words->tokens, words->rx_in,
                words->release, direction->head, direction->tail);
    }
    fprintf(stderr, "  out_ring %u out_seq %u pinned %u owed %u rseq %u inside %lu %lu locks %lx %lx\n",
            record->out_ring, record->out_seq, record->out_pinned, record->owed, record->rseq, record->sent & 0xffff,
            record->received & 0xffff, record->sender, record->receiver);
}

static void stalled(struct waiter *waiter)
{
    show(waiter->pair, waiter->side);
    int there = -1;
    if (waiter->pair->fd[!waiter->side] >= 0 && waiter->pair->end[!waiter->side] != NULL)
        show(waiter->pair, !waiter->side);
    ssize_t look = recv(waiter->pair->fd[waiter->side], &there, 1, MSG_PEEK | MSG_DONTWAIT);
    fail(__FILE__, __LINE__, "stalled waiting to %s, style %d, side %d; TCP shows %zd",
         waiter->what == FS_READABLE ? "read" : "write", waiter->style, waiter->side, look);
}

static void wait_blocking(struct waiter *waiter)
{
    struct fs_connection *end = waiter->pair->end[waiter->side];
    int fd = waiter->pair->fd[waiter->side];
    if (fs_carry_look(end, fd, waiter->what)) return;
    uint64_t deadline = fs_now_ns() + STALL_NS;
    int result = fs_carry_wait_briefly(end, fd, waiter->what, deadline, &never_leaving);
    if (result == FS_IN_VAIN) result = fs_carry_wait_long(end, fd, waiter->what, deadline, &never_leaving);
    if (result == -ETIMEDOUT) stalled(waiter);
    CHECK(result == 0 || result == -EINTR || result == -EBADF);
}

void waiter_wait(struct waiter *waiter)
{
    int fd = waiter->pair->fd[waiter->side], count = 0, reads = waiter->what == FS_READABLE;
    struct pollfd one = {fd, reads ? POLLIN : POLLOUT, 0};
    struct timeval limit = {STALL_MS / 1000, 0};
    struct epoll_event event;
    fd_set set;
    switch (waiter->style) {
    case BLOCKING: wait_blocking(waiter); return;
    case POLL: count = poll(&one, 1, STALL_MS); break;
    case SELECT:
        FD_ZERO(&set);
        FD_SET(fd, &set);
        count = select(fd + 1, reads ? &set : NULL, reads ? NULL : &set, NULL, &limit);
        break;
    default:
        count = epoll_wait(waiter->epoll, &event, 1, STALL_MS);
        if (count > 0) waiter->shown = event.events;
        break;
    }
    if (count == 0) stalled(waiter);
    CHECK(count > 0 || errno == EINTR);
}

/* ---- calls ---- */

ssize_t pair_send(struct pair *pair, struct waiter *waiter, const void *data, size_t length, int kernel_flags)
{
    int flags = FS_NO_SIGNAL | (waiter->style == BLOCKING ? FS_PATIENT | FS_MAY_SLEEP : 0);
    if (waiter->style != BLOCKING) kernel_flags |= MSG_DONTWAIT;
    for (;;) {
        struct iovec part = {(void *)data, length};
        struct fs_parts parts = fs_parts_of(&part, 1);
        ssize_t sent = fs_carry_send(pair->end[waiter->side], pair->fd[waiter->side], &parts, flags, kernel_flags);
        if (sent != -EAGAIN) return sent;
        waiter_wait(waiter);
    }
}

ssize_t pair_receive(struct pair *pair, struct waiter *waiter, void *target, size_t length, int kernel_flags)
{
    int flags = waiter->style == BLOCKING ? FS_MAY_SLEEP | FS_WILL_WAIT : 0;
    if (waiter->style != BLOCKING) kernel_flags |= MSG_DONTWAIT;
    for (;;) {
        ssize_t got =
            fs_carry_receive(pair->end[waiter->side], pair->fd[waiter->side], target, length, flags, kernel_flags);
        if (got != -EAGAIN) return got;
        waiter_wait(waiter);
    }
}

ssize_t send_now(struct pair *pair, int side, const void *data, size_t length, int flags)
{
    struct iovec part = {(void *)data, length};
    struct fs_parts parts = fs_parts_of(&part, 1);
    return fs_carry_send(pair->end[side], pair->fd[side], &parts, flags | FS_NO_SIGNAL, MSG_DONTWAIT);
}

ssize_t receive_now(struct pair *pair, int side, void *target, size_t length, int flags)
{
    return fs_carry_receive(pair->end[side], pair->fd[side], target, length, flags, MSG_DONTWAIT);
}

void expect_bytes(struct pair *pair, int side, const char *text)
{
    char got[256];
    size_t length = strlen(text), done = 0;
    struct waiter waiter = {pair, side, FS_READABLE, -1, BLOCKING, 0};
    while (done < length) {
        ssize_t part = pair_receive(pair, &waiter, got + done, sizeof got - done, 0);
        CHECK(part > 0);
        done += (size_t)part;
    }
    CHECK_EQUAL(done, length);
    CHECK(memcmp(got, text, length) == 0);
    CHECK_EQUAL(receive_now(pair, side, got, 1, 0), -EAGAIN);
}

struct pair pair_by_ring(uint32_t small_bytes)
{
    struct pair pair = pair_attached(small_bytes);
    for (int side = 0; side < 2; side++) {
        CHECK_EQUAL(send_now(&pair, side, "1", 1, 0), 1);
        expect_bytes(&pair, !side, "1");
    }
    return pair;
}

/* ---- streams ---- */

void *traffic_send(void *argument)
{
    struct traffic *traffic = argument;
    struct random random = random_from(traffic->salt);
    struct waiter waiter = waiter_make(traffic->pair, traffic->side, FS_WRITABLE, traffic->style);
    unsigned char *piece = malloc(PIECE);
    CHECK(piece != NULL);
    uint64_t position = 0;
    while (position < traffic->total) {
        size_t size = random_size(&random, traffic->largest < PIECE ? traffic->largest : PIECE), done = 0;
        if (size > traffic->total - position) size = (size_t)(traffic->total - position);
        stream_fill(traffic->stream, position, piece, size);
        while (done < size) {
            if (traffic->steps) pair_step(traffic->pair, traffic->side, &random);
            ssize_t sent = pair_send(traffic->pair, &waiter, piece + done, size - done, 0);
            if (sent < 0) traffic->error = (int)sent;
            if (sent < 0) goto end;
            done += (size_t)sent;
            if (waiter.style == EPOLL_EDGE && done < size) waiter_wait(&waiter); /* short: there was no room */
        }
        position += size;
    }
end:
    traffic->total = position;
    waiter_drop(&waiter);
    free(piece);
    return NULL;
}

void *traffic_receive(void *argument)
{
    struct traffic *traffic = argument;
    struct random random = random_from(traffic->salt);
    struct waiter waiter = waiter_make(traffic->pair, traffic->side, FS_READABLE, traffic->style);
    unsigned char *piece = malloc(PIECE);
    uint64_t position = 0;
    CHECK(piece != NULL);
    while (position < traffic->total) {
        size_t size = random_size(&random, traffic->largest < PIECE ? traffic->largest : PIECE);
        if (size > traffic->total - position) size = (size_t)(traffic->total - position);
        if (traffic->steps) pair_step(traffic->pair, traffic->side, &random);
        ssize_t got = pair_receive(traffic->pair, &waiter, piece, size, 0);
        if (got <= 0) traffic->error = (int)got;
        if (got <= 0 && traffic->total == UINT64_MAX) break;
        if (got <= 0) fail(__FILE__, __LINE__, "%zd at byte %lu", got, position);
        stream_check(traffic->stream, position, piece, (size_t)got);
        position += (uint64_t)got;
        /* less than asked for: whoever is told of edges alone relies on another one, but for the end */
        if (waiter.style == EPOLL_EDGE && !(waiter.shown & EPOLLRDHUP) && (size_t)got < size &&
            position < traffic->total)
            waiter_wait(&waiter);
    }
    traffic->total = position;
    waiter_drop(&waiter);
    free(piece);
    return NULL;
}
