#define _GNU_SOURCE
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

#define SHORT_NS 1000000000u

static struct fs_descriptor *all; /* under the process's lock */
static _Atomic uint64_t short_until;

static int is_same_file(const struct fs_descriptor *owned)
{
    struct stat status;
    return owned->number >= 0 && fstat(owned->number, &status) == 0 && status.st_dev == owned->device &&
           status.st_ino == owned->file;
}

/* The child has this one thread: nobody is between a look and a close. */
static void leave_to_parent(void)
{
    for (struct fs_descriptor *each = all; each != NULL; each = each->next) {
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

int fs_descriptor_keep(struct fs_descriptor *owned, int number)
{
    struct stat status;
    *owned = FS_DESCRIPTOR_NONE;
    number = above_streams(number);
    if (number < 0) return number;
    if (fstat(number, &status) != 0) {
        int error = errno;
        close(number);
        return -error;
    }
    *owned = (struct fs_descriptor){number, status.st_dev, status.st_ino, all, NULL, 0};
    if (all != NULL) all->previous = owned;
    all = owned;
    return number;
}

int fs_descriptor_number(const struct fs_descriptor *owned) { return is_same_file(owned) ? owned->number : -1; }

int fs_descriptor_take(struct fs_descriptor *owned)
{
    if (owned->number < 0) return -1;
    int number = fs_descriptor_number(owned);
    if (owned->next != NULL) owned->next->previous = owned->previous;
    if (owned->previous != NULL) owned->previous->next = owned->next;
    else all = owned->next;
    *owned = FS_DESCRIPTOR_NONE;
    return number;
}

void fs_descriptor_move(struct fs_descriptor *from, struct fs_descriptor *to)
{
    *to = *from;
    if (to->next != NULL) to->next->previous = to;
    if (to->previous != NULL) to->previous->next = to;
    else if (to->number >= 0) all = to;
    *from = FS_DESCRIPTOR_NONE;
}

void fs_descriptor_close(struct fs_descriptor *owned)
{
    if (owned->number < 0) return;
    fs_hold_process();
    int number = fs_descriptor_take(owned);
    if (number >= 0) close(number);
    fs_release_process();
}

void fs_descriptor_give_back(void)
{
    atomic_store(&short_until, fs_now_ns() + SHORT_NS);
    fs_hold_process();
    for (struct fs_descriptor *each = all, *next; each != NULL; each = next) {
        next = each->next;
        int number = each->optional ? fs_descriptor_take(each) : -1;
        if (number >= 0) close(number);
    }
    fs_release_process();
}

int fs_descriptor_is_short(void)
{
    uint64_t until = atomic_load_explicit(&short_until, memory_order_relaxed);
    return until != 0 && fs_now_ns() < until;
}

int fs_descriptor_count(void)
{
    int count = 0;
    fs_hold_process();
    for (const struct fs_descriptor *each = all; each != NULL; each = each->next) count += is_same_file(each);
    fs_release_process();
    return count;
}
