/* Which way are two cores placed?  Tells the round trip of one cache line between them, in microseconds.
 *
 *   probe CORE_A CORE_B
 *
 * A virtual machine's host moves its cores about, and a ring's speed follows the cache line's.  Processes that already
 * sit on the two cores load this file as a library: probe_ask() in one, probe_answer() in the other.  There it also tells
 * what the same work takes on both at once: nearly twice as long where a core's other hardware thread is busy. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 10, WARM = 20, TRIPS = 300, LIMIT_MS = 100, LOOK_NS = 200000 };
enum { CHAINS = 16, STEPS = 2500, WORKS = 4 };
#define OVER (~0u)

struct probe {
    _Alignas(128) atomic_uint ball;
    _Alignas(128) atomic_uint back;
    _Alignas(128) atomic_uint turns; /* questions that were answered */
    atomic_uint worked;
    double work; /* microseconds, by who answered */
};

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void throw(struct probe *probe, unsigned i) {
    atomic_store_explicit(&probe->ball, i, memory_order_release);
    while (atomic_load_explicit(&probe->back, memory_order_acquire) != i) {}
}

/* As many independent chains as keep a whole core busy: one that is shared shows. */
static double work(void) {
    static _Thread_local volatile uint64_t sink;
    uint64_t x[CHAINS];
    double best = 1e9;
    for (int i = 0; i < CHAINS; i++) x[i] = (uint64_t)i + 1;
    for (int many = 0; many < WORKS; many++) {
        double start = now_us();
        for (int step = 0; step < STEPS; step++)
            for (int i = 0; i < CHAINS; i++) x[i] ^= x[i] << 13, x[i] ^= x[i] >> 7, x[i] ^= x[i] << 17;
        double took = now_us() - start;
        if (took < best) best = took;
    }
    for (int i = 0; i < CHAINS; i++) sink += x[i];
    return best;
}

/* The least of several batches: the one that was least disturbed.  `pace`: what the work takes on the slower core. */
double probe_ask(struct probe *probe, int batches, int trips, double *pace) {
    double best = 1e9, begin = now_us();
    unsigned i = 1;
    for (int batch = 0; batch < batches; batch++) {
        double start = 0;
        for (int trip = 0; trip < WARM + trips; trip++, i++) {
            if (trip == WARM) start = now_us();
            throw(probe, i);
        }
        double each = (now_us() - start) / trips;
        if (each < best) best = each;
        if (now_us() - begin > LIMIT_MS * 1e3) break;
    }
    throw(probe, OVER);
    *pace = work();
    while (!atomic_load(&probe->worked)) {}
    if (probe->work > *pace) *pace = probe->work;
    atomic_store(&probe->worked, 0);
    atomic_store(&probe->ball, 0);
    atomic_store(&probe->back, 0);
    atomic_fetch_add(&probe->turns, 1);
    return best;
}

void probe_answer(struct probe *probe) {
    for (unsigned i = 1, seen = 0; seen != OVER;) {
        seen = atomic_load_explicit(&probe->ball, memory_order_acquire);
        if (seen != i && seen != OVER) continue;
        atomic_store_explicit(&probe->back, seen, memory_order_release);
        i++;
    }
    probe->work = work();
    atomic_store(&probe->worked, 1);
}

/* Leaves the cores to the two until so many questions are answered. */
void probe_wait(struct probe *probe, unsigned turns) {
    struct timespec look = {0, LOOK_NS};
    while ((int)(atomic_load(&probe->turns) - turns) < 0) nanosleep(&look, NULL);
}

static struct probe here;

static cpu_set_t only(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return set;
}

static void *answer(void *unused) {
    (void)unused;
    probe_answer(&here);
    return NULL;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    int a = atoi(words[1]), b = atoi(words[2]);
    cpu_set_t asks = only(a), answers = only(b);
    pthread_attr_t there;
    pthread_t thread;
    if (a == b || sched_setaffinity(0, sizeof asks, &asks) || pthread_attr_init(&there)) return 1;
    /* it begins on its core: on this one it might never get to run */
    if (pthread_attr_setaffinity_np(&there, sizeof answers, &answers) || pthread_create(&thread, &there, answer, NULL)) return 1;
    double pace, best = probe_ask(&here, BATCHES, TRIPS - WARM, &pace);
    pthread_join(thread, NULL);
    printf("%.4f\n", best);
    return 0;
}
