/* Collectives over shared memory between threads, which a sanitizer can follow, and with members that die or lie. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "connection.h"
#include "system.h"
#include "team/memory.h"
#include "team/team.h"

#define MOST 6
#define LARGEST 400000u

struct shared {
    int size, memory, rounds, direct;
    int bells[MOST], watches[MOST];
    struct fs_cma_identity identities[MOST];
    pthread_barrier_t opened;
    uint64_t deadline_ns;
};

struct member {
    struct shared *shared;
    int index;
    struct fs_team *team;
    unsigned char *source, *target;
    pthread_t thread;
};

static void prepare(struct shared *shared, int size, int crowded)
{
    shared->size = size;
    shared->memory = fs_team_create_memory(size, crowded);
    CHECK(shared->memory >= 0);
    for (int i = 0; i < size; i++) {
        shared->bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        shared->watches[i] = -1;
        fs_team_identify(&shared->identities[i]);
    }
    pthread_barrier_init(&shared->opened, NULL, (unsigned)size);
}

static void open_member(struct member *member, const struct fs_team_hooks *hooks)
{
    struct shared *shared = member->shared;
    int error = 0;
    member->team =
        fs_team_open(shared->memory, member->index, shared->size, shared->bells, shared->watches, 0, hooks, &error);
    CHECK_EQUAL(error, 0);
    member->source = malloc(MOST * LARGEST);
    member->target = malloc(MOST * LARGEST);
    pthread_barrier_wait(&shared->opened);
    if (shared->direct) fs_team_meet(member->team, shared->identities);
    pthread_barrier_wait(&shared->opened);
}

static void close_member(struct member *member)
{
    fs_team_close(member->team);
    free(member->source);
    free(member->target);
}

static void in_threads(struct shared *shared, struct member *members, void *(*body)(void *))
{
    for (int i = 0; i < shared->size; i++) {
        members[i] = (struct member){.shared = shared, .index = i};
        CHECK_EQUAL(pthread_create(&members[i].thread, NULL, body, &members[i]), 0);
    }
    for (int i = 0; i < shared->size; i++) pthread_join(members[i].thread, NULL);
}

/* What a member gives in a call: any byte can be computed by everybody. */
static unsigned char byte_of(uint64_t call, int member, size_t at)
{
    return (unsigned char)(call * 7 + (uint64_t)member * 31 + at * 3);
}

static void fill(unsigned char *target, uint64_t call, int member, size_t length)
{
    for (size_t i = 0; i < length; i++) target[i] = byte_of(call, member, i);
}

static void expect(const unsigned char *got, uint64_t call, int member, size_t from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (got[i] != byte_of(call, member, from + i))
            fail(__FILE__, __LINE__, "call %d, byte %zu of member %d", (int)call, i, member);
}

static void expect_sum(const unsigned char *got, uint64_t call, int members, size_t from, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char sum = 0;
        for (int m = 0; m < members; m++) sum = (unsigned char)(sum + byte_of(call, m, from + i));
        if (got[i] != sum)
            fail(__FILE__, __LINE__, "call %d, sum of byte %zu is %d, not %d", (int)call, i, got[i], sum);
    }
}

/* Blocks of different sizes with a gap before each. */
struct blocks {
    size_t sizes[MOST], offsets[MOST];
};

static void lay_out(struct blocks *blocks, int size, struct random *random, size_t largest)
{
    size_t at = 0;
    for (int i = 0; i < size; i++) {
        blocks->sizes[i] = random_size(random, largest) - 1;
        blocks->offsets[i] = at += random_below(random, 3);
        at += blocks->sizes[i];
    }
}

static void rooted(struct member *member, uint64_t call, struct random *random, int what)
{
    int size = member->shared->size, me = member->index, root = (int)random_below(random, (uint64_t)size);
    size_t length = random_size(random, LARGEST) - 1;
    struct blocks layout;
    lay_out(&layout, size, random, LARGEST / 2);
    struct fs_blocks blocks = {layout.sizes, layout.offsets};
    if (what == 0) {
        fill(member->target, call, root, me == root ? length : 0);
        CHECK_EQUAL(fs_team_bcast(member->team, member->target, length, root), 0);
        expect(member->target, call, root, 0, length);
    } else if (what == 1) {
        fill(member->source, call, me, length);
        CHECK_EQUAL(fs_team_reduce(member->team, member->source, member->target, length, FS_UINT8, FS_SUM, root), 0);
        if (me == root) expect_sum(member->target, call, size, 0, length);
    } else if (what == 2) {
        fill(member->source, call, me, layout.sizes[me]);
        CHECK_EQUAL(fs_team_gather(member->team, member->source, layout.sizes[me], member->target, &blocks, root), 0);
        for (int i = 0; me == root && i < size; i++)
            expect(member->target + layout.offsets[i], call, i, 0, layout.sizes[i]);
    } else {
        for (int i = 0; me == root && i < size; i++) fill(member->source + layout.offsets[i], call, i, layout.sizes[i]);
        CHECK_EQUAL(fs_team_scatter(member->team, member->source, &blocks, member->target, layout.sizes[me], root), 0);
        expect(member->target, call, me, 0, layout.sizes[me]);
    }
}

static void to_all(struct member *member, uint64_t call, struct random *random, int what)
{
    int size = member->shared->size, me = member->index;
    size_t length = random_size(random, LARGEST) - 1, first = 0;
    struct blocks layout, out, in;
    lay_out(&layout, size, random, LARGEST / 2);
    struct fs_blocks blocks = {layout.sizes, layout.offsets};
    fill(member->source, call, me, length);
    int in_place = random_below(random, 3) == 0;
    if (what == 0) {
        if (in_place) fill(member->target, call, me, length);
        CHECK_EQUAL(
            fs_team_allreduce(member->team, in_place ? NULL : member->source, member->target, length, FS_UINT8, FS_SUM),
            0);
        expect_sum(member->target, call, size, 0, length);
    } else if (what == 1) {
        CHECK_EQUAL(fs_team_scan(member->team, member->source, member->target, length, FS_UINT8, FS_SUM), 0);
        expect_sum(member->target, call, me + 1, 0, length);
    } else if (what == 2) {
        CHECK_EQUAL(fs_team_exscan(member->team, member->source, member->target, length, FS_UINT8, FS_SUM), 0);
        if (me > 0) expect_sum(member->target, call, me, 0, length);
    } else if (what == 3) {
        fill(member->source, call, me, layout.sizes[me]);
        CHECK_EQUAL(fs_team_allgather(member->team, member->source, member->target, &blocks), 0);
        for (int i = 0; i < size; i++) expect(member->target + layout.offsets[i], call, i, 0, layout.sizes[i]);
    } else if (what == 4) {
        for (int i = 0; i < size; i++) fill(member->source + first, call, me, 0), first += layout.sizes[i];
        fill(in_place ? member->target : member->source, call, me, first);
        /* in place is said by NULL, or by an array that begins where the result does */
        const unsigned char *own = !in_place ? member->source : call % 2 ? NULL : member->target;
        CHECK_EQUAL(fs_team_reduce_scatter(member->team, own, member->target, layout.sizes, FS_UINT8, FS_SUM), 0);
        size_t mine = 0;
        for (int i = 0; i < me; i++) mine += layout.sizes[i];
        expect_sum(member->target, call, size, mine, layout.sizes[me]);
    } else if (what == 5) {
        for (int from = 0; from < size; from++) /* all rows are drawn by all; mine goes, my column comes */
            for (int to = 0; to < size; to++) {
                size_t bytes = random_size(random, LARGEST / 4) - 1;
                if (from == me) out.sizes[to] = bytes;
                if (to == me) in.sizes[from] = bytes;
            }
        for (int i = 0; i < size; i++) out.offsets[i] = (size_t)i * LARGEST, in.offsets[i] = (size_t)i * LARGEST;
        for (int i = 0; i < size; i++) fill(member->source + out.offsets[i], call + (uint64_t)i, me, out.sizes[i]);
        struct fs_blocks going = {out.sizes, out.offsets}, coming = {in.sizes, in.offsets};
        CHECK_EQUAL(fs_team_alltoall(member->team, member->source, &going, member->target, &coming), 0);
        for (int i = 0; i < size; i++) expect(member->target + in.offsets[i], call + (uint64_t)me, i, 0, in.sizes[i]);
    } else {
        CHECK_EQUAL(fs_team_barrier(member->team), 0);
    }
}

static void random_call(struct member *member, uint64_t call, struct random *random)
{
    int what = (int)random_below(random, 11);
    if (what < 4) rooted(member, call, random, what);
    else to_all(member, call, random, what - 4);
}

static void *run_random(void *argument)
{
    struct member *member = argument;
    struct fs_team_hooks hooks = {0};
    struct random random = random_from((uint64_t)member->shared->size), own = random_from((uint64_t)member->index + 80);
    open_member(member, &hooks);
    for (int call = 0; call < member->shared->rounds; call++) {
        /* every member would take another way, and changes its mind from call to call */
        fs_team_keep(member->team, (enum fs_team_kept)random_below(&own, 3));
        if (random_below(&own, 200) == 0) usleep((useconds_t)random_below(&own, 2000));
        random_call(member, (uint64_t)call, &random);
    }
    close_member(member);
    return NULL;
}

static void try_random(int size, int crowded, int direct)
{
    struct shared shared = {.rounds = scaled(600), .direct = direct};
    struct member members[MOST];
    map_same_memory_once = 1;
    prepare(&shared, size, crowded);
    in_threads(&shared, members, run_random);
}

TEST(team_random_two, 0) { try_random(2, 0, 1); }
TEST(team_random_two_through_buffers, 0) { try_random(2, 0, 0); }
TEST(team_random_four, 0) { try_random(4, 0, 1); }
TEST(team_random_three_crowded, 0) { try_random(3, 1, 1); }
TEST(team_random_five_crowded_through_buffers, 0) { try_random(5, 1, 0); }

/* ---- long lives and long calls ---- */

#define FAR_IN_HOPS ((1 << (FS_TEAM_NUMBER_BITS - 1)) / FS_TEAM_RENEWED + 1) /* more than half around */

/* As after so many small broadcasts: receivers of these wait for nobody, and buffers lie still. */
static void *live_long(void *argument)
{
    struct member *member = argument;
    struct fs_team_hooks hooks = {0};
    struct random random = random_from(90);
    open_member(member, &hooks);
    struct fs_team *team = member->team;
    for (int hop = 0; hop < 2 * FAR_IN_HOPS; hop++) {
        for (int call = 0; hop % FAR_IN_HOPS == 0 && call < 20; call++) random_call(member, (uint64_t)call, &random);
        pthread_barrier_wait(&member->shared->opened);
        team->number += FS_TEAM_RENEWED - 1 - team->number % FS_TEAM_RENEWED;
        atomic_store(&team->own->done, fs_place(team->number, 0));
        pthread_barrier_wait(&member->shared->opened);
        CHECK_EQUAL(fs_team_bcast(team, member->target, 1, 0), 0);
    }
    for (int call = 0; call < 20; call++) random_call(member, (uint64_t)call, &random);
    close_member(member);
    return NULL;
}

TEST(team_lives_longer_than_its_numbers, 0)
{
    for (int size = 2; size < 4; size++) {
        struct shared shared = {.direct = size == 2};
        struct member members[MOST];
        map_same_memory_once = 1;
        prepare(&shared, size, size > 2);
        in_threads(&shared, members, live_long);
        close(shared.memory);
        for (int i = 0; i < size; i++) close(shared.bells[i]);
    }
}

/* A long array of little memory: the same pages again and again. */
static unsigned char *map_repeated(int memory, size_t period, size_t length)
{
    unsigned char *array = mmap(NULL, length + period, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(array != MAP_FAILED);
    for (size_t at = 0; at < length; at += period)
        CHECK(mmap(array + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) != MAP_FAILED);
    return array;
}

#define PERIOD (17u * 65536u)
#define STEPS (((size_t)1 << 18) + 3)

struct crowd {
    int memory, index, bells[FS_TEAM_MOST], watches[FS_TEAM_MOST];
    unsigned char *source, *target;
    size_t length;
    pthread_barrier_t *between;
};

/* The first member gives the last one more than any number of steps that a few bits could tell. */
static void *call_in_crowd(void *argument)
{
    const struct crowd *crowd = argument;
    const int first = crowd->index == 0, last = crowd->index == FS_TEAM_MOST - 1;
    size_t out[FS_TEAM_MOST] = {0}, in[FS_TEAM_MOST] = {0}, offsets[FS_TEAM_MOST] = {0};
    struct fs_team_hooks hooks = {0};
    int error = 0;
    struct fs_team *team =
        fs_team_open(crowd->memory, crowd->index, FS_TEAM_MOST, crowd->bells, crowd->watches, 0, &hooks, &error);
    CHECK_EQUAL(error, 0);
    out[FS_TEAM_MOST - 1] = first ? crowd->length : 0;
    in[0] = last ? crowd->length : 0;
    struct fs_blocks going = {out, offsets}, coming = {in, offsets};
    CHECK_EQUAL(fs_team_scatter(team, crowd->source, &going, crowd->target, in[0], 0), 0);
    pthread_barrier_wait(crowd->between); /* the others only sleep meanwhile */
    if (last) {
        CHECK(memcmp(crowd->target, crowd->source, PERIOD) == 0);
        memset(crowd->target, 0, PERIOD);
    }
    CHECK_EQUAL(fs_team_alltoall(team, crowd->source, &going, crowd->target, &coming), 0);
    pthread_barrier_wait(crowd->between);
    CHECK_EQUAL(fs_team_barrier(team), 0);
    if (last) CHECK(memcmp(crowd->target, crowd->source, PERIOD) == 0);
    fs_team_close(team);
    return NULL;
}

TEST(team_no_length_is_too_long, 0)
{
    static struct crowd crowds[FS_TEAM_MOST];
    pthread_t threads[FS_TEAM_MOST];
    struct random random = random_from(91);
    pthread_barrier_t between;
    struct crowd all = {.memory = fs_team_create_memory(FS_TEAM_MOST, 1), .between = &between};
    int pages[2];
    map_same_memory_once = 1;
    all.length = STEPS * (FS_TEAM_BUFFER / FS_TEAM_MOST / 64 * 64) + 5;
    CHECK(all.memory >= 0);
    for (int i = 0; i < 2; i++) {
        CHECK((pages[i] = memfd_create("array", MFD_CLOEXEC)) >= 0);
        CHECK_EQUAL(ftruncate(pages[i], PERIOD), 0);
    }
    all.source = map_repeated(pages[0], PERIOD, all.length);
    all.target = map_repeated(pages[1], PERIOD, all.length);
    for (size_t i = 0; i < PERIOD; i++) all.source[i] = (unsigned char)random_next(&random);
    for (int i = 0; i < FS_TEAM_MOST; i++) all.watches[i] = -1, all.bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_barrier_init(&between, NULL, FS_TEAM_MOST);
    for (int i = 0; i < FS_TEAM_MOST; i++) {
        crowds[i] = all;
        crowds[i].index = i;
        CHECK_EQUAL(pthread_create(&threads[i], NULL, call_in_crowd, &crowds[i]), 0);
    }
    for (int i = 0; i < FS_TEAM_MOST; i++) pthread_join(threads[i], NULL), close(all.bells[i]);
    munmap(all.source, all.length + PERIOD), munmap(all.target, all.length + PERIOD);
    close(pages[0]), close(pages[1]), close(all.memory);
}

/* ---- a member that writes anything anywhere ---- */

static int give_up_late(void *context) { return fs_now_ns() > ((struct shared *)context)->deadline_ns ? -EINTR : 0; }

static void *run_beside_liar(void *argument)
{
    struct member *member = argument;
    struct fs_team_hooks hooks = {.context = member->shared, .interrupted = give_up_late};
    struct random random = random_from(77);
    open_member(member, &hooks);
    memset(member->source, 1, LARGEST);
    size_t sizes[2] = {LARGEST / 2, LARGEST / 2}, offsets[2] = {0, LARGEST / 2};
    struct fs_blocks blocks = {sizes, offsets};
    for (int result = 0; result == 0 && fs_now_ns() < member->shared->deadline_ns;) {
        size_t length = random_size(&random, LARGEST / 2);
        sizes[0] = sizes[1] = length;
        result = fs_team_alltoall(member->team, member->source, &blocks, member->target, &blocks);
        if (result == 0) result = fs_team_allgather(member->team, member->source, member->target, &blocks);
        if (result == 0) result = fs_team_bcast(member->team, member->target, length, 0);
        if (result == 0)
            result = fs_team_allreduce(member->team, member->source, member->target, length, FS_UINT8, FS_SUM);
    }
    close_member(member);
    return NULL;
}

static void *scribble(void *argument)
{
    struct shared *shared = argument;
    struct random random = random_from(78);
    struct stat status;
    CHECK_EQUAL(fstat(shared->memory, &status), 0);
    unsigned char *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, shared->memory, 0);
    CHECK(memory != MAP_FAILED);
    pthread_barrier_wait(&shared->opened); /* who opens memory that lies is told so: other tests' concern */
    pthread_barrier_wait(&shared->opened);
    while (fs_now_ns() < shared->deadline_ns) {
        size_t at = random_below(&random, random_below(&random, 2) ? 32768 : (uint64_t)status.st_size - 8) & ~(size_t)7;
        uint64_t value =
            random_below(&random, 3) ? random_next(&random) : fs_place(FS_TEAM_FIRST + random_below(&random, 100), 0);
        *(volatile uint64_t *)(memory + at) = value;
        if (random_below(&random, 50) == 0) usleep(100);
    }
    munmap(memory, (size_t)status.st_size);
    return NULL;
}

TEST(team_lies_crash_nobody, NEEDS_PROCESSES) /* races are the point: not for the thread sanitizer */
{
    for (int i = 0; i < scaled(20); i++) {
        struct shared shared = {.direct = 1};
        struct member members[MOST];
        pthread_t liar;
        prepare(&shared, 2, 0);
        pthread_barrier_init(&shared.opened, NULL, 3);
        shared.deadline_ns = fs_now_ns() + 100000000;
        CHECK_EQUAL(pthread_create(&liar, NULL, scribble, &shared), 0);
        in_threads(&shared, members, run_beside_liar);
        pthread_join(liar, NULL);
        close(shared.memory);
        for (int m = 0; m < 2; m++) close(shared.bells[m]);
    }
}

/* ---- a member that is killed ---- */

static int lives(struct member *member)
{
    int result = 0;
    while (result == 0)
        result = fs_team_allreduce(member->team, member->source, member->target, LARGEST / 2, FS_UINT8, FS_SUM);
    return result;
}

TEST(team_killed_member_is_named, NEEDS_PROCESSES)
{
    struct random random = random_from(79);
    const struct fs_team_hooks hooks = {0};
    for (int i = 0; i < scaled(30); i++) {
        struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        *shared = (struct shared){.direct = 1};
        prepare(shared, 2, 0);
        pthread_barrierattr_t attributes;
        pthread_barrierattr_init(&attributes);
        pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&shared->opened, &attributes, 2);
        pid_t victim = fork();
        if (victim == 0) {
            struct member member = {.shared = shared, .index = 1};
            fs_team_identify(&shared->identities[1]);
            open_member(&member, &hooks);
            _exit(lives(&member) == 0);
        }
        fs_team_identify(&shared->identities[0]);
        shared->identities[1].process = victim;
        shared->watches[1] = (int)syscall(SYS_pidfd_open, victim, 0);
        struct member member = {.shared = shared, .index = 0};
        open_member(&member, &hooks); /* the victim too: before that it has no other way to be waited for */
        pid_t killer = fork();
        if (killer == 0) {
            usleep((useconds_t)random_below(&random, 30000));
            kill(victim, SIGKILL);
            _exit(0);
        }
        CHECK_EQUAL(lives(&member), -EOWNERDEAD);
        CHECK_EQUAL(fs_team_culprit(member.team), 1);
        CHECK_EQUAL(fs_team_barrier(member.team), -EOWNERDEAD);
        close_member(&member);
        waitpid(victim, NULL, 0);
        waitpid(killer, NULL, 0);
        close(shared->memory), close(shared->bells[0]), close(shared->bells[1]), close(shared->watches[1]);
        munmap(shared, sizeof *shared);
    }
}

/* What it inherits is its parent's place in the memory of all. */
TEST(team_forked_child_is_no_member, NEEDS_PROCESSES)
{
    const struct fs_team_hooks hooks = {0};
    int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), watch = -1, error = 0;
    struct fs_team *team = fs_team_open(fs_team_create_memory(1, 0), 0, 1, &bell, &watch, 0, &hooks, &error);
    CHECK_EQUAL(fs_team_barrier(team), 0);
    pid_t child = fork();
    if (child == 0) {
        int refused = fs_team_barrier(team) == -ESTALE;
        fs_team_close(team);
        _exit(!refused);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(fs_team_barrier(team), 0);
    fs_team_close(team);
    close(bell);
}

/* ---- kernels ---- */

static const int with_sum[] = {FS_INT8,   FS_INT16,  FS_INT32, FS_INT64,  FS_UINT8,      FS_UINT16,
                               FS_UINT32, FS_UINT64, FS_FLOAT, FS_DOUBLE, FS_LONG_DOUBLE};

static void *only_meets(void *argument)
{
    struct member *member = argument;
    const struct fs_team_hooks hooks = {0};
    open_member(member, &hooks);
    close_member(member);
    return NULL;
}

/* The first use of a buffer is timed, and compared with a read that finds its memory made. */
TEST(team_buffers_are_made_before_they_are_timed, 0)
{
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!fs_populate(page, 4096)) return; /* this kernel cannot */
    for (int crowded = 0; crowded < 2; crowded++) {
        struct shared shared = {.direct = 1};
        struct member members[2];
        struct stat status;
        prepare(&shared, 2, crowded);
        in_threads(&shared, members, only_meets);
        CHECK_EQUAL(fstat(shared.memory, &status), 0);
        CHECK_EQUAL(status.st_blocks * 512 >= 2 * FS_TEAM_BUFFERS * FS_TEAM_FRONT, !crowded);
        for (int i = 0; i < 2; i++) close(shared.bells[i]);
        close(shared.memory);
    }
    munmap(page, 4096);
}

TEST(kernels_at_any_address, 0)
{
    static unsigned char left[4096], right[4096], target[4096], aside[4096];
    for (size_t i = 0; i < sizeof(left); i++) left[i] = (unsigned char)i, right[i] = (unsigned char)(i * 7);
    for (int type = 0; type < FS_TYPES; type++)
        for (int operation = 0; operation < FS_OPERATIONS; operation++) {
            fs_kernel *kernel = fs_kernel_of(operation, type);
            size_t element = fs_type_size(type), count = 3000 / element;
            if (kernel == NULL) continue;
            for (int at = 0; at < 4; at++) {
                memcpy(aside + at, right + at, count * element);
                kernel(left + at, right + at, target + at, count);
                kernel(left + at, aside + at, aside + at, count);  /* onto itself */
                for (size_t i = 0; i < count && element < 16; i++) /* longer ones have padding */
                    if (memcmp(target + at + i * element, aside + at + i * element, fs_type_size(type)) != 0 &&
                        type < FS_FLOAT)
                        fail(__FILE__, __LINE__, "operation %d of type %d, element %zu", operation, type, i);
            }
        }
}

TEST(kernels_add, 0)
{
    for (size_t k = 0; k < sizeof with_sum / sizeof *with_sum; k++) {
        _Alignas(16) unsigned char two[16] = {0}, three[16] = {0}, sum[16] = {0};
        int type = with_sum[k];
        size_t element = fs_type_size(type);
        if (type == FS_FLOAT) *(float *)two = 2, *(float *)three = 3;
        else if (type == FS_DOUBLE) *(double *)two = 2, *(double *)three = 3;
        else if (type == FS_LONG_DOUBLE) *(long double *)two = 2, *(long double *)three = 3;
        else two[0] = 2, three[0] = 3; /* little endian */
        fs_kernel_of(FS_SUM, type)(two, three, sum, 1);
        if (type == FS_FLOAT) CHECK(*(float *)sum == 5);
        else if (type == FS_DOUBLE) CHECK(*(double *)sum == 5);
        else if (type == FS_LONG_DOUBLE) CHECK(*(long double *)sum == 5);
        else CHECK(sum[0] == 5 && (element == 1 || sum[1] == 0));
    }
    CHECK(fs_kernel_of(FS_BAND, FS_DOUBLE) == NULL);
    CHECK(fs_kernel_of(-1, FS_INT8) == NULL);
    CHECK(fs_kernel_of(FS_SUM, FS_TYPES) == NULL);
    CHECK_EQUAL(fs_type_size(-1), 0);
}
