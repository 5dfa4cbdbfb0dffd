/* The choice of the way that a team's long data go: by the times that are told, and without a change of the result. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "check.h"
#include "connection.h"
#include "team/internal.h"

#define MOST 4
#define ALL_WAYS 3
#define BYTES ((size_t)100000)

/* A team of one member, who has nothing to copy: the choice is made all the same. */
static struct fs_team *alone(int crowded)
{
    const struct fs_team_hooks hooks = {0};
    struct fs_cma_identity identity;
    int bell = -1, watch = -1, error = 0, memory = fs_team_create_memory(1, crowded);
    struct fs_team *team = fs_team_open(memory, 0, 1, &bell, &watch, 0, &hooks, &error);
    CHECK_EQUAL(error, 0);
    fs_team_identify(&identity);
    CHECK_EQUAL(fs_team_meet(team, &identity), 1);
    close(memory);
    return team;
}

/* So many calls, of which each takes what its way costs; how many went which way. */
static void go(struct fs_team *team, size_t bytes, int many, const uint64_t *costs, int calls, int *taken)
{
    memset(taken, 0, FS_WAYS * sizeof *taken);
    for (int i = 0; i < calls; i++) {
        enum fs_team_way way = fs_team_choose(team, FS_KIND_ALLREDUCE, bytes, many);
        CHECK(way < (enum fs_team_way)many);
        taken[way]++;
        if (team->trial.fresh == NULL) continue;
        fs_team_note(team->trial.fresh, costs[way]);
        team->trial.fresh = NULL;
    }
}

static const uint64_t orders[][ALL_WAYS] = {{10, 12, 14}, {12, 10, 14}, {14, 12, 10}, {10, 50, 1000}, {1000, 50, 10}};

static int fastest(const uint64_t *costs, int many)
{
    int best = 0;
    for (int way = 1; way < many; way++)
        if (costs[way] < costs[best]) best = way;
    return best;
}

TEST(team_takes_the_fastest_way, 0)
{
    const size_t sizes[] = {FS_TEAM_CMA, BYTES, 3 << 20};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        for (int many = 2; many <= ALL_WAYS; many++)
            for (int crowded = 0; crowded < 2; crowded++)
                for (size_t size = 0; size < 3; size++) {
                    struct fs_team *team = alone(crowded);
                    int taken[FS_WAYS], best = fastest(orders[i], many);
                    go(team, sizes[size], many, orders[i], 2000, taken);
                    CHECK(taken[best] > 1850);
                    fs_team_close(team);
                }
}

/* What trials cost, beside calls that all go the fastest way: a few percent. */
TEST(team_trials_cost_little, 0)
{
    for (uint64_t slow = 10; slow < 1000; slow += slow / 2) {
        uint64_t costs[ALL_WAYS] = {slow, 10, slow}, spent = 0;
        int taken[FS_WAYS], calls = 100000;
        struct fs_team *team = alone(0);
        go(team, BYTES, ALL_WAYS, costs, calls, taken);
        for (int way = 0; way < ALL_WAYS; way++) spent += (uint64_t)taken[way] * costs[way];
        CHECK(spent * 100 <= (uint64_t)calls * 10 * (slow <= 300 ? 105 : 115));
        fs_team_close(team);
    }
}

/* The cores' distance changes, and with it what is fastest. */
TEST(team_learns_that_another_way_is_faster_now, 0)
{
    struct fs_team *team = alone(1);
    int taken[FS_WAYS];
    for (size_t i = 0; i < 4 * sizeof orders / sizeof *orders; i++) {
        const uint64_t *costs = orders[i * 3 % (sizeof orders / sizeof *orders)];
        go(team, BYTES, ALL_WAYS, costs, 256 * 24, taken);
        go(team, BYTES, ALL_WAYS, costs, 256 * 4, taken);
        CHECK(taken[fastest(costs, ALL_WAYS)] > 256 * 4 - 40);
    }
    fs_team_close(team);
}

TEST(team_goes_the_way_that_it_is_told, 0)
{
    const uint64_t costs[ALL_WAYS] = {10, 20, 30};
    struct fs_team *team = alone(0);
    int taken[FS_WAYS];
    fs_team_keep(team, FS_TEAM_DIRECT);
    go(team, BYTES, ALL_WAYS, costs, 1000, taken);
    CHECK_EQUAL(taken[FS_WAY_DIRECT], 1000);
    fs_team_keep(team, FS_TEAM_BUFFERED);
    go(team, BYTES, ALL_WAYS, costs, 1000, taken);
    CHECK_EQUAL(taken[FS_WAY_BUFFERS], 1000);
    go(team, FS_TEAM_CMA - 1, ALL_WAYS, costs, 1000, taken);
    CHECK_EQUAL(taken[FS_WAY_BUFFERS], 1000);
    fs_team_close(team);
}

/* ---- the same bits ---- */

struct shared {
    int size, memory, bells[MOST], watches[MOST];
    struct fs_cma_identity identities[MOST];
    pthread_barrier_t opened;
};

struct member {
    struct shared *shared;
    int index;
    pthread_t thread;
};

static double value_of(int member, size_t at, int call)
{
    struct random random = random_from((uint64_t)member * 1000003 + at * 7 + (uint64_t)call * 131);
    double whole = (double)(random_next(&random) >> 11);
    return whole / (double)((uint64_t)1 << random_below(&random, 40));
}

static double in_order(int size, size_t at, int call)
{
    double sum = value_of(0, at, call);
    for (int i = 1; i < size; i++) sum += value_of(i, at, call);
    return sum;
}

static void check_bits(struct fs_team *team, int call, double *source, double *target)
{
    size_t count = 20000, counts[MOST], mine = 0;
    int size = team->size, in_place = call % 2;
    for (size_t i = 0; i < count; i++) source[i] = target[i] = value_of(team->index, i, call);
    CHECK_EQUAL(fs_team_allreduce(team, in_place ? NULL : source, target, count, FS_DOUBLE, FS_SUM), 0);
    for (size_t i = 0; i < count; i++) CHECK(target[i] == in_order(size, i, call));
    for (int i = 0; i < size; i++) counts[i] = count / (size_t)size;
    mine = (size_t)team->index * counts[0];
    memcpy(target, source, count * sizeof *source);
    CHECK_EQUAL(fs_team_reduce_scatter(team, in_place ? target : source, target, counts, FS_DOUBLE, FS_SUM), 0);
    for (size_t i = 0; i < counts[0]; i++) CHECK(target[i] == in_order(size, mine + i, call));
    memcpy(target, source, count * sizeof *source);
    int root = call % size;
    CHECK_EQUAL(
        fs_team_reduce(team, in_place && team->index == root ? NULL : source, target, count, FS_DOUBLE, FS_SUM, root),
        0);
    for (size_t i = 0; i < count && team->index == root; i++) CHECK(target[i] == in_order(size, i, call));
}

static void *reduce_by_every_way(void *argument)
{
    struct member *member = argument;
    struct shared *shared = member->shared;
    const struct fs_team_hooks hooks = {0};
    int error = 0;
    struct fs_team *team =
        fs_team_open(shared->memory, member->index, shared->size, shared->bells, shared->watches, 0, &hooks, &error);
    CHECK_EQUAL(error, 0);
    double *source = malloc(BYTES * 2), *target = malloc(BYTES * 2);
    pthread_barrier_wait(&shared->opened);
    fs_team_meet(team, shared->identities);
    pthread_barrier_wait(&shared->opened);
    for (int call = 0; call < 24; call++) {
        fs_team_keep(team, call < 18 ? FS_TEAM_MEASURED : call < 21 ? FS_TEAM_DIRECT : FS_TEAM_BUFFERED);
        check_bits(team, call, source, target);
    }
    fs_team_close(team);
    free(source), free(target);
    return NULL;
}

TEST(team_every_way_gives_the_same_bits, 0)
{
    for (int size = 2; size <= MOST; size++) {
        struct shared shared = {.size = size, .memory = fs_team_create_memory(size, 0)};
        struct member members[MOST];
        map_same_memory_once = 1;
        CHECK(shared.memory >= 0);
        for (int i = 0; i < size; i++) {
            shared.bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), shared.watches[i] = -1;
            fs_team_identify(&shared.identities[i]);
        }
        pthread_barrier_init(&shared.opened, NULL, (unsigned)size);
        for (int i = 0; i < size; i++) {
            members[i] = (struct member){.shared = &shared, .index = i};
            CHECK_EQUAL(pthread_create(&members[i].thread, NULL, reduce_by_every_way, &members[i]), 0);
        }
        for (int i = 0; i < size; i++) pthread_join(members[i].thread, NULL), close(shared.bells[i]);
        close(shared.memory);
    }
}
