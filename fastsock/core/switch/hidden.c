#define _GNU_SOURCE
#include "hidden.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

#define SHORT_NS 1000000000u

static struct fs_hidden *all; /* under the process's lock */
static _Atomic uint64_t short_until;

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
    *hidden = (struct fs_hidden){number, status.st_dev, status.st_ino, all, NULL, 0};
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

void fs_hidden_move(struct fs_hidden *from, struct fs_hidden *to)
{
    *to = *from;
    if (to->next != NULL) to->next->previous = to;
    if (to->previous != NULL) to->previous->next = to;
    else if (to->number >= 0) all = to;
    *from = FS_HIDDEN_NONE;
}

void fs_hidden_close(struct fs_hidden *hidden)
{
    if (hidden->number < 0) return;
    fs_hold_process();
    int number = fs_hidden_take(hidden);
    if (number >= 0) close(number);
    fs_release_process();
}

void fs_hidden_give_back(void)
{
    atomic_store(&short_until, fs_now_ns() + SHORT_NS);
    fs_hold_process();
    for (struct fs_hidden *each = all, *next; each != NULL; each = next) {
        next = each->next;
        int number = each->optional ? fs_hidden_take(each) : -1;
        if (number >= 0) close(number);
    }
    fs_release_process();
}

int fs_hidden_is_short(void)
{
    uint64_t until = atomic_load_explicit(&short_until, memory_order_relaxed);
    return until != 0 && fs_now_ns() < until;
}

int fs_hidden_count(void)
{
    int count = 0;
    fs_hold_process();
    for (const struct fs_hidden *each = all; each != NULL; each = each->next) count += is_same_file(each);
    fs_release_process();
    return count;
}
