/* The other end lies: random values over everything shared, random bytes on the doorbell.  The victim may get
 * errors and wrong bytes, but it never crashes, never leaves its memory and never overstays a deadline. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"

#define PATIENCE_NS 30000000ull /* the victim's deadline for each call */
#define SLACK_NS 1500000000ull  /* of a busy machine, for a call with a deadline or one that must not block */
#define SMALL 4096u

static const _Atomic int never_leaving;

struct words {
    pid_t victim, hostile;
};

/* Values that look right are worse than noise. */
static uint64_t lie(struct random *random, uint64_t now, const struct words *known)
{
    switch (random_below(random, 12)) {
    case 0: return random_next(random);
    case 1: return 0;
    case 2: return UINT64_MAX;
    case 3: return now + random_below(random, 3) - 1;
    case 4: return now + random_size(random, 1 << 17);
    case 5: return now - random_size(random, 1 << 17);
    case 6: return now ^ (uint64_t)1 << random_below(random, 64);
    case 7: return (uint64_t)known->victim;
    case 8: return (uint64_t)known->hostile;
    case 9:
    case 10: return random_below(random, 2) ? random_below(random, 8) : now ^ random_below(random, 4) << 62;
    default: return 1;
    }
}

static void write_somewhere(struct fs_segment_header *header, struct random *random, const struct words *known)
{
    size_t words = sizeof *header / 4;
    _Atomic uint32_t *narrow = (_Atomic uint32_t *)(void *)header;
    _Atomic uint64_t *wide = (_Atomic uint64_t *)(void *)header;
    if (random_below(random, 2)) {
        size_t at = random_below(random, words);
        atomic_store(&narrow[at], (uint32_t)lie(random, narrow[at], known));
    } else {
        size_t at = random_below(random, words / 2);
        atomic_store(&wide[at], lie(random, wide[at], known));
    }
}

/* The fields that matter lie far apart: aim at them. */
static void write_a_field(struct fs_segment_header *header, struct random *random, const struct words *known)
{
    struct fs_direction *d = &header->direction[random_below(random, 2)];
    _Atomic uint64_t *wide[] = {&d->head,     &d->grown_at,      &d->tail,        &d->bell,          &d->eaten,
                                &d->promised, &d->offer,         &d->offer_from,  &d->offer_address, &d->nonce_address,
                                &d->want,     &d->place_address, &d->place_calls, &d->place_gate};
    _Atomic uint32_t *narrow[] = {&d->producer_shut, &d->reader_sleeps, &d->writer_sleeps, &d->notice,
                                  &d->stuffed,       &d->watched,       &d->raw,           &header->reset[0],
                                  &header->reset[1], &header->cpu[0]};
    size_t at = random_below(random, 14 + 10);
    if (at < 14) atomic_store(wide[at], lie(random, *wide[at], known));
    else atomic_store(narrow[at - 14], (uint32_t)lie(random, *narrow[at - 14], known));
}

static _Noreturn void lie_until_killed(int memory, int bell, const struct words *known, uint64_t salt)
{
    struct random random = random_from(salt);
    struct fs_segment_header *header = mmap(NULL, sizeof *header, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(header != MAP_FAILED);
    char noise[8192];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)random_next(&random);
    for (;;) {
        uint64_t burst = random_size(&random, 64);
        for (uint64_t i = 0; i < burst; i++) {
            if (random_below(&random, 2)) write_a_field(header, &random, known);
            else write_somewhere(header, &random, known);
        }
        switch (random_below(&random, 8)) {
        case 0: send(bell, noise, random_size(&random, sizeof noise), MSG_DONTWAIT | MSG_NOSIGNAL); break;
        case 1: recv(bell, noise, random_size(&random, sizeof noise), MSG_DONTWAIT); break;
        case 2: fs_futex_wake_all(&header->direction[0].reader_sleeps); break;
        case 3: exact_sleep_us(random_below(&random, 300)); break;
        default: break;
        }
    }
}

static void in_time(const char *what, uint64_t start, uint64_t allowed)
{
    uint64_t took = fs_now_ns() - start;
    if (took > allowed + SLACK_NS) fail(__FILE__, __LINE__, "%s took %.2f s", what, (double)took / 1e9);
}

/* One call as the binding makes it: repeated until its deadline. */
static void victim_transfer(struct fs_end *end, int bell, unsigned char *block, size_t size, int what)
{
    uint64_t start = fs_now_ns(), deadline = start + PATIENCE_NS;
    for (int look = 0;; look = 1) {
        uint64_t before = fs_now_ns();
        ssize_t result = what == FS_READABLE ? fs_end_receive(end, bell, block, size, 0, look)
                                             : fs_end_send(end, bell, block, size, FS_PATIENT | FS_NO_SIGNAL);
        CHECK(result <= (ssize_t)size);
        in_time(what == FS_READABLE ? "fs_end_receive" : "fs_end_send", before, 0);
        if (result != -EAGAIN) return;
        if (fs_end_wait(end, bell, what, deadline, &never_leaving) == -ETIMEDOUT) return;
        in_time(what == FS_READABLE ? "a receive with a deadline" : "a send with a deadline", start, PATIENCE_NS);
    }
}

static void victim_step(struct fs_end *end, int bell, struct random *random, unsigned char *block, size_t most)
{
    size_t size = random_size(random, most);
    uint64_t start = fs_now_ns();
    const char *what = "";
    switch (random_below(random, 14)) {
    case 0:
    case 1:
    case 2: victim_transfer(end, bell, block, size, FS_READABLE); return;
    case 3:
    case 4:
    case 5: victim_transfer(end, bell, block, size, FS_WRITABLE); return;
    case 6: what = "a peek", fs_end_receive(end, bell, block, size, 1, 1); break;
    case 7: what = "fs_end_unread", fs_end_unread(end, bell); break;
    case 8: what = "fs_end_settle", fs_end_settle(end, bell, 0); break;
    case 9: what = "fs_end_writable", fs_end_writable(end, size); break;
    case 10: what = "fs_end_take_error", fs_end_take_error(end, bell); break;
    case 11: what = "fs_end_send", fs_end_send(end, bell, block, size, FS_NO_SIGNAL); break;
    case 12: what = "fs_end_receive", fs_end_receive(end, bell, block, size, 0, 0); break;
    default:
        if (random_below(random, 20) == 0) what = "fs_end_watch", fs_end_watch(end, bell);
        else if (random_below(random, 20) == 0) what = "fs_end_release", fs_end_release(end, bell);
        else if (random_below(random, 50) == 0) what = "fs_end_shutdown", fs_end_shutdown(end, bell, SHUT_WR);
    }
    in_time(what, start, 0);
}

static void run_hostile(uint64_t salt, int steps)
{
    struct random random = random_from(salt);
    struct connection c = connection_make(SMALL);
    struct words known = {getpid(), 0};
    c.direct_min = random_below(&random, 2);
    connection_open(&c, 0, 20);
    pid_t hostile = start_process(); /* its address space is a copy: what it claims to offer is there */
    c.end[0]->peer = hostile;
    if (hostile == 0) {
        close(c.bell[0]);
        known.hostile = getpid();
        lie_until_killed(c.memory, c.bell[1], &known, salt + 1);
    }
    /* half of the victims do not know that they were forked: the fork here is the test's */
    if (random_below(&random, 2)) c.end[0]->forks_at_start = fs_fork_count();
    unsigned char block[3 * SMALL];
    for (int i = 0; i < steps; i++) victim_step(c.end[0], c.bell[0], &random, block, sizeof block);
    uint64_t start = fs_now_ns();
    fs_end_closing(c.end[0], c.bell[0], 0);
    close(c.bell[0]);
    fs_end_closed(c.end[0]);
    in_time("closing", start, 0);
    kill(hostile, SIGKILL);
    waitpid(hostile, NULL, 0);
    fs_end_free(c.end[0]);
    close(c.bell[1]);
    close(c.memory);
}

TEST(hostile_process_writes_over_everything, NEEDS_PROCESSES)
{
    for (int i = 0; i < scaled(150); i++) run_hostile(5000 + (uint64_t)i, 150);
}

/* ---- one lie at a time, held for the whole call ---- */

enum lie_kind {
    RAW_WITH_MISSING_TOKENS,
    NOTICE_NEVER_RESTS,
    RAW_IS_ASKED_AND_TAKEN_BACK,
    BELL_HAS_ENDED,
    TAIL_FLICKERS,
    BELL_IS_RINGING,
    LIES
};

static struct {
    struct fs_segment_header *header;
    enum lie_kind kind;
    _Atomic int stop;
} steady;

static void *lie_steadily(void *argument)
{
    (void)argument;
    struct fs_direction *in = &steady.header->direction[1], *out = &steady.header->direction[0];
    while (!atomic_load(&steady.stop)) {
        switch (steady.kind) {
        case RAW_WITH_MISSING_TOKENS:
            atomic_store(&in->bell, 1ull << 40 | FS_BELL_RUNG);
            atomic_store(&in->raw, 1);
            break;
        case NOTICE_NEVER_RESTS: atomic_fetch_add(&in->notice, 1); break;
        case RAW_IS_ASKED_AND_TAKEN_BACK:
            atomic_fetch_xor(&in->head, FS_RAW_ASKED);
            atomic_fetch_xor(&out->head, FS_RAW_ASKED);
            break;
        case BELL_HAS_ENDED:
            atomic_store(&in->bell, FS_BELL_ENDED);
            atomic_store(&out->bell, FS_BELL_ENDED);
            break;
        case TAIL_FLICKERS:
            atomic_store(&out->tail, atomic_load(&out->head));
            atomic_store(&out->tail, atomic_load(&out->head) - 8 * SMALL);
            break;
        default: atomic_store(&in->bell, FS_BELL_RINGING); atomic_store(&out->bell, FS_BELL_RINGING);
        }
    }
    return NULL;
}

static void run_steady_lie(enum lie_kind kind, int what)
{
    struct connection c = connection_make(SMALL);
    unsigned char block[3 * SMALL] = {0};
    connection_open(&c, 0, 20);
    steady.header = c.end[0]->header;
    steady.kind = kind;
    atomic_store(&steady.stop, 0);
    if (what == FS_WRITABLE)
        while (fs_end_send(c.end[0], c.bell[0], block, sizeof block, FS_PATIENT) > 0) {}
    pthread_t liar = start_thread(lie_steadily, NULL);
    for (int i = 0; i < 3; i++) victim_transfer(c.end[0], c.bell[0], block, sizeof block, what);
    atomic_store(&steady.stop, 1);
    join_thread(liar);
    connection_close(&c, 0);
    close(c.bell[1]);
}

#define STEADY(name, kind)                                                                   \
    TEST(steady_lie_##name##_receiving, NEEDS_FAULTS) { run_steady_lie(kind, FS_READABLE); } \
    TEST(steady_lie_##name##_sending, NEEDS_FAULTS) { run_steady_lie(kind, FS_WRITABLE); }

STEADY(raw_with_missing_tokens, RAW_WITH_MISSING_TOKENS)
STEADY(notice_never_rests, NOTICE_NEVER_RESTS)
STEADY(raw_is_asked_and_taken_back, RAW_IS_ASKED_AND_TAKEN_BACK)
STEADY(bell_has_ended, BELL_HAS_ENDED)
STEADY(tail_flickers, TAIL_FLICKERS)
STEADY(bell_is_ringing, BELL_IS_RINGING)

/* ---- no lie makes who waits for nothing sleep ---- */

static void call_at_once(struct connection *c, unsigned char *block, size_t size)
{
    int before = naps;
    fs_end_send(c->end[0], c->bell[0], block, size, FS_NO_SIGNAL | FS_AT_ONCE);
    fs_end_receive(c->end[0], c->bell[0], block, size, FS_AT_ONCE, 1);
    fs_end_settle(c->end[0], c->bell[0], FS_AT_ONCE);
    CHECK_EQUAL(naps, before);
}

static void run_lie_of_one_word(size_t at, uint64_t value)
{
    struct connection c = connection_make(SMALL);
    unsigned char block[100] = {0};
    connection_open(&c, 0, 20);
    _Atomic uint32_t *words = (_Atomic uint32_t *)(void *)c.end[0]->header;
    atomic_store(&words[at], (uint32_t)value);
    call_at_once(&c, block, sizeof block);
    connection_close(&c, 0);
    close(c.bell[1]);
}

/* Above all none that looks like a lock which a living thread holds: of the victim, or of the other end. */
TEST(no_word_of_the_other_end_makes_a_call_at_once_sleep, 0)
{
    const uint64_t owners[] = {(uint64_t)getpid(), (uint64_t)getppid(), (uint64_t)getppid() | 0x80000000u,
                               fs_thread_identity() >> 32};
    const size_t first = offsetof(struct fs_segment_header, cpu) / 4;
    for (size_t at = first; at < sizeof(struct fs_segment_header) / 4; at++)
        for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) run_lie_of_one_word(at, owners[i]);
}

TEST(a_call_at_once_does_not_wait_for_another_thread, 0)
{
    struct connection c = connection_both(SMALL, 0);
    unsigned char block[100] = {0};
    CHECK_EQUAL(fs_lock(c.end[0]->exclusion.sender, 0), 0);
    CHECK_EQUAL(fs_lock(c.end[0]->exclusion.receiver, 0), 0);
    CHECK_EQUAL(fs_end_send(c.end[0], c.bell[0], block, 1, FS_NO_SIGNAL | FS_AT_ONCE), -EBUSY);
    CHECK_EQUAL(fs_end_receive(c.end[0], c.bell[0], block, 1, FS_AT_ONCE, 1), -EBUSY);
    CHECK_EQUAL(fs_end_settle(c.end[0], c.bell[0], FS_AT_ONCE), -EBUSY);
    CHECK_EQUAL(naps, 0);
    fs_unlock(c.end[0]->exclusion.sender);
    fs_unlock(c.end[0]->exclusion.receiver);
    call_at_once(&c, block, sizeof block);
    for (int side = 0; side < 2; side++) connection_close(&c, side);
}

/* ---- a stranger's memory ---- */

static int open_gives(int memory)
{
    struct fs_limits limits = {0};
    int error = 0;
    struct fs_end *end = fs_end_open(memory, 0, &limits, &error);
    CHECK((end == NULL) == (error != 0));
    if (end != NULL) fs_end_free(end);
    return error;
}

TEST(memory_that_is_no_segment_is_refused, 0)
{
    int good = fs_segment_create(SMALL);
    CHECK_EQUAL(open_gives(good), 0);
    off_t size = lseek(good, 0, SEEK_END);
    char *content = malloc((size_t)size);
    CHECK(content != NULL && pread(good, content, (size_t)size, 0) == size);
    int unsealed = memfd_create("test", MFD_ALLOW_SEALING);
    CHECK_EQUAL(pwrite(unsealed, content, (size_t)size, 0), size);
    CHECK_EQUAL(open_gives(unsealed), -EPROTO);
    static const struct {
        size_t at, length;
        unsigned char value;
    } damage[] = {{0, 1, 0}, {8, 4, 9}, {12, 4, 0}, {12, 4, 0xff}, {13, 1, 0x20}, {13, 1, 0x11}};
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        int memory = fs_segment_create(SMALL);
        unsigned char bytes[8];
        memset(bytes, damage[i].value, sizeof bytes);
        CHECK(pwrite(memory, bytes, damage[i].length, (off_t)damage[i].at) > 0);
        CHECK_EQUAL(open_gives(memory), -EPROTO);
        close(memory);
    }
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    CHECK(open_gives(pipes[0]) != 0);
    CHECK(open_gives(-1) != 0);
    free(content);
}
