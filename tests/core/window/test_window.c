/* Windows between threads, which a sanitizer can follow, and with members that die or lie. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "system.h"
#include "window/doors.h"
#include "window/window.h"

#define MOST 5
#define BYTES 16384u
#define INTERRUPTED (-ECANCELED)

struct shared {
    int size, memory, rounds, interrupts;
    int watches[MOST];
};

struct member {
    struct shared *shared;
    struct fs_window *window;
    struct random random;
    pthread_t thread;
    int index, waits, interrupted;
    uint64_t done;
};

static void prepare(struct shared *shared, int size, int crowded)
{
    *shared = (struct shared){.size = size};
    shared->memory = fs_window_create_memory(size, (uint64_t)size * BYTES, crowded);
    CHECK(shared->memory >= 0);
    for (int i = 0; i < size; i++) shared->watches[i] = -1;
}

static void open_member(struct member *member, struct shared *shared, int index)
{
    int error = 0;
    *member = (struct member){.shared = shared, .index = index, .random = random_from((uint64_t)index)};
    member->window =
        fs_window_open(shared->memory, index, shared->size, (uint64_t)shared->size * BYTES, shared->watches, 0, &error);
    CHECK_EQUAL(error, 0);
}

static void in_threads(struct shared *shared, struct member *members, void *(*body)(void *))
{
    for (int i = 0; i < shared->size; i++) open_member(&members[i], shared, i);
    for (int i = 0; i < shared->size; i++) CHECK_EQUAL(pthread_create(&members[i].thread, NULL, body, &members[i]), 0);
    for (int i = 0; i < shared->size; i++) pthread_join(members[i].thread, NULL);
}

static void close_all(struct shared *shared, struct member *members)
{
    for (int i = 0; i < shared->size; i++) fs_window_close(members[i].window);
    close(shared->memory);
}

/* Some waits end before their time. */
static int interrupt_some(void *context)
{
    struct member *member = context;
    return member->shared->interrupts && ++member->waits % 2 == 0 ? INTERRUPTED : 0;
}

static struct fs_window_call call_of(struct member *member)
{
    return (struct fs_window_call){.hooks = {.context = member, .interrupted = interrupt_some}, .culprit = -1};
}

static uint64_t *numbers_of(struct member *member, int target)
{
    return (uint64_t *)(void *)(fs_window_data(member->window) + (size_t)target * BYTES);
}

/* Long enough for the others to look for signals. */
static void linger(void)
{
    const struct timespec moment = {0, 3000000};
    nanosleep(&moment, NULL);
}

/* Two numbers of each target are equal whenever nobody owns it alone. */
static void *lock_in_turns(void *argument)
{
    struct member *member = argument;
    for (int i = 0; i < member->shared->rounds; i++) {
        struct fs_window_call call = call_of(member);
        int target = (int)random_below(&member->random, (uint64_t)member->shared->size);
        int alone = random_below(&member->random, 3) != 0;
        int result = fs_window_lock(member->window, &call, target, alone);
        if (result == INTERRUPTED) {
            member->interrupted++;
            continue;
        }
        CHECK_EQUAL(result, 0);
        if (member->shared->interrupts && random_below(&member->random, 32) == 0) linger();
        volatile uint64_t *numbers = numbers_of(member, target);
        if (alone) {
            uint64_t before = numbers[0];
            numbers[0] = before + 1;
            if (random_below(&member->random, 16) == 0) sched_yield();
            CHECK_EQUAL(numbers[1], before);
            numbers[1] = before + 1;
            member->done++;
        } else {
            CHECK_EQUAL(numbers[0], numbers[1]);
        }
        CHECK_EQUAL(fs_window_unlock(member->window, target, alone), 0);
    }
    return NULL;
}

static void check_locks(int size, int crowded, int interrupts)
{
    struct shared shared;
    struct member members[MOST];
    uint64_t done = 0, counted = 0;
    int interrupted = 0;
    prepare(&shared, size, crowded);
    shared.rounds = scaled(interrupts ? 4000 : 20000);
    shared.interrupts = interrupts;
    in_threads(&shared, members, lock_in_turns);
    for (int i = 0; i < size; i++) {
        done += members[i].done;
        interrupted += members[i].interrupted;
        counted += numbers_of(&members[0], i)[0];
        CHECK_EQUAL(atomic_load(&members[0].window->members[i].lock.owner), 0);
        for (int k = 0; k < size; k++)
            CHECK_EQUAL(atomic_load(&members[0].window->members[i].lock.states[k]), FS_NOT_THERE);
    }
    CHECK_EQUAL(done, counted);
    CHECK(!interrupts || interrupted > 0);
    close_all(&shared, members);
}

TEST(window_locks_exclude, 0) { check_locks(3, 0, 0); }
TEST(window_locks_exclude_where_members_share_cores, 0) { check_locks(MOST, 1, 0); }
TEST(window_locks_whose_waits_are_interrupted, 0) { check_locks(4, 1, 1); }

static _Atomic uint64_t *count_of(struct member *member, int target)
{
    return (_Atomic uint64_t *)numbers_of(member, target);
}

/* The first number of a member's part: how often it had the lock of member 0. */
static void *have_the_lock(void *argument)
{
    struct member *member = argument;
    while (atomic_load(count_of(member, 0) + 1) == 0) {
        struct fs_window_call call = call_of(member);
        int alone = random_below(&member->random, 3) != 0;
        CHECK_EQUAL(fs_window_lock(member->window, &call, 0, alone), 0);
        atomic_fetch_add(count_of(member, member->index), 1);
        CHECK_EQUAL(fs_window_unlock(member->window, 0, alone), 0);
    }
    return NULL;
}

static void await_waiting(const struct fs_window *window, int member)
{
    uint8_t state;
    do {
        sched_yield();
        state = atomic_load(&window->members[0].lock.states[member]);
    } while (state != FS_WANTS_ALONE && state != FS_WANTS_SHARED);
}

/* Member 0 gives its lock back and wants it again at once: all who waited for it before have it first. */
static void check_turns(int size, int crowded)
{
    struct shared shared;
    struct member members[MOST];
    uint64_t before[MOST] = {0};
    prepare(&shared, size, crowded);
    for (int i = 0; i < size; i++) open_member(&members[i], &shared, i);
    struct fs_window_call call = call_of(&members[0]);
    CHECK_EQUAL(fs_window_lock(members[0].window, &call, 0, 1), 0);
    for (int i = 1; i < size; i++) CHECK_EQUAL(pthread_create(&members[i].thread, NULL, have_the_lock, &members[i]), 0);
    for (int round = 0; round < scaled(1000); round++) {
        for (int i = 1; i < size; i++) {
            await_waiting(members[0].window, i);
            before[i] = atomic_load(count_of(&members[0], i));
        }
        CHECK_EQUAL(fs_window_unlock(members[0].window, 0, 1), 0);
        CHECK_EQUAL(fs_window_lock(members[0].window, &call, 0, 1), 0);
        for (int i = 1; i < size; i++) CHECK(atomic_load(count_of(&members[0], i)) > before[i]);
    }
    atomic_store(count_of(&members[0], 0) + 1, 1);
    CHECK_EQUAL(fs_window_unlock(members[0].window, 0, 1), 0);
    for (int i = 1; i < size; i++) pthread_join(members[i].thread, NULL);
    close_all(&shared, members);
}

TEST(window_locks_go_round_among_those_who_wait, 0) { check_turns(MOST, 0); }
TEST(window_locks_go_round_where_members_share_cores, 0) { check_turns(3, 1); }

static void *accumulate_at_once(void *argument)
{
    struct member *member = argument;
    int64_t ones[600], before[600];
    for (int i = 0; i < 600; i++) ones[i] = 1;
    for (int i = 0; i < member->shared->rounds; i++) {
        struct fs_window_call call = call_of(member);
        int target = (int)random_below(&member->random, (uint64_t)member->shared->size);
        unsigned char *memory = (unsigned char *)numbers_of(member, target);
        /* all of it, over a border of two blocks; the first by itself; the first by compare and swap; all, as items */
        switch (random_below(&member->random, 4)) {
        case 0:
            CHECK_EQUAL(fs_window_accumulate(member->window, &call, target, 0, memory, (void *)ones, (void *)before,
                                             600, FS_INT64, FS_SUM),
                        0);
            break;
        case 1:
            CHECK_EQUAL(
                fs_window_accumulate(member->window, &call, target, 0, memory, (void *)ones, NULL, 1, FS_INT64, FS_SUM),
                0);
            break;
        case 2: {
            int64_t seen = 0, old, next;
            do {
                old = seen;
                next = old + 1;
                CHECK_EQUAL(fs_window_compare_and_swap(member->window, &call, target, 0, memory, &next, &old, &seen, 8),
                            0);
            } while (seen != old);
            break;
        }
        default: {
            struct fs_layout layout;
            fs_layout_block(&layout, 8);
            CHECK_EQUAL(fs_window_accumulate_items(member->window, &call, target, memory, &layout, 16, (void *)ones,
                                                   NULL, 300 * 8, FS_INT64, FS_SUM),
                        0);
            /* every second number: the others catch up */
            CHECK_EQUAL(fs_window_accumulate_items(member->window, &call, target, memory + 8, &layout, 16, (void *)ones,
                                                   NULL, 300 * 8, FS_INT64, FS_SUM),
                        0);
        }
        }
        member->done++;
    }
    return NULL;
}

TEST(window_accumulates_are_atomic, 0)
{
    struct shared shared;
    struct member members[MOST];
    int64_t done = 0, sums[2] = {0, 0};
    prepare(&shared, 4, 0);
    shared.rounds = scaled(20000);
    in_threads(&shared, members, accumulate_at_once);
    for (int i = 0; i < shared.size; i++) {
        const int64_t *numbers = (const int64_t *)(const void *)numbers_of(&members[0], i);
        done += (int64_t)members[i].done;
        sums[0] += numbers[0];
        sums[1] += numbers[1];
        for (int k = 2; k < 600; k++) CHECK_EQUAL(numbers[k], numbers[1]);
        CHECK_EQUAL(numbers[600], 0);
    }
    CHECK_EQUAL(sums[0], done);
    CHECK(sums[1] > 0 && sums[1] < sums[0]);
    close_all(&shared, members);
}

static void *fence_and_post(void *argument)
{
    struct member *member = argument;
    int size = member->shared->size, others[MOST], many = 0;
    for (int i = 0; i < size; i++)
        if (i != member->index) others[many++] = i;
    for (int round = 1; round <= member->shared->rounds; round++) {
        struct fs_window_call call = call_of(member);
        int right = (member->index + 1) % size, left = (member->index + size - 1) % size;
        numbers_of(member, right)[0] = (uint64_t)round;
        CHECK_EQUAL(fs_window_fence(member->window, &call), 0);
        CHECK_EQUAL(numbers_of(member, member->index)[0], round);
        CHECK_EQUAL(fs_window_fence(member->window, &call), 0);
        /* to all others, each its own number; these have left room before */
        CHECK_EQUAL(fs_window_post(member->window, others, many), 0);
        CHECK_EQUAL(fs_window_start(member->window, &call, others, many), 0);
        for (int i = 0; i < many; i++) numbers_of(member, others[i])[1 + member->index] = (uint64_t)round;
        CHECK_EQUAL(fs_window_complete(member->window, others, many), 0);
        CHECK_EQUAL(fs_window_await_origins(member->window, &call, others, many, 1), 1);
        for (int i = 0; i < many; i++) CHECK_EQUAL(numbers_of(member, member->index)[1 + others[i]], round);
        /* to the left only */
        CHECK_EQUAL(fs_window_post(member->window, &left, 1), 0);
        CHECK_EQUAL(fs_window_start(member->window, &call, &right, 1), 0);
        numbers_of(member, right)[20] = (uint64_t)round;
        CHECK_EQUAL(fs_window_complete(member->window, &right, 1), 0);
        while (fs_window_await_origins(member->window, &call, &left, 1, 0) == 0) sched_yield();
        CHECK_EQUAL(numbers_of(member, member->index)[20], round);
    }
    return NULL;
}

static void check_epochs(int size, int crowded)
{
    struct shared shared;
    struct member members[MOST];
    prepare(&shared, size, crowded);
    shared.rounds = scaled(3000);
    in_threads(&shared, members, fence_and_post);
    close_all(&shared, members);
}

TEST(window_fences_and_posts, 0) { check_epochs(2, 0); }
TEST(window_fences_and_posts_where_members_share_cores, 0) { check_epochs(4, 1); }

/* Member 1 is another process that a test ends. */
struct victim {
    struct shared shared;
    struct member member;
    pid_t process;
};

static void start_victim(struct victim *victim, int size, void (*body)(struct member *))
{
    int ready[2], life[2];
    char byte;
    prepare(&victim->shared, size, 0);
    CHECK_EQUAL(pipe(ready), 0);
    CHECK_EQUAL(pipe(life), 0);
    victim->process = fork();
    CHECK(victim->process >= 0);
    if (victim->process == 0) {
        struct member member;
        close(life[0]);
        open_member(&member, &victim->shared, 1);
        body(&member);
        if (write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(life[1]);
    victim->shared.watches[1] = life[0]; /* closed by the other end: it can be read */
    open_member(&victim->member, &victim->shared, 0);
    CHECK_EQUAL(read(ready[0], &byte, 1), 1);
}

static void end_victim(struct victim *victim)
{
    CHECK_EQUAL(kill(victim->process, SIGKILL), 0);
    CHECK_EQUAL(waitpid(victim->process, NULL, 0), victim->process);
}

static void close_victim(struct victim *victim)
{
    fs_window_shut_door(victim->member.window);
    fs_window_close(victim->member.window);
    close(victim->shared.memory);
}

static void own_first(struct member *member)
{
    struct fs_window_call call = call_of(member);
    CHECK_EQUAL(fs_window_lock(member->window, &call, 0, 1), 0);
}

static void share_first(struct member *member)
{
    struct fs_window_call call = call_of(member);
    CHECK_EQUAL(fs_window_lock(member->window, &call, 0, 0), 0);
}

static void nothing(struct member *member) { (void)member; }

static void expect_loss(struct victim *victim, int alone)
{
    struct fs_window_call call = call_of(&victim->member);
    CHECK_EQUAL(fs_window_lock(victim->member.window, &call, 0, alone), -EOWNERDEAD);
    CHECK_EQUAL(call.culprit, 1);
}

TEST(window_lock_of_a_dead_owner, NEEDS_PROCESSES)
{
    struct victim victim;
    start_victim(&victim, 3, own_first);
    end_victim(&victim);
    expect_loss(&victim, 1);
    expect_loss(&victim, 0);
    struct fs_window_call call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_lock(victim.member.window, &call, 2, 1), 0); /* another target's */
    close_victim(&victim);
}

TEST(window_lock_that_a_dead_member_shares, NEEDS_PROCESSES)
{
    struct victim victim;
    start_victim(&victim, 3, share_first);
    end_victim(&victim);
    struct fs_window_call call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_lock(victim.member.window, &call, 0, 1), 0); /* who only shared it is waited for no more */
    CHECK_EQUAL(fs_window_unlock(victim.member.window, 0, 1), 0);
    CHECK_EQUAL(fs_window_lock(victim.member.window, &call, 1, 0), -EOWNERDEAD); /* its own part */
    CHECK_EQUAL(call.culprit, 1);
    close_victim(&victim);
}

TEST(window_fence_without_a_dead_member, NEEDS_PROCESSES)
{
    struct victim victim;
    int all[2] = {1, 2};
    start_victim(&victim, 3, nothing);
    end_victim(&victim);
    struct fs_window_call call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_fence(victim.member.window, &call), -EOWNERDEAD);
    CHECK_EQUAL(call.culprit, 1);
    call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_start(victim.member.window, &call, all, 2), -EOWNERDEAD);
    CHECK_EQUAL(fs_window_post(victim.member.window, all, 2), 0);
    CHECK_EQUAL(fs_window_await_origins(victim.member.window, &call, all, 2, 0), 0);
    CHECK_EQUAL(fs_window_await_origins(victim.member.window, &call, all, 2, 1), -EOWNERDEAD);
    close_victim(&victim);
}

/* The lock of a stripe is held for a moment only: a member that dies within it is stood in for by its word. */
TEST(window_stripe_of_a_dead_owner, NEEDS_PROCESSES)
{
    struct victim victim;
    int64_t one = 1, other = 0, seen;
    start_victim(&victim, 3, nothing);
    end_victim(&victim);
    struct fs_window *window = victim.member.window;
    unsigned char *memory = fs_window_data(window);
    struct fs_layout layout;
    fs_layout_block(&layout, 8);
    atomic_store(&window->members[0].stripes[1].owner, 2);
    struct fs_window_call call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_accumulate(window, &call, 0, FS_WINDOW_BLOCK, memory + FS_WINDOW_BLOCK, (void *)&one, NULL, 1,
                                     FS_INT64, FS_SUM),
                -EOWNERDEAD);
    CHECK_EQUAL(call.culprit, 1);
    CHECK_EQUAL(
        fs_window_compare_and_swap(window, &call, 0, FS_WINDOW_BLOCK, memory + FS_WINDOW_BLOCK, &one, &other, &seen, 8),
        -EOWNERDEAD);
    CHECK_EQUAL(
        fs_window_accumulate_items(window, &call, 0, memory, &layout, 8, (void *)&one, NULL, 8, FS_INT64, FS_SUM),
        -EOWNERDEAD);
    CHECK_EQUAL(atomic_load(&window->members[0].stripes[0].owner), 0); /* what it had taken is given back */
    CHECK_EQUAL(fs_window_accumulate(window, &call, 0, 0, memory, (void *)&one, NULL, 1, FS_INT64, FS_SUM), 0);
    close_victim(&victim);
}

/* ---- memory of the members' own processes ---- */

enum { PAGE = 4096, NUMBERS = 3 * PAGE / 8 };

static int64_t *there; /* of the victim: three pages, of which the last is gone */

static void open_numbers(struct member *member)
{
    for (int i = 0; i < NUMBERS; i++) there[i] = i;
    CHECK_EQUAL(fs_window_open_door(member->window), 0);
    CHECK_EQUAL(munmap(there + 2 * PAGE / 8, PAGE), 0);
}

static void start_apart(struct victim *victim)
{
    there = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(there != MAP_FAILED);
    start_victim(victim, 2, open_numbers);
    CHECK_EQUAL(fs_window_open_door(victim->member.window), 0);
    CHECK_EQUAL(fs_window_meet_doors(victim->member.window), 1);
}

TEST(window_memory_of_another_process, NEEDS_PROCESSES)
{
    struct victim victim;
    int64_t here[512], before[512], sum = 0;
    start_apart(&victim);
    struct fs_window *window = victim.member.window;
    struct fs_window_call call = call_of(&victim.member);
    unsigned char *memory = (unsigned char *)there;
    CHECK_EQUAL(fs_window_read(window, &call, 1, there, here, sizeof here), 0);
    for (int i = 0; i < 512; i++) CHECK_EQUAL(here[i], i);
    for (int i = 0; i < 512; i++) here[i] = 1000 + i;
    CHECK_EQUAL(fs_window_write(window, &call, 1, there, here, sizeof here), 0);
    CHECK_EQUAL(there[5], 0); /* its memory, not this one's */
    CHECK_EQUAL(fs_window_accumulate(window, &call, 1, 0, memory, (void *)here, (void *)before, 512, FS_INT64, FS_SUM),
                0);
    for (int i = 0; i < 512; i++) CHECK_EQUAL(before[i], here[i]);
    CHECK_EQUAL(fs_window_compare_and_swap(window, &call, 1, 8, memory + 8, &(int64_t){7}, &(int64_t){2002}, &sum, 8),
                0);
    CHECK_EQUAL(sum, 2002);
    CHECK_EQUAL(fs_window_read(window, &call, 1, there, here, sizeof here), 0);
    for (int i = 0; i < 512; i++) CHECK_EQUAL(here[i], i == 1 ? 7 : 2 * (1000 + i));
    /* every second number, more than one call of the kernel takes */
    struct fs_layout layout;
    fs_layout_block(&layout, 8);
    for (int i = 0; i < 300; i++) here[i] = -i;
    CHECK_EQUAL(fs_window_write_items(window, &call, 1, memory, &layout, 16, (void *)here, 0, 300 * 8), 0);
    CHECK_EQUAL(fs_window_accumulate_items(window, &call, 1, memory, &layout, 16, (void *)here, (void *)before, 300 * 8,
                                           FS_INT64, FS_SUM),
                0);
    for (int i = 0; i < 300; i++) CHECK_EQUAL(before[i], here[i]);
    CHECK_EQUAL(fs_window_read_items(window, &call, 1, memory, &layout, 16, (void *)before, 0, 300 * 8), 0);
    for (int i = 0; i < 300; i++) CHECK_EQUAL(before[i], -2 * i);
    CHECK_EQUAL(fs_window_read(window, &call, 1, there, here, sizeof here), 0);
    for (int i = 1; i < 512; i += 2) CHECK_EQUAL(here[i], i == 1 ? 7 : 2 * (1000 + i));
    close_victim(&victim);
    end_victim(&victim);
    munmap(there, 3 * PAGE);
}

TEST(window_memory_of_another_process_that_is_gone, NEEDS_PROCESSES)
{
    struct victim victim;
    int64_t here[512] = {0};
    start_apart(&victim);
    struct fs_window *window = victim.member.window;
    struct fs_window_call call = call_of(&victim.member);
    int64_t *gone = there + 2 * PAGE / 8;
    CHECK_EQUAL(fs_window_read(window, &call, 1, gone, here, 8), -EFAULT);
    CHECK_EQUAL(fs_window_write(window, &call, 1, gone - 1, here, 16), -EFAULT);
    CHECK_EQUAL(
        fs_window_accumulate(window, &call, 1, 0, (unsigned char *)gone, (void *)here, NULL, 1, FS_INT64, FS_SUM),
        -EFAULT);
    /* a write that failed counts as over, and nothing is held after an accumulate that did */
    const struct fs_window_door *door = &window->members[1].door;
    struct fs_guard_calls calls;
    CHECK_EQUAL(fs_window_read(window, &call, 1, (void *)(uintptr_t)door->calls, &calls, sizeof calls), 0);
    CHECK(calls.begun != 0 && calls.begun == calls.ended);
    CHECK_EQUAL(
        fs_window_accumulate(window, &call, 1, 0, (unsigned char *)there, (void *)here, NULL, 1, FS_INT64, FS_SUM), 0);
    end_victim(&victim);
    CHECK_EQUAL(fs_window_read(window, &call, 1, there, here, 8), -EOWNERDEAD);
    CHECK_EQUAL(call.culprit, 1);
    call = call_of(&victim.member);
    CHECK_EQUAL(fs_window_write(window, &call, 1, there, here, 8), -EOWNERDEAD);
    CHECK_EQUAL(call.culprit, 1);
    close_victim(&victim);
    munmap(there, 3 * PAGE);
}

TEST(window_of_a_member_that_opens_no_door, NEEDS_PROCESSES)
{
    struct victim victim;
    start_victim(&victim, 2, nothing);
    CHECK_EQUAL(fs_window_open_door(victim.member.window), 0);
    CHECK_EQUAL(fs_window_meet_doors(victim.member.window), 0);
    close_victim(&victim);
    end_victim(&victim);
}

/* What is attached all the time is found, while its neighbours come and go. */
static void *attach_and_look(void *argument)
{
    struct member *member = argument;
    enum { SPANS = 50, STEP = 100, LONG = 60 };
    int there_now[SPANS] = {0};
    for (int i = 0; i < member->shared->rounds; i++) {
        struct fs_window_call call = call_of(member);
        uint64_t which = random_below(&member->random, SPANS), start = which * STEP + STEP;
        if (member->index == 0) {
            which |= 1, start = which * STEP + STEP;
            if (there_now[which]) CHECK_EQUAL(fs_window_detach(member->window, start), 0);
            else CHECK_EQUAL(fs_window_attach(member->window, start, LONG), 0);
            there_now[which] = !there_now[which];
            CHECK_EQUAL(fs_window_is_attached(member->window, &call, 0, start, start + LONG), there_now[which]);
            CHECK_EQUAL(fs_window_detach(member->window, start + 1), -ENOENT);
            continue;
        }
        which &= ~(uint64_t)1, start = which * STEP + STEP;
        CHECK_EQUAL(fs_window_is_attached(member->window, &call, 0, start, start + LONG), 1);
        CHECK_EQUAL(fs_window_is_attached(member->window, &call, 0, start + 20, start + 30), 1);
        CHECK_EQUAL(fs_window_is_attached(member->window, &call, 0, start - 1, start + 1), 0);
        CHECK_EQUAL(fs_window_is_attached(member->window, &call, 0, start, start + LONG + 1), 0);
        CHECK_EQUAL(fs_window_is_attached(member->window, &call, 1, start, start + 1), 0);
    }
    return NULL;
}

TEST(window_table_of_what_is_attached, 0)
{
    struct shared shared = {.size = 3, .rounds = scaled(20000), .watches = {-1, -1, -1}};
    struct member members[3];
    int error = 0;
    const uint64_t bytes = fs_window_table_bytes(3);
    shared.memory = fs_window_create_memory(3, bytes, 0);
    for (int i = 0; i < 3; i++) {
        members[i] = (struct member){.shared = &shared, .index = i, .random = random_from((uint64_t)i)};
        members[i].window = fs_window_open(shared.memory, i, 3, bytes, shared.watches, 0, &error);
        CHECK_EQUAL(error, 0);
    }
    for (uint64_t i = 0; i < 50; i += 2) CHECK_EQUAL(fs_window_attach(members[0].window, 100 * i + 100, 60), 0);
    for (int i = 0; i < 3; i++) pthread_create(&members[i].thread, NULL, attach_and_look, &members[i]);
    for (int i = 0; i < 3; i++) pthread_join(members[i].thread, NULL);
    uint64_t many = 0;
    while (fs_window_attach(members[1].window, 100 * many, 50) == 0) many++;
    CHECK(many >= 1000);
    CHECK_EQUAL(fs_window_attach(members[1].window, 100 * many, 50), -ENOSPC);
    /* another member lies: nothing outside the table is touched */
    uint32_t *words = (uint32_t *)(void *)fs_window_data(members[0].window);
    words[1] = UINT32_MAX;
    CHECK_EQUAL(fs_window_attach(members[0].window, UINT64_MAX - 1, 1), -ENOSPC);
    CHECK_EQUAL(fs_window_detach(members[0].window, UINT64_MAX - 1), -ENOENT);
    struct fs_window_call call = call_of(&members[1]);
    CHECK_EQUAL(fs_window_is_attached(members[1].window, &call, 0, UINT64_MAX - 1, UINT64_MAX), 0);
    close_all(&shared, members);
}

TEST(window_of_a_forked_child, NEEDS_PROCESSES)
{
    struct shared shared;
    struct member member;
    int status;
    prepare(&shared, 1, 0);
    open_member(&member, &shared, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct fs_window_call call = call_of(&member);
        int refused = fs_window_lock(member.window, &call, 0, 1) == -ESTALE &&
                      fs_window_unlock(member.window, 0, 1) == -ESTALE &&
                      fs_window_fence(member.window, &call) == -ESTALE &&
                      fs_window_accumulate(member.window, &call, 0, 0, fs_window_data(member.window), NULL, NULL, 1,
                                           FS_INT64, FS_NO_OP) == -ESTALE;
        _exit(refused ? 0 : 1);
    }
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    fs_window_close(member.window);
    close(shared.memory);
}

TEST(window_memory_that_is_none, 0)
{
    const int watches[2] = {-1, -1};
    int error = 0, plain = memfd_create("plain", 0);
    CHECK_EQUAL(ftruncate(plain, 65536), 0);
    CHECK(fs_window_open(plain, 0, 2, 100, watches, 0, &error) == NULL);
    CHECK_EQUAL(error, -EPROTO); /* not sealed */
    CHECK_EQUAL(fs_window_create_memory(0, 100, 0), -EINVAL);
    CHECK_EQUAL(fs_window_create_memory(FS_WINDOW_MOST + 1, 100, 0), -EINVAL);
    CHECK_EQUAL(fs_window_create_memory(2, UINT64_MAX, 0), -ENOMEM);
    int memory = fs_window_create_memory(2, 100, 0);
    CHECK(memory >= 0);
    CHECK(fs_window_open(memory, 2, 2, 100, watches, 0, &error) == NULL);
    CHECK_EQUAL(error, -EINVAL);
    CHECK(fs_window_open(memory, 0, 2, 99, watches, 0, &error) == NULL);
    CHECK_EQUAL(error, -EPROTO);
    CHECK(fs_window_open(memory, 0, 1, 100, watches, 0, &error) == NULL);
    CHECK_EQUAL(error, -EPROTO);
    struct fs_window *window = fs_window_open(memory, 1, 2, 100, watches, 0, &error);
    CHECK(window != NULL);
    struct fs_window_call call = {.culprit = -1};
    CHECK_EQUAL(fs_window_lock(window, &call, 2, 1), -EINVAL);
    CHECK_EQUAL(fs_window_unlock(window, -1, 1), -EINVAL);
    CHECK_EQUAL(fs_window_accumulate(window, &call, 0, 0, fs_window_data(window), NULL, NULL, 1, FS_DOUBLE, FS_BAND),
                -EINVAL);
    fs_window_close(window);
    close(memory);
}
