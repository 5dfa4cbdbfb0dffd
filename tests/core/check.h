/* Assertions and a register of tests.  Each test runs in a process of its own with a time limit, so that a crash or a
 * hang is one failure and the rest still runs. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>

enum { NEEDS_PROCESSES = 1, NEEDS_FAULTS = 2 }; /* what a sanitizer may not be able to follow */

void register_test(const char *name, void (*body)(void), int needs);
_Noreturn void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define TEST(name, needs)                                                                                 \
    static void name(void);                                                                               \
    __attribute__((constructor)) static void register_##name(void) { register_test(#name, name, needs); } \
    static void name(void)

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) fail(__FILE__, __LINE__, "not so: %s", #condition); \
    } while (0)

#define CHECK_EQUAL(left, right)                                                                                  \
    do {                                                                                                          \
        long long left_ = (long long)(left), right_ = (long long)(right);                                         \
        if (left_ != right_) fail(__FILE__, __LINE__, "%s is %lld, not %s (%lld)", #left, left_, #right, right_); \
    } while (0)

extern uint64_t test_seed; /* of this run; printed with a failure */
extern void (*when_failing)(void);
extern double test_scale; /* how much of the full amount of work to do, 1 is full */
int scaled(int amount);   /* at least 1 */

int count_threads(void); /* of this process, as the kernel counts them */
int count_descriptors(void);
int count_cores(void);     /* that this process may use: in a container fewer than there are */
int may_change_user(void); /* 0 also for root without that right, as in a container */

struct random {
    uint64_t state;
};
struct random random_from(uint64_t salt); /* from the run's seed */
uint64_t random_next(struct random *random);
uint64_t random_below(struct random *random, uint64_t limit);
uint64_t random_size(struct random *random, uint64_t largest); /* 1..largest, every magnitude as likely */

#endif
