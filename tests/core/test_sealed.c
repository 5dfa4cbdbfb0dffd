/* Sealed memory: what is refused of a descriptor that somebody else made. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sealed.h"

enum { BYTES = 10000 };

TEST(sealed_memory_is_shared_and_stays_as_long_as_it_was, 0)
{
    int error = 1, memory = fs_sealed_create("fastsock-test", BYTES);
    CHECK(memory >= 0);
    CHECK_EQUAL(fs_sealed_bytes(memory), BYTES);
    CHECK_EQUAL(ftruncate(memory, 1), -1);
    CHECK_EQUAL(ftruncate(memory, 2 * BYTES), -1);
    CHECK_EQUAL(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), -1);
    char *one = fs_sealed_map(memory, 100, &error);
    CHECK_EQUAL(error, 0);
    error = 1;
    char *other = fs_sealed_join(memory, BYTES, &error);
    CHECK_EQUAL(error, 0);
    one[99] = 'x';
    CHECK_EQUAL(other[99], 'x');
    CHECK_EQUAL(other[BYTES - 1], 0);
    munmap(one, 100);
    munmap(other, BYTES);
    close(memory);
}

TEST(sealed_memory_of_another_is_checked, 0)
{
    int error = 0, memory = memfd_create("fastsock-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && ftruncate(memory, BYTES) == 0);
    const int too_few[] = {0, F_SEAL_GROW};
    for (size_t i = 0; i < sizeof too_few / sizeof *too_few; i++) {
        CHECK_EQUAL(fcntl(memory, F_ADD_SEALS, too_few[i]), 0);
        CHECK_EQUAL(fs_sealed_bytes(memory), -EPROTO);
        CHECK(fs_sealed_join(memory, BYTES, &error) == NULL);
        CHECK_EQUAL(error, -EPROTO);
    }
    CHECK_EQUAL(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    for (int off = -1; off <= 1; off += 2) {
        CHECK(fs_sealed_join(memory, (size_t)(BYTES + off), &error) == NULL);
        CHECK_EQUAL(error, -EPROTO);
    }
    close(memory);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK_EQUAL(fs_sealed_bytes(null), -EPROTO);
    close(null);
    CHECK_EQUAL(fs_sealed_bytes(-1), -EPROTO);
}

/* Beyond RLIMIT_FSIZE a file that grows ends its program by a signal. */
TEST(sealed_memory_beyond_the_limit_of_files_is_an_error, 0)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit files = {4096, 4096};
        _exit(setrlimit(RLIMIT_FSIZE, &files) != 0 || fs_sealed_create("fastsock-test", BYTES) != -EFBIG);
    }
    int status = 0;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}
