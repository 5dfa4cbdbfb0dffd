#define _GNU_SOURCE
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define NS_PER_S 1000000000ull
#define SHARE_OF_SPACE 64
#define THREAD_STACK (256u * 1024)
#define FEWEST_KEPT (4u << 20)
#define MOST_KEPT ((32u << 20) - 8192)

static _Atomic uint32_t forks;
static uint32_t generation = 1; /* written in a child before it has a second thread */
static _Atomic uint64_t own_namespace;
static _Thread_local uint64_t my_identity;
static _Thread_local uint32_t my_generation;
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t first_ticks, first_ns;

uint64_t fs_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t fs_tick_ns(void)
{
    struct timespec tick;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0) return 0;
    return (uint64_t)tick.tv_sec * NS_PER_S + (uint64_t)tick.tv_nsec;
}

void fs_hold_process(void) { pthread_mutex_lock(&process_lock); }
void fs_release_process(void) { pthread_mutex_unlock(&process_lock); }

/* Counted before there is a child: no thread may take for its own alone what the child has too. */
static void before_fork(void)
{
    fs_hold_process();
    atomic_fetch_add(&forks, 1);
}

static void after_fork_in_child(void)
{
    generation++;
    atomic_store(&own_namespace, 0);
    fs_release_process();
}

__attribute__((constructor)) static void start_clock(void)
{
    first_ns = fs_now_ns();
    first_ticks = fs_ticks();
    pthread_atfork(before_fork, fs_release_process, after_fork_in_child);
}

double fs_ticks_per_us(void)
{
    static _Atomic uint64_t cached; /* millionths, so that the value fits one atomic word */
    uint64_t value = atomic_load_explicit(&cached, memory_order_relaxed);
    if (value == 0) {
        uint64_t ns = fs_now_ns();
        while (ns - first_ns < 200000) ns = fs_now_ns();
        value = (uint64_t)((double)(fs_ticks() - first_ticks) * 1e9 / (double)(ns - first_ns));
        atomic_store_explicit(&cached, value ? value : 1, memory_order_relaxed);
    }
    return (double)value / 1e6;
}

uint32_t fs_fork_count(void) { return atomic_load_explicit(&forks, memory_order_relaxed); }

uint32_t fs_generation(void) { return generation; }

static uint64_t learn_identity(void)
{
    struct stat status;
    uint64_t namespace = atomic_load_explicit(&own_namespace, memory_order_relaxed);
    if (namespace == 0 && stat("/proc/self/ns/pid", &status) == 0) {
        namespace = (uint32_t)status.st_ino;
        atomic_store_explicit(&own_namespace, namespace, memory_order_relaxed);
    }
    my_identity = namespace << 32 | (uint32_t)syscall(SYS_gettid);
    my_generation = generation;
    return my_identity;
}

uint64_t fs_thread_identity(void) { return my_generation == generation ? my_identity : learn_identity(); }

int fs_is_alive(pid_t thread)
{
    /* a killed process can be signalled until its parent has buried it */
    int process = (int)syscall(SYS_pidfd_open, thread, 0);
    if (process >= 0) {
        struct pollfd ended = {process, POLLIN, 0};
        int count = poll(&ended, 1, 0);
        close(process);
        if (count > 0) return 0;
    }
    return kill(thread, 0) == 0 || errno == EPERM;
}

uint32_t fs_current_cpu(void)
{
    int cpu = sched_getcpu();
    return cpu < 0 ? 0 : (uint32_t)cpu + 1;
}

int fs_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds)
{
    struct timespec limit = {(time_t)(nanoseconds / NS_PER_S), (long)(nanoseconds % NS_PER_S)};
    return (int)syscall(SYS_futex, word, FUTEX_WAIT, expected, &limit, NULL, 0);
}

void fs_futex_wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0); }

/* ---- how far the cores are from each other ---- */

struct probe {
    _Alignas(128) _Atomic uint32_t ping;
    _Alignas(128) _Atomic uint32_t pong;
    _Atomic int ready;
    int cpu;
};
enum { PROBE_ROUNDS = 20000, PROBE_CLOCK_EVERY = 4096 };

static int run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

static int probe_await(_Atomic uint32_t *word, uint32_t value, uint64_t limit)
{
    for (uint32_t spins = 1; atomic_load_explicit(word, memory_order_acquire) != value; spins++)
        if (spins % PROBE_CLOCK_EVERY == 0 && fs_now_ns() > limit) return -1;
    return 0;
}

static void *probe_peer(void *argument)
{
    struct probe *probe = argument;
    uint64_t limit = fs_now_ns() + NS_PER_S / 2;
    atomic_store(&probe->ready, run_on(probe->cpu) == 0 ? 1 : -1);
    for (uint32_t i = 1; i <= PROBE_ROUNDS; i++) {
        if (probe_await(&probe->ping, i, limit) != 0) break;
        atomic_store_explicit(&probe->pong, i, memory_order_release);
    }
    return NULL;
}

double fs_cache_line_round_trip_us(void)
{
    cpu_set_t before;
    int first = -1, second = -1;
    if (sched_getaffinity(0, sizeof before, &before) != 0) return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && second < 0; cpu++) {
        if (!CPU_ISSET(cpu, &before)) continue;
        if (first < 0) first = cpu;
        else second = cpu;
    }
    if (second < 0) return -1;
    struct probe probe = {.cpu = second};
    pthread_t thread;
    if (fs_start_thread(&thread, probe_peer, &probe) != 0) return -1;
    run_on(first);
    while (atomic_load(&probe.ready) == 0) sched_yield();
    uint64_t start = fs_now_ns(), limit = start + NS_PER_S / 2;
    uint32_t i = 1;
    for (; i <= PROBE_ROUNDS; i++) {
        atomic_store_explicit(&probe.ping, i, memory_order_release);
        if (probe_await(&probe.pong, i, limit) != 0) break;
    }
    double result = i > PROBE_ROUNDS ? (double)(fs_now_ns() - start) / 1e3 / PROBE_ROUNDS : -1;
    pthread_join(thread, NULL);
    sched_setaffinity(0, sizeof before, &before);
    return result;
}

int fs_may_write(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= bytes;
}

int fs_may_map(size_t bytes)
{
    struct rlimit limit;
    unsigned long long pages = 0;
    char text[64];
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[got > 0 ? got : 0] = 0;
    if (got <= 0 || sscanf(text, "%llu", &pages) != 1) return 0;
    unsigned long long taken = pages * (unsigned long long)sysconf(_SC_PAGESIZE);
    return taken < limit.rlim_cur && bytes <= (limit.rlim_cur - taken) / SHARE_OF_SPACE;
}

int fs_populate(void *start, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *end = (unsigned char *)start + bytes, *first = (unsigned char *)start + -(uintptr_t)start % page;
    return first < end && madvise(first, (size_t)(end - first), MADV_POPULATE_WRITE) == 0;
}

int fs_start_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t small;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* a whole stack of the usual size would be taken off an address space limit */
    int error = pthread_attr_init(&small);
    if (error == 0) {
        pthread_attr_setstacksize(&small, THREAD_STACK);
        error = pthread_create(thread, &small, body, argument);
        pthread_attr_destroy(&small);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

/* By its own rule glibc keeps in the heap what is no larger than the largest mapped block that was ever freed, up to 32
 * MiB; where the user has set these limits (MALLOC_MMAP_THRESHOLD_ and its like) it has no such rule, and nothing changes. */
size_t fs_expect_blocks(size_t bytes)
{
    size_t kept = bytes < FEWEST_KEPT ? FEWEST_KEPT : bytes > MOST_KEPT / 5 * 4 ? MOST_KEPT : bytes + bytes / 4;
    void *volatile block = malloc(kept); /* volatile: or a compiler leaves both calls out */
    free(block);
    return kept == MOST_KEPT ? SIZE_MAX : kept / 5 * 4;
}

void fs_join_thread(pthread_t thread, pid_t number)
{
    pthread_join(thread, NULL);
    while (syscall(SYS_tgkill, getpid(), number, 0) == 0) sched_yield();
}
