#define _GNU_SOURCE
#include "hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

static struct fs_hidden *all; /* under the process's lock */

static int is_same_file(const struct fs_hidden *hidden)
{
    struct stat status;
    return hidden->number >= 0 && fstat(hidden->number, &status) == 0 && status.st_dev == hidden->device &&
           status.st_ino == hidden->file;
}

/* The child has this one thread: nobody is between a look and a close. */
static void leave_to_parent(void)
{
    for (struct fs_hidden *each = all; each != NULL; each = each->next) {
        if (is_same_file(each)) close(each->number);
        each->number = -1;
    }
    all = NULL;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, leave_to_parent); }

/* A program that closed its standard streams must not write into this. */
static int above_streams(int number)
{
    if (number < 0 || number > STDERR_FILENO) return number;
    int moved = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(number);
    return moved < 0 ? -error : moved;
}

int fs_hidden_keep(struct fs_hidden *hidden, int number)
{
    struct stat status;
    *hidden = FS_HIDDEN_NONE;
    number = above_streams(number);
    if (number < 0) return number;
    if (fstat(number, &status) != 0) {
        int error = errno;
        close(number);
        return -error;
    }
    *hidden = (struct fs_hidden){number, status.st_dev, status.st_ino, all, NULL};
    if (all != NULL) all->previous = hidden;
    all = hidden;
    return number;
}

int fs_hidden_number(const struct fs_hidden *hidden) { return is_same_file(hidden) ? hidden->number : -1; }

int fs_hidden_take(struct fs_hidden *hidden)
{
    if (hidden->number < 0) return -1;
    int number = fs_hidden_number(hidden);
    if (hidden->next != NULL) hidden->next->previous = hidden->previous;
    if (hidden->previous != NULL) hidden->previous->next = hidden->next;
    else all = hidden->next;
    *hidden = FS_HIDDEN_NONE;
    return number;
}

void fs_hidden_close(struct fs_hidden *hidden)
{
    if (hidden->number < 0) return;
    fs_hold_process();
    int number = fs_hidden_take(hidden);
    if (number >= 0) close(number);
    fs_release_process();
}
