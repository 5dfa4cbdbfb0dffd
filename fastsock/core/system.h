/* The few things taken from the machine: a fast clock, futexes, thread identity. */
#ifndef FASTSOCK_SYSTEM_H
#define FASTSOCK_SYSTEM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define fs_pause() _mm_pause()
static inline uint64_t fs_ticks(void) { return __builtin_ia32_rdtsc(); }
#elif defined(__aarch64__)
#define fs_pause() __asm__ __volatile__("yield")
static inline uint64_t fs_ticks(void)
{
    uint64_t value;
    __asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(value));
    return value;
}
#else
#define fs_pause() ((void)0)
uint64_t fs_now_ns(void);
static inline uint64_t fs_ticks(void) { return fs_now_ns(); }
#endif

uint64_t fs_now_ns(void);           /* CLOCK_MONOTONIC */
uint64_t fs_tick_ns(void);          /* of the kernel's periodic interrupt, 0 where unknown */
double fs_ticks_per_us(void);       /* measured once against CLOCK_MONOTONIC */
uint32_t fs_thread_id(void);        /* cached gettid(), right after fork too */
uint32_t fs_process_id(void);       /* cached getpid(), right after fork too */
uint32_t fs_fork_count(void);       /* forks seen by this process and its ancestors */
int fs_thread_is_ours(uint32_t thread_id);
int fs_thread_alive(uint32_t thread_id);
uint32_t fs_current_cpu(void);      /* number of the core plus one, 0 where unknown */

/* 0, or -1 with errno: EAGAIN, ETIMEDOUT, EINTR.  `nanoseconds` is how long at most. */
int fs_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t nanoseconds);
void fs_futex_wake_all(_Atomic uint32_t *word);

/* A lock word in shared memory: 0, or the owner's thread id, with FS_LOCK_VISITOR while the other end of the
 * connection holds it.  An owner that died loses it.  Returns 0, or -ETIMEDOUT / -EPROTO when it never becomes free. */
#define FS_LOCK_VISITOR 0x80000000u
int fs_lock(_Atomic uint32_t *word, int shared, uint64_t patience_ns); /* shared: forked processes may own it too */
int fs_lock_as_visitor(_Atomic uint32_t *word, uint64_t patience_ns);
void fs_unlock(_Atomic uint32_t *word);

/* Called when blocks of this size travel: a C library that would give the memory of each back, and fault it in again
 * for the next, learns that they come and go.  Returns up to which size it need not be told again. */
size_t fs_expect_blocks(size_t bytes);

/* A thread that takes no signals: handlers stay with the threads of the program.  0 or -errno. */
int fs_start_thread(pthread_t *thread, void *(*body)(void *), void *argument);

/* Round trip of one cache line between two threads on different cores in microseconds; negative: could not measure. */
double fs_cache_line_round_trip_us(void);

#endif
