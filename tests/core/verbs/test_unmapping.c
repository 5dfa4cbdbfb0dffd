/* Memory that goes is told of, whoever unmaps it, before anything else lies there. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "verbs/unmapping.h"

#define LENGTH ((size_t)64 * 4096)
#define PAGE ((size_t)4096)

static unsigned char *mapped(void *where)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (where ? MAP_FIXED_NOREPLACE : 0);
    void *memory = mmap(where, LENGTH, PROT_READ | PROT_WRITE, flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static struct fs_unmapping *made(void)
{
    int error = 0;
    struct fs_unmapping *unmapping = fs_unmapping_new(&error);
    if (unmapping) return unmapping;
    if (error != -EPERM && error != -ENOSYS) fail(__FILE__, __LINE__, "userfaultfd: %s", strerror(-error));
    printf("left out, no userfaultfd here: %s\n", strerror(-error));
    exit(0);
}

static void unmap(unsigned char *memory) { CHECK_EQUAL(munmap(memory, LENGTH), 0); }
static void unmap_last_page(unsigned char *memory) { CHECK_EQUAL(munmap(memory + LENGTH - PAGE, PAGE), 0); }
static void give_back(unsigned char *memory) { CHECK_EQUAL(madvise(memory, PAGE, MADV_DONTNEED), 0); }
static void move(unsigned char *memory) { CHECK(mremap(memory, LENGTH, 4 * LENGTH, MREMAP_MAYMOVE) != MAP_FAILED); }
static void shrink(unsigned char *memory) { CHECK(mremap(memory, LENGTH, LENGTH / 2, 0) == memory); }
static void map_over(unsigned char *memory)
{
    CHECK(mmap(memory, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
}

TEST(unmapping_is_told_of, 0)
{
    void (*const ways[])(unsigned char *) = {unmap, unmap_last_page, give_back, move, shrink, map_over};
    struct fs_unmapping *unmapping = made();
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct fs_watched_memory watched, other;
        unsigned char *memory = mapped(NULL), *beside = mapped(NULL), *wall = mapped(memory + LENGTH);
        CHECK_EQUAL(fs_unmapping_watch(unmapping, &watched, memory + 100, LENGTH - 200), 0);
        CHECK_EQUAL(fs_unmapping_watch(unmapping, &other, beside, LENGTH), 0);
        memset(memory, 1, LENGTH);
        CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &watched), 0);
        ways[i](memory);
        CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &watched), 1);
        CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &other), 0);
        fs_unmapping_unwatch(unmapping, &watched);
        fs_unmapping_unwatch(unmapping, &other);
        munmap(beside, LENGTH);
        if (wall) munmap(wall, LENGTH);
    }
    fs_unmapping_free(unmapping);
}

TEST(unmapping_of_what_others_still_watch, 0)
{
    struct fs_unmapping *unmapping = made();
    struct fs_watched_memory first, second;
    unsigned char *memory = mapped(NULL);
    CHECK_EQUAL(fs_unmapping_watch(unmapping, &first, memory, LENGTH / 2 + 1), 0);
    CHECK_EQUAL(fs_unmapping_watch(unmapping, &second, memory + LENGTH / 2 + 2, 10), 0);
    fs_unmapping_unwatch(unmapping, &first);
    unmap(memory);
    CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &second), 1);
    fs_unmapping_unwatch(unmapping, &second);
    fs_unmapping_free(unmapping);
}

TEST(unmapping_of_what_the_kernel_does_not_tell_of, 0)
{
    struct fs_unmapping *unmapping = made();
    struct fs_watched_memory watched;
    FILE *file = tmpfile();
    CHECK(file != NULL && ftruncate(fileno(file), (off_t)LENGTH) == 0);
    void *memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    CHECK(memory != MAP_FAILED);
    CHECK(fs_unmapping_watch(unmapping, &watched, memory, LENGTH) < 0);
    fs_unmapping_free(unmapping);
    fclose(file);
}

TEST(unmapping_in_a_forked_child_waits_for_nobody, NEEDS_PROCESSES)
{
    struct fs_unmapping *unmapping = made();
    struct fs_watched_memory watched;
    unsigned char *memory = mapped(NULL);
    int status = 0;
    CHECK_EQUAL(fs_unmapping_watch(unmapping, &watched, memory, LENGTH), 0);
    pid_t child = fork();
    if (child == 0) _exit(munmap(memory, LENGTH) != 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &watched), 0);
    fs_unmapping_unwatch(unmapping, &watched);
    unmap(memory);
    fs_unmapping_free(unmapping);
}

/* Where nobody else's memory comes to lie. */
static void *far_from(unsigned char *memory) { return memory - ((size_t)64 << 30); }

static unsigned char *_Atomic to_unmap;

static void *unmap_all(void *unused)
{
    for (;;) {
        unsigned char *memory = atomic_load(&to_unmap);
        if (memory == MAP_FAILED) return unused;
        if (!memory) {
            sched_yield();
            continue;
        }
        munmap(memory, LENGTH);
        atomic_store(&to_unmap, NULL);
    }
}

/* Whoever gets the address finds that what was there is gone, also while the thread that unmapped it still waits. */
TEST(unmapping_is_known_to_who_maps_there, 0)
{
    struct fs_unmapping *unmapping = made();
    struct fs_watched_memory watched;
    pthread_t thread;
    unsigned char *memory = mapped(far_from(mapped(NULL)));
    CHECK(memory != NULL);
    CHECK_EQUAL(pthread_create(&thread, NULL, unmap_all, NULL), 0);
    for (int round = 0; round < scaled(20000); round++) {
        unsigned char *again = NULL;
        CHECK_EQUAL(fs_unmapping_watch(unmapping, &watched, memory, LENGTH), 0);
        CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &watched), 0);
        atomic_store(&to_unmap, memory);
        while (!(again = mapped(memory))) sched_yield();
        CHECK_EQUAL(fs_unmapping_is_gone(unmapping, &watched), 1);
        while (atomic_load(&to_unmap)) sched_yield();
        fs_unmapping_unwatch(unmapping, &watched);
    }
    atomic_store(&to_unmap, MAP_FAILED);
    pthread_join(thread, NULL);
    fs_unmapping_free(unmapping);
}
