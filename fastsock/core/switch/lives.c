#include "lives.h"

#include <string.h>

#include "system.h"

/* What an attach costs, in calls of which each saves as much: on one core a call through a ring is hardly cheaper than one
 * on TCP.  By bench/first_calls.py. */
#define COST_FAR 8.0
#define COST_NEAR 256.0
#define COST_LOOK 2.0    /* of a look that came to nothing */
#define KEPT (31.0 / 32) /* of the past, with each life */
#define PLACES 256u
#define ONE_IN 16u /* connections looks where the last looked in vain */
enum { THRESHOLDS = 11, MIDDLE = 3 };

_Static_assert(1 << (THRESHOLDS - 1) == FS_LIVES_LAST && 1 << MIDDLE == FS_LIVES_FIRST, "powers of two");

struct listener {
    struct fs_place place;
    int is_known, in_vain, best;
    double cost; /* of an attach, by where the other ends ran last */
    double sums[THRESHOLDS];
};

/* All under the process's lock. */
static struct listener listeners[PLACES];
static unsigned holders[THRESHOLDS]; /* listeners by their best threshold */

static struct listener *place_of(const struct fs_place *place)
{
    uint32_t hash = place->port;
    for (size_t i = 0; i < sizeof place->address; i++) hash = (hash ^ place->address[i]) * 16777619u;
    return &listeners[(hash ^ hash >> 16) % PLACES];
}

static int is_of(const struct listener *listener, const struct fs_place *place)
{
    return listener->is_known && listener->place.port == place->port && listener->place.scope == place->scope &&
           memcmp(listener->place.address, place->address, sizeof place->address) == 0;
}

static void begin(struct listener *listener, const struct fs_place *place)
{
    if (listener->is_known) holders[listener->best]--;
    *listener = (struct listener){.place = *place, .is_known = 1, .best = MIDDLE, .cost = COST_FAR};
    for (int i = 0; i < THRESHOLDS; i++) listener->sums[i] = i < MIDDLE ? MIDDLE - i : i - MIDDLE;
    holders[MIDDLE]++;
}

/* What such a life would have cost with that threshold. */
static double cost_of(const struct listener *listener, const struct fs_life *life, uint64_t threshold)
{
    double calls = (double)life->calls;
    if (life->calls < threshold) return calls;
    if (life->outcome == FS_LIFE_CUT_OFF) return calls + COST_LOOK;
    double on_tcp = (double)(threshold + life->late);
    return (on_tcp < calls ? on_tcp : calls) + listener->cost;
}

static void choose(struct listener *listener)
{
    int best = MIDDLE;
    for (int i = 0; i < THRESHOLDS; i++)
        if (listener->sums[i] < listener->sums[best]) best = i;
    holders[listener->best]--;
    holders[best]++;
    listener->best = best;
}

void fs_lives_learn(const struct fs_place *place, const struct fs_life *life)
{
    fs_hold_process();
    struct listener *listener = place_of(place);
    if (!is_of(listener, place)) begin(listener, place);
    if (life->outcome == FS_LIFE_NEAR) listener->cost = COST_NEAR;
    if (life->outcome == FS_LIFE_FAR) listener->cost = COST_FAR;
    if (life->outcome == FS_LIFE_NEAR || life->outcome == FS_LIFE_FAR) listener->in_vain = 0;
    if (life->outcome == FS_LIFE_IN_VAIN) listener->in_vain = 1;
    if (!listener->in_vain) {
        for (int i = 0; i < THRESHOLDS; i++)
            listener->sums[i] = listener->sums[i] * KEPT + cost_of(listener, life, 1u << i);
        choose(listener);
    }
    fs_release_process();
}

struct fs_threshold fs_lives_threshold(const struct fs_place *place, uint16_t from)
{
    struct fs_threshold threshold = {FS_LIVES_FIRST, FS_LESSON_NONE};
    fs_hold_process();
    const struct listener *listener = place_of(place);
    if (is_of(listener, place)) {
        threshold = (struct fs_threshold){1u << listener->best, FS_LESSON_LIVES};
        if (listener->in_vain) {
            int tries = from / 2 % ONE_IN == 0; /* the kernel gives out every second port */
            threshold = (struct fs_threshold){tries ? FS_LIVES_FIRST : FS_LIVES_LAST, FS_LESSON_VAIN};
        }
    }
    fs_release_process();
    return threshold;
}

uint32_t fs_lives_least(void)
{
    int least = 0;
    fs_hold_process();
    while (least < MIDDLE && holders[least] == 0) least++;
    fs_release_process();
    return 1u << least;
}

void fs_lives_clear(void)
{
    fs_hold_process();
    memset(listeners, 0, sizeof listeners);
    memset(holders, 0, sizeof holders);
    fs_release_process();
}
