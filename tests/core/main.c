#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define MOST_TESTS 1000

struct test {
    const char *name;
    void (*body)(void);
    int needs;
};

static struct test tests[MOST_TESTS];
static int test_count;
void register_test(const char *name, void (*body)(void), int needs)
{
    if (test_count == MOST_TESTS) abort(); /* no test may be left out unseen */
    tests[test_count++] = (struct test){name, body, needs};
}

static int run_one(const struct test *test, unsigned limit_s)
{
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        setpgid(0, 0);
        alarm(limit_s);
        test->body();
        fflush(NULL);
        exit(0);
    }
    int status = -1;
    while (waitpid(process, &status, 0) < 0) {}
    kill(-process, SIGKILL); /* what the test started and left behind */
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    const char *verdict = "passed";
    if (WIFSIGNALED(status)) verdict = WTERMSIG(status) == SIGALRM ? "FAILED: time limit" : "FAILED: crashed";
    else if (WEXITSTATUS(status) != 0) verdict = "FAILED";
    printf("%-64s %s (%.1f s)\n", test->name, verdict, took);
    fflush(stdout);
    return status == 0;
}

int main(int argc, char **argv)
{
    const char *only = "";
    int without = 0, passed = 0, failed = 0;
    unsigned limit_s = 120;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    test_seed = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--only") == 0) only = argv[++i];
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0) test_seed = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--scale") == 0) test_scale = atof(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--limit") == 0) limit_s = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--threads-only") == 0) without = NEEDS_PROCESSES | NEEDS_FAULTS;
        else {
            fprintf(stderr, "usage: %s [--only TEXT] [--seed N] [--scale X] [--limit SECONDS] [--threads-only]\n",
                    argv[0]);
            return 2;
        }
    }
    for (int i = 0; i < test_count; i++) {
        if (strstr(tests[i].name, only) == NULL || tests[i].needs & without) continue;
        if (run_one(&tests[i], limit_s)) passed++;
        else failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
