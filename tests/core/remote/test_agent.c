/* The process's thread that serves spans, beside threads of the program that look for news themselves. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "remote/agent.h"

#define MILLISECOND_NS 1000000ull
#define WINDOW (1u << 20)
#define ANSWERS 256u
#define LONGEST 1000u
#define TAKES 20 /* looks at the device, until an answer is there */

/* A device whose other end is here as well: it answers each message with its bytes, or takes it.  As a completion queue
 * it tells of one arrival behind each time that it was armed. */
struct echo {
    struct fs_carrier carrier;
    pthread_mutex_t lock;
    struct fs_frame frame[ANSWERS];
    unsigned char data[ANSWERS][LONGEST];
    uint64_t came, polled, released, position, taken, heard;
    int is_armed, answers;
    unsigned char answer[LONGEST]; /* under way */
    size_t answer_bytes;
    int looks_left;
    uint64_t armings, news;
    uint64_t for_sleepers; /* armed by the agent, though a thread of the program has looked just now */
    const struct fs_span *span;
    int64_t posted;
    void (*on_look)(void); /* by the agent's thread, once; or NULL */
};

static _Thread_local int is_program; /* this thread */

static struct echo *of(const struct fs_carrier *carrier) { return (struct echo *)(uintptr_t)carrier; }

static void arrive(struct echo *echo, uint32_t kind, const void *data, size_t length)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&echo->lock);
    CHECK(echo->came - echo->released < ANSWERS);
    echo->frame[echo->came % ANSWERS] =
        (struct fs_frame){kind, (uint32_t)length, echo->position, echo->taken, echo->heard};
    if (length > 0) memcpy(echo->data[echo->came % ANSWERS], data, length);
    echo->position += length;
    echo->came++;
    if (echo->is_armed) CHECK(write(echo->carrier.descriptor, &one, sizeof one) == sizeof one);
    echo->is_armed = 0;
    pthread_mutex_unlock(&echo->lock);
}

static void deliver(struct echo *echo)
{
    if (echo->answer_bytes > 0) arrive(echo, FS_FRAME_DATA, echo->answer, echo->answer_bytes);
    echo->answer_bytes = 0;
}

static unsigned room(const struct fs_carrier *carrier)
{
    (void)carrier;
    return FS_FRAMES / 2;
}

static int64_t post(struct fs_carrier *carrier, const struct fs_frame *frame, const void *data, size_t length, int tell)
{
    struct echo *echo = of(carrier);
    (void)tell;
    pthread_mutex_lock(&echo->lock);
    echo->taken += length;
    echo->heard++;
    pthread_mutex_unlock(&echo->lock);
    if (frame->kind == FS_FRAME_DATA && echo->answers) {
        CHECK_EQUAL(echo->answer_bytes, 0);
        memcpy(echo->answer, data, length);
        echo->answer_bytes = length;
        echo->looks_left = TAKES;
    }
    return ++echo->posted;
}

static int64_t done(const struct fs_carrier *carrier) { return of(carrier)->posted; }

static int poll_arrivals(struct fs_carrier *carrier, struct fs_arrival *arrivals, int most)
{
    struct echo *echo = of(carrier);
    void (*on_look)(void) = NULL;
    int found = 0;
    if (echo->looks_left-- == 0) deliver(echo);
    pthread_mutex_lock(&echo->lock);
    if (!is_program) {
        on_look = echo->on_look;
        echo->on_look = NULL;
    }
    pthread_mutex_unlock(&echo->lock);
    if (on_look != NULL) on_look();
    pthread_mutex_lock(&echo->lock);
    for (; found < most && echo->polled < echo->came; echo->polled++, found++) {
        uint32_t slot = (uint32_t)(echo->polled % ANSWERS);
        arrivals[found] = (struct fs_arrival){echo->frame[slot], echo->data[slot], slot};
    }
    pthread_mutex_unlock(&echo->lock);
    return found;
}

static int release(struct fs_carrier *carrier, uint32_t slot)
{
    (void)slot;
    pthread_mutex_lock(&of(carrier)->lock);
    of(carrier)->released++;
    pthread_mutex_unlock(&of(carrier)->lock);
    return 0;
}

static int arm(struct fs_carrier *carrier)
{
    struct echo *echo = of(carrier);
    pthread_mutex_lock(&echo->lock);
    if (!echo->is_armed && !is_program && atomic_load(&echo->span->relying) > 0)
        echo->for_sleepers += fs_now_ns() < atomic_load(&echo->span->looked_at) + MILLISECOND_NS;
    echo->armings += !echo->is_armed;
    echo->is_armed = 1;
    pthread_mutex_unlock(&echo->lock);
    deliver(echo); /* nobody may look any more */
    return 0;
}

static void disarm(struct fs_carrier *carrier)
{
    uint64_t drop;
    of(carrier)->news++;
    CHECK(read(carrier->descriptor, &drop, sizeof drop) == sizeof drop);
}

static int stop(struct fs_carrier *carrier)
{
    (void)carrier;
    return 1;
}

static void close_echo(struct fs_carrier *carrier) { close(carrier->descriptor); }

static const struct fs_carrier_calls calls = {
    .room = room,
    .post = post,
    .done = done,
    .poll = poll_arrivals,
    .release = release,
    .arm = arm,
    .disarm = disarm,
    .stop = stop,
    .close = close_echo,
};

static int is_armed(struct echo *echo)
{
    pthread_mutex_lock(&echo->lock);
    int armed = echo->is_armed;
    pthread_mutex_unlock(&echo->lock);
    return armed;
}

static void ended(struct fs_span *span) { span->carrier = NULL; }

struct program {
    struct echo echo;
    struct fs_span *span;
    struct fs_end *end;
    int bell;
};

static struct program *make(double spin_us, int answers)
{
    static struct program program;
    const struct fs_limits limits = {spin_us, 0, 0};
    int error = 0, pair[2];
    memset(&program, 0, sizeof program);
    is_program = 1;
    program.echo.carrier = (struct fs_carrier){
        .calls = &calls, .descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .window_bytes = WINDOW};
    program.echo.answers = answers;
    CHECK_EQUAL(pthread_mutex_init(&program.echo.lock, NULL), 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    program.bell = pair[0];
    CHECK_EQUAL(fs_doorbell_prepare(program.bell), 0);
    program.span = fs_span_make(0, &error);
    CHECK(program.span != NULL);
    program.span->carrier = &program.echo.carrier;
    program.echo.span = program.span;
    CHECK_EQUAL(fs_span_claim(program.span), 1);
    arrive(&program.echo, FS_FRAME_HELLO, NULL, 0);
    program.end = fs_end_open_on(program.span->segment, FS_SIDE_CONNECTED, &limits, &error);
    CHECK(program.end != NULL);
    program.end->abrupt = 1;
    CHECK_EQUAL(fs_agent_start(), 0);
    CHECK_EQUAL(fs_agent_serve(fs_span_hold(program.span), ended), 0);
    CHECK_EQUAL(fs_agent_begin(program.span, pair[1], -1), 0);
    fs_agent_lend(program.span, program.end);
    return &program;
}

static void await_armed(struct echo *echo)
{
    const uint64_t limit = fs_now_ns() + STALL_NS;
    while (!is_armed(echo)) {
        sched_yield();
        CHECK(fs_now_ns() < limit);
    }
}

static void exchange(struct program *program)
{
    char bytes[8] = "message";
    CHECK_EQUAL(send_everything(program->end, program->bell, bytes, sizeof bytes), sizeof bytes);
    CHECK_EQUAL(receive_some(program->end, program->bell, bytes, sizeof bytes), sizeof bytes);
    CHECK_EQUAL(strcmp(bytes, "message"), 0);
}

static void receive_x(struct program *program)
{
    char byte = 0;
    CHECK_EQUAL(receive_some(program->end, program->bell, &byte, 1), 1);
    CHECK_EQUAL(byte, 'x');
}

static void await_bell(struct program *program)
{
    struct pollfd bell = {program->bell, POLLIN, 0};
    CHECK_EQUAL(poll(&bell, 1, (int)(STALL_NS / MILLISECOND_NS)), 1);
}

/* The thread arms it only where nobody has looked for a millisecond: so seldom, however many messages there are. */
TEST(agent_sleeps_while_the_program_looks, 0)
{
    struct program *program = make(1e6, 1);
    await_armed(&program->echo);
    const uint64_t start = fs_now_ns();
    for (int round = 0; round < scaled(100000); round++) exchange(program);
    const uint64_t milliseconds = (fs_now_ns() - start) / MILLISECOND_NS;
    pthread_mutex_lock(&program->echo.lock);
    CHECK(program->echo.armings <= 2 * milliseconds + 4);
    pthread_mutex_unlock(&program->echo.lock);
}

/* Whoever asks the kernel next must hear of what comes, though it has looked just now. */
TEST(agent_hears_for_a_program_that_asks_the_kernel, 0)
{
    struct program *program = make(1e6, 1);
    int armed = 0, found = 0;
    const int rounds = scaled(2000);
    for (int round = 0; round < rounds; round++) {
        exchange(program);
        CHECK_EQUAL(fs_end_settle(program->end, program->bell, 0), 0);
        armed += is_armed(&program->echo);
        await_armed(&program->echo);
        arrive(&program->echo, FS_FRAME_DATA, "x", 1);
        await_bell(program);
        receive_x(program);
        exchange(program);
        arrive(&program->echo, FS_FRAME_DATA, "x", 1);
        found += fs_end_settle(program->end, program->bell, 0);
        await_bell(program);
        receive_x(program);
    }
    CHECK(armed > rounds / 4); /* elsewhere the thread was awake: it does so itself */
    CHECK(found > rounds / 4);
}

/* A program that says nothing before it asks the kernel hears of it as well, a moment later. */
TEST(agent_hears_for_a_program_that_looks_no_more, 0)
{
    struct program *program = make(1e6, 1);
    fs_end_watch(program->end, program->bell);
    for (int round = 0; round < scaled(500); round++) {
        exchange(program);
        arrive(&program->echo, FS_FRAME_DATA, "x", 1);
        await_bell(program);
        receive_x(program);
    }
}

static void *receive_one(void *of_program)
{
    is_program = 1;
    receive_x(of_program);
    return NULL;
}

/* One thread sleeps until something comes in, another one looks for room all the time. */
TEST(agent_hears_for_a_thread_that_sleeps_beside_one_that_looks, 0)
{
    struct program *program = make(100, 0);
    program->end->spin_read.success = 0; /* it sleeps at once, most of the time */
    for (int round = 0; round < scaled(200); round++) {
        pthread_t reader = start_thread(receive_one, program);
        while (atomic_load(&program->end->sleepers) == 0) fs_end_look_once(program->end);
        const uint64_t start = fs_now_ns();
        arrive(&program->echo, FS_FRAME_CREDIT, NULL, 0);
        while (!is_armed(&program->echo)) {
            fs_end_look_once(program->end);
            CHECK(fs_now_ns() < start + STALL_NS);
        }
        arrive(&program->echo, FS_FRAME_DATA, "x", 1);
        join_thread(reader);
    }
    pthread_mutex_lock(&program->echo.lock);
    CHECK(program->echo.for_sleepers > 0);
    pthread_mutex_unlock(&program->echo.lock);
}

static struct {
    struct program *program;
    _Atomic int relied, slept;
    int timeout_ms;
} rush;

static void *ask_the_kernel(void *unused)
{
    (void)unused;
    is_program = 1;
    CHECK_EQUAL(fs_end_settle(rush.program->end, rush.program->bell, 0), 0);
    return NULL;
}

static void rely_within_its_turn(void)
{
    join_thread(start_thread(ask_the_kernel, NULL));
    atomic_store(&rush.relied, 1);
}

static void note_the_sleep(int events, int timeout_ms)
{
    struct pollfd news = {events, POLLIN, 0};
    if (atomic_exchange(&rush.relied, 0)) {
        rush.timeout_ms = timeout_ms;
        atomic_store(&rush.slept, 1);
    }
    CHECK(poll(&news, 1, timeout_ms) >= 0 || errno == EINTR);
}

/* Whoever asks the kernel while the thread is at work leaves the arming to it: it takes another turn before it sleeps. */
TEST(agent_looks_again_for_a_program_that_asked_the_kernel_meanwhile, 0)
{
    rush.program = make(1e6, 1);
    fs_agent_sleep_by(note_the_sleep);
    for (int round = 0; round < scaled(500); round++) {
        const uint64_t limit = fs_now_ns() + STALL_NS;
        exchange(rush.program);
        await_armed(&rush.program->echo);
        pthread_mutex_lock(&rush.program->echo.lock);
        rush.program->echo.on_look = rely_within_its_turn;
        pthread_mutex_unlock(&rush.program->echo.lock);
        fs_agent_wake();
        while (!atomic_exchange(&rush.slept, 0)) {
            sched_yield();
            CHECK(fs_now_ns() < limit);
        }
        CHECK_EQUAL(rush.timeout_ms, 0);
    }
    fs_agent_sleep_by(NULL);
}

static void *answer_at_any_moment(void *of_program)
{
    struct program *program = of_program;
    struct random random = random_from(7);
    unsigned char bytes[LONGEST];
    for (int i = 0; i < scaled(20000); i++) {
        const size_t length = (size_t)random_size(&random, LONGEST);
        for (;;) { /* as credits make the other host wait */
            pthread_mutex_lock(&program->echo.lock);
            int has_room = program->echo.came - program->echo.released < FS_FRAMES;
            pthread_mutex_unlock(&program->echo.lock);
            if (has_room) break;
            sched_yield();
        }
        stream_fill(1, program->echo.position, bytes, length);
        if (random_below(&random, 4) == 0) exact_sleep_us(random_below(&random, 200));
        arrive(&program->echo, FS_FRAME_DATA, bytes, length);
    }
    return NULL;
}

/* Every kind of wait, and each at any moment of an arrival. */
TEST(agent_loses_no_news, 0)
{
    struct program *program = make(30, 0);
    struct random random = random_from(8);
    unsigned char bytes[2 * LONGEST];
    uint64_t got = 0;
    pthread_t other = start_thread(answer_at_any_moment, program);
    for (int left = scaled(20000); left > 0;) {
        if (random_below(&random, 2) == 0 && fs_end_settle(program->end, program->bell, 0) == 0) {
            struct pollfd bell = {program->bell, POLLIN, 0};
            CHECK_EQUAL(poll(&bell, 1, (int)(STALL_NS / MILLISECOND_NS)), 1);
        }
        ssize_t received = receive_some(program->end, program->bell, bytes, random_size(&random, sizeof bytes));
        CHECK(received > 0);
        stream_check(1, got, bytes, (size_t)received);
        got += (uint64_t)received;
        pthread_mutex_lock(&program->echo.lock);
        if (program->echo.came == (uint64_t)scaled(20000) + 1 && got == program->echo.position) left = 0;
        pthread_mutex_unlock(&program->echo.lock);
    }
    join_thread(other);
}
