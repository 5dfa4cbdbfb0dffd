#define _GNU_SOURCE
#include "orphan.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void fs_orphan_answer(int answers, int result)
{
    if (write(answers, &result, sizeof result) < 0) return; /* who asked is gone */
    close(answers);
}

static int hear(int answers)
{
    int result;
    ssize_t got;
    do got = read(answers, &result, sizeof result);
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof result ? result : -ECHILD;
}

int fs_orphan_start(void (*become)(void *given, int answers), void *given, void (*let_go)(int is_alone))
{
    int answers[2];
    if (pipe2(answers, O_CLOEXEC) != 0) return -errno;
    pid_t child = fork();
    int error = child < 0 ? -errno : 0;
    if (child == 0) {
        pid_t second = fork();
        if (second == 0) become(given, answers[1]);
        if (second < 0) fs_orphan_answer(answers[1], -errno);
        let_go(second < 0);
        _exit(0);
    }
    close(answers[1]);
    if (error == 0) error = hear(answers[0]);
    close(answers[0]);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    return error;
}

void fs_close_all_but(const int *kept, int count)
{
    unsigned first = 0;
    for (int i = 0; i < count; i++) {
        unsigned next = ~0u;
        for (int j = 0; j < count; j++)
            if ((unsigned)kept[j] >= first && (unsigned)kept[j] < next) next = (unsigned)kept[j];
        if (next > first) syscall(SYS_close_range, first, next - 1, 0);
        first = next + 1;
    }
    syscall(SYS_close_range, first, ~0u, 0);
}
