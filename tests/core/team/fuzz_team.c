/* The bytes are a schedule: collective calls of one member, and what another one writes meanwhile into any word of the
 * team's memory.  It writes from within the member's waits, so a schedule does the same each time.  Nothing may crash,
 * read or write out of bounds, or go on when the schedule is over.
 *
 * At the end it says during which calls which words were written. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "team/internal.h"
#include "check.h"

#define MOST 3
#define ROOM 400000u
#define CALLS 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

enum word { READERS, SLEEPERS, FAILURE, HEAD, READY, DONE, ASLEEP, CPU, CELL, CELL_DATA, BUFFER, ANYWHERE, WORDS };
enum { CALLS_KNOWN = 11 };

static unsigned long written[CALLS_KNOWN][WORDS], finished[CALLS_KNOWN];
static unsigned char *source, *target;

static void report_written(void)
{
    int pairs = 0;
    for (int call = 0; call < CALLS_KNOWN; call++)
        for (int word = 0; word < WORDS; word++) pairs += written[call][word] != 0;
    fprintf(stderr, "reached: %d pairs of call and word\n", pairs);
    for (int call = 0; call < CALLS_KNOWN; call++) {
        fprintf(stderr, "reached: call %2d (finished %lu):", call, finished[call]);
        for (int word = 0; word < WORDS; word++) fprintf(stderr, " %lu", written[call][word]);
        fprintf(stderr, "\n");
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    source = calloc(MOST, ROOM);
    target = calloc(MOST, ROOM);
    CHECK(source && target);
    atexit(report_written);
    return 0;
}

struct schedule {
    struct fuzz_input input;
    struct fs_team *team;
    unsigned char *memory; /* the liar's mapping */
    size_t bytes;
    int call;
};

/* Mostly what a member would write there about now: else no call would get far. */
static uint64_t value_of(struct schedule *s)
{
    uint8_t how = (uint8_t)fuzz_take(&s->input, 1);
    uint64_t number = s->team->number + (how >> 2 & 1) - (how >> 3 & 1);
    if ((how & 3) == 0) return fuzz_take(&s->input, 8);
    if ((how & 3) == 1) return number;
    return fs_place(number, how & 0x80 ? FS_TEAM_LAST_STEP : how >> 4 & 7);
}

static void write_word(struct schedule *s)
{
    uint8_t which = (uint8_t)fuzz_take(&s->input, 1);
    enum word word = which % WORDS;
    struct fs_team_header *header = (struct fs_team_header *)s->memory;
    struct fs_team_member *member = &header->members[(which >> 5) % s->team->size];
    struct fs_team_cell *cell = &member->cells[s->team->number % FS_TEAM_CELLS];
    uint64_t value = value_of(s);
    size_t at;
    written[s->call][word]++;
    switch (word) {
    case READERS: atomic_store(&header->readers, (uint32_t)value); break;
    case SLEEPERS: atomic_store(&header->sleepers, (uint32_t)value); break;
    case FAILURE: atomic_store(&header->failure, value); break;
    case HEAD: header->size = header->crowded = (uint32_t)value; break;
    case READY: atomic_store(&member->ready, value); break;
    case DONE: atomic_store(&member->done, value); break;
    case ASLEEP: atomic_store(&member->asleep, (uint32_t)value); break;
    case CPU: atomic_store(&member->cpu, (uint32_t)value); break;
    case CELL: atomic_store(&cell->number, value); break;
    case CELL_DATA:
        at = fuzz_take(&s->input, 1) % (FS_TEAM_INLINE - 7);
        memcpy(cell->data + at, &value, sizeof value);
        break;
    case BUFFER:
        at = fuzz_take(&s->input, 3) % ((size_t)s->team->size * FS_TEAM_BUFFERS * FS_TEAM_BUFFER - 7);
        memcpy(s->memory + (s->team->buffers - (unsigned char *)s->team->header) + at, &value, sizeof value);
        break;
    default: at = fuzz_take(&s->input, 3) % (s->bytes - 7); memcpy(s->memory + at, &value, sizeof value);
    }
}

static int go_on(void *context)
{
    struct schedule *s = context;
    if (s->input.left == 0) return 0;
    write_word(s);
    return 1;
}

static int is_over(void *context) { return ((struct schedule *)context)->input.left == 0 ? -EINTR : 0; }

static int make_call(struct schedule *s)
{
    static const size_t lengths[8] = {0, 1, 100, 5000, 40000, 130000, 300000, 20000};
    uint8_t what = (uint8_t)fuzz_take(&s->input, 1), how = (uint8_t)fuzz_take(&s->input, 1);
    size_t length = lengths[how & 7], sizes[MOST], offsets[MOST];
    struct fs_team *team = s->team;
    int root = (how >> 3) % team->size;
    for (int i = 0; i < MOST; i++) sizes[i] = length, offsets[i] = (size_t)i * ROOM;
    struct fs_blocks blocks = {sizes, offsets};
    const unsigned char *from = how & 0x20 ? NULL : source;
    s->call = what % CALLS_KNOWN;
    switch (s->call) {
    case 0: return fs_team_barrier(team);
    case 1: return fs_team_bcast(team, target, length, root);
    case 2: return fs_team_reduce(team, source, target, length, FS_UINT8, FS_SUM, root);
    case 3: return fs_team_allreduce(team, source, target, length / 8, FS_DOUBLE, FS_SUM);
    case 4: return fs_team_scan(team, source, target, length, FS_UINT8, FS_SUM);
    case 5: return fs_team_exscan(team, source, target, length, FS_UINT8, FS_SUM);
    case 6: return fs_team_gather(team, source, length, target, &blocks, root);
    case 7: return fs_team_scatter(team, source, &blocks, target, length, root);
    case 8: return fs_team_allgather(team, from, target, &blocks);
    case 9: return fs_team_alltoall(team, source, &blocks, target, &blocks);
    default: {
        size_t counts[MOST] = {length / MOST, length / MOST, length / MOST};
        return fs_team_reduce_scatter(team, source, target, counts, FS_UINT8, FS_SUM);
    }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct schedule s = {.input = {data, length}};
    uint8_t how = (uint8_t)fuzz_take(&s.input, 1);
    int size = 2 + (how & 1), index = (how >> 1) % size, error = 0, bells[MOST], watches[MOST] = {-1, -1, -1};
    struct fs_team_hooks hooks = {.context = &s, .progress = go_on, .interrupted = is_over};
    struct fs_cma_identity identities[MOST];
    struct stat status;
    int memory = fs_team_create_memory(size, how >> 3 & 1);
    CHECK(memory >= 0);
    for (int i = 0; i < size; i++) CHECK((bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) >= 0);
    CHECK_EQUAL(fstat(memory, &status), 0);
    s.bytes = (size_t)status.st_size;
    s.memory = mmap(NULL, s.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    CHECK(s.memory != MAP_FAILED);
    s.team = fs_team_open(memory, index, size, bells, watches, 0, &hooks, &error);
    CHECK_EQUAL(error, 0);
    for (int i = 0; i < size; i++) fs_team_identify(&identities[i]);
    if (how & 0x10) { /* it reads the others' memory: they say that they can too */
        atomic_store(&s.team->header->readers, (uint32_t)size - 1);
        fs_team_meet(s.team, identities);
    }
    for (int i = 0, result = 0; i < CALLS && s.input.left > 0 && result == 0; i++) {
        result = make_call(&s);
        finished[s.call] += result == 0;
    }
    fs_team_close(s.team);
    munmap(s.memory, s.bytes);
    for (int i = 0; i < size; i++) close(bells[i]);
    close(memory);
    return 0;
}
