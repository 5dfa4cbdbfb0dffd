#define _GNU_SOURCE
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t test_seed;
double test_scale = 1;
void (*when_failing)(void);

_Noreturn void fail(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    char text[512];
    const int error = errno; /* often what the failed call said */
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%d: %s (errno %d, seed %llu)\n", file, line, text, error, (unsigned long long)test_seed);
    fflush(stderr);
    if (when_failing != NULL) when_failing();
    _exit(1);
}

int scaled(int amount)
{
    double result = amount * test_scale;
    return result < 1 ? 1 : (int)result;
}

static int count_in(const char *name)
{
    int count = 0;
    DIR *folder = opendir(name);
    CHECK(folder != NULL);
    for (struct dirent *each; (each = readdir(folder)) != NULL;) count += each->d_name[0] != '.';
    closedir(folder);
    return count;
}

int count_threads(void) { return count_in("/proc/self/task"); }
int count_descriptors(void) { return count_in("/proc/self/fd") - 1; } /* without the folder's */

int count_cores(void)
{
    cpu_set_t mine;
    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    return CPU_COUNT(&mine);
}

int may_change_user(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3];
    CHECK(syscall(SYS_capget, &header, rights) == 0);
    return (rights[CAP_TO_INDEX(CAP_SETUID)].effective & CAP_TO_MASK(CAP_SETUID)) != 0;
}

struct random random_from(uint64_t salt)
{
    struct random random = {(test_seed + 1) * 0x9E3779B97F4A7C15ull ^ (salt + 1) * 0xD1342543DE82EF95ull};
    for (int i = 0; i < 4; i++) random_next(&random);
    return random;
}

uint64_t random_next(struct random *random)
{
    uint64_t x = random->state += 0x9E3779B97F4A7C15ull; /* splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

uint64_t random_below(struct random *random, uint64_t limit) { return limit ? random_next(random) % limit : 0; }

uint64_t random_size(struct random *random, uint64_t largest)
{
    int bits = 64 - __builtin_clzll(largest | 1);
    uint64_t size = random_below(random, (uint64_t)1 << (1 + random_below(random, (uint64_t)bits))) + 1;
    return size > largest ? largest : size;
}
