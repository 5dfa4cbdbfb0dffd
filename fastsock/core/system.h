/* The few things taken from the machine: a fast clock, futexes, thread identity. */
#ifndef FASTSOCK_SYSTEM_H
#define FASTSOCK_SYSTEM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FS_LINE 128 /* two cache lines: the adjacent-line prefetcher would join smaller ones */

#if defined(__x86_64__) || defined(__i386__)
/* without the header for it, which is longer than all of the core */
static inline void fs_pause(void) { __builtin_ia32_pause(); }
static inline uint64_t fs_ticks(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
static inline void fs_pause(void) { __asm__ __volatile__("yield"); }
static inline uint64_t fs_ticks(void)
{
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
#else
static inline void fs_pause(void) {}
uint64_t fs_now_ns(void);
static inline uint64_t fs_ticks(void) { return fs_now_ns(); }
#endif

uint64_t fs_now_ns(void);     /* CLOCK_MONOTONIC */
uint64_t fs_tick_ns(void);    /* of the kernel's periodic interrupt, 0 where unknown */
double fs_ticks_per_us(void); /* measured once against CLOCK_MONOTONIC */
uint64_t
fs_thread_identity(void); /* number of its PID namespace (0: unknown), then gettid(): cached, right after fork too */
int fs_is_alive(pid_t thread); /* or process: as far as numbers can tell, within this PID namespace */
uint32_t fs_generation(void);  /* tells a process from those that it was forked from; process numbers do not */
uint32_t fs_fork_count(void);  /* forks seen by this process and its ancestors */
uint32_t fs_current_cpu(void); /* number of the core plus one, 0 where unknown */

/* Shows others the core of this thread, and returns it.  A wait depends on whether the two ends share a core. */
static inline uint32_t fs_show_cpu(_Atomic uint32_t *mine)
{
    uint32_t cpu = fs_current_cpu();
    if (atomic_load_explicit(mine, memory_order_relaxed) != cpu) atomic_store_explicit(mine, cpu, memory_order_relaxed);
    return cpu;
}

/* The process's lock guards state that exists once in a process and seldom changes.  It is held for a few system calls,
 * never while waiting.  A fork holds it too: a child finds it free, and its state whole. */
void fs_hold_process(void);
void fs_release_process(void);

/* 0, or -1 with errno: EAGAIN, ETIMEDOUT, EINTR.  `nanoseconds` is how long at most. */
int fs_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds);
void fs_futex_wake_all(_Atomic uint32_t *word);

/* Called when blocks of this size travel.  A C library would give the memory of each back, and fault it in again for
 * the next.  This tells it that they come and go.  Returns the size up to which it need not be told again. */
size_t fs_expect_blocks(size_t bytes);

/* Whether a file may be so large: beyond RLIMIT_FSIZE a signal ends the program. */
int fs_may_write(size_t bytes);

/* Whether mapping so much leaves enough of the process's address space (RLIMIT_AS).  The program set that limit for its
 * own allocations. */
int fs_may_map(size_t bytes);

/* Has the kernel make the memory of all whole pages there now.  0: an older kernel, or no memory; then each page is made
 * when it is touched. */
int fs_populate(void *start, size_t bytes);

enum { FS_FEW_PROCESSES = 8 }; /* what so many share is memory that a host can spare, also where little of it is used */

/* A thread that takes no signals: handlers stay with the threads of the program.  0 or -errno. */
int fs_start_thread(pthread_t *thread, void *(*body)(void *), void *argument);
/* Waits until the kernel does not count the thread any more.  That is a little after the join.  number: its gettid(). */
void fs_join_thread(pthread_t thread, pid_t number);

/* Round trip of one cache line between two threads on different cores in microseconds; negative: could not measure. */
double fs_cache_line_round_trip_us(void);

#endif
