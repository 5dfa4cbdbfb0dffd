#define _GNU_SOURCE
#include "unmapping.h"

#include <errno.h>

#if __has_include(<linux/userfaultfd.h>)
#include <linux/userfaultfd.h>
#endif

#ifdef UFFD_USER_MODE_ONLY

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system.h"

#define PAGE ((uintptr_t)4096)

struct fs_unmapping {
    int descriptor, stop;
    pthread_t thread;
    /* Held while an event is read and heeded, so whoever has it sees all that was read.  No memory is taken nor given
     * back under it: the thread would wait for itself. */
    pthread_mutex_t lock;
    struct fs_watched_memory *first;
};

static void note(struct fs_unmapping *unmapping, uintptr_t start, uintptr_t end)
{
    for (struct fs_watched_memory *each = unmapping->first; each; each = each->next)
        if (each->start < end && start < each->end) atomic_store(&each->gone, 1);
}

static void heed_events(struct fs_unmapping *unmapping)
{
    struct uffd_msg message;
    pthread_mutex_lock(&unmapping->lock);
    while (read(unmapping->descriptor, &message, sizeof message) == sizeof message) {
        const uintptr_t from = (uintptr_t)message.arg.remap.from;
        switch (message.event) {
        case UFFD_EVENT_UNMAP:
        case UFFD_EVENT_REMOVE:
            note(unmapping, (uintptr_t)message.arg.remove.start, (uintptr_t)message.arg.remove.end);
            break;
        case UFFD_EVENT_REMAP: note(unmapping, from, from + (uintptr_t)message.arg.remap.len); break;
        default: break;
        }
    }
    pthread_mutex_unlock(&unmapping->lock);
}

static void *serve(void *of)
{
    struct fs_unmapping *unmapping = of;
    struct pollfd both[2] = {{unmapping->descriptor, POLLIN, 0}, {unmapping->stop, POLLIN, 0}};
    while (both[1].revents == 0)
        if (poll(both, 2, -1) > 0) heed_events(unmapping);
    return NULL;
}

/* With the thread, if there is one. */
static void close_all(struct fs_unmapping *unmapping, int has_thread)
{
    const uint64_t one = 1;
    if (has_thread && write(unmapping->stop, &one, sizeof one) == sizeof one) pthread_join(unmapping->thread, NULL);
    if (unmapping->descriptor >= 0) close(unmapping->descriptor); /* whoever waits goes on */
    if (unmapping->stop >= 0) close(unmapping->stop);
    pthread_mutex_destroy(&unmapping->lock);
    free(unmapping);
}

static int open_descriptor(struct fs_unmapping *unmapping)
{
    struct uffdio_api wanted = {.api = UFFD_API,
                                .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |
                                            UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    unmapping->descriptor = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (unmapping->descriptor < 0) return -errno;
    return ioctl(unmapping->descriptor, UFFDIO_API, &wanted) == 0 ? 0 : -errno;
}

struct fs_unmapping *fs_unmapping_new(int *error)
{
    struct fs_unmapping *unmapping = calloc(1, sizeof *unmapping);
    *error = -ENOMEM;
    if (!unmapping) return NULL;
    pthread_mutex_init(&unmapping->lock, NULL);
    unmapping->descriptor = -1;
    unmapping->stop = eventfd(0, EFD_CLOEXEC);
    *error = unmapping->stop < 0 ? -errno : open_descriptor(unmapping);
    if (*error == 0) *error = fs_start_thread(&unmapping->thread, serve, unmapping);
    if (*error == 0) return unmapping;
    close_all(unmapping, 0);
    return NULL;
}

void fs_unmapping_free(struct fs_unmapping *unmapping) { close_all(unmapping, 1); }

int fs_unmapping_watch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory, const void *start,
                       size_t length)
{
    const uintptr_t first = (uintptr_t)start & ~(PAGE - 1), end = ((uintptr_t)start + length + PAGE - 1) & ~(PAGE - 1);
    struct uffdio_register range = {.range = {first, end - first}, .mode = UFFDIO_REGISTER_MODE_WP};
    memory->start = first;
    memory->end = end;
    atomic_store(&memory->gone, 0);
    pthread_mutex_lock(&unmapping->lock);
    memory->next = unmapping->first;
    unmapping->first = memory;
    pthread_mutex_unlock(&unmapping->lock);
    if (ioctl(unmapping->descriptor, UFFDIO_REGISTER, &range) == 0) return 0;
    int error = -errno;
    fs_unmapping_unwatch(unmapping, memory);
    return error;
}

/* What lies there now may be watched for others, or be none of ours: then the kernel does nothing. */
void fs_unmapping_unwatch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory)
{
    struct uffdio_range range = {memory->start, memory->end - memory->start};
    int shared = 0;
    pthread_mutex_lock(&unmapping->lock);
    struct fs_watched_memory **place = &unmapping->first;
    while (*place && *place != memory) place = &(*place)->next;
    if (*place) *place = memory->next;
    for (struct fs_watched_memory *each = unmapping->first; each; each = each->next)
        shared |= !atomic_load(&each->gone) && each->start < memory->end && memory->start < each->end;
    pthread_mutex_unlock(&unmapping->lock);
    if (!shared) (void)ioctl(unmapping->descriptor, UFFDIO_UNREGISTER, &range);
}

/* A thread that unmaps memory may not have come to tell yet, while another one maps something there.  From before the
 * memory goes until it is heard, the kernel refuses to change anything, whatever that is. */
static int is_under_way(const struct fs_unmapping *unmapping)
{
    struct uffdio_writeprotect nothing = {.range = {0, 0}};
    return ioctl(unmapping->descriptor, UFFDIO_WRITEPROTECT, &nothing) != 0 && errno == EAGAIN;
}

int fs_unmapping_is_gone(struct fs_unmapping *unmapping, struct fs_watched_memory *memory)
{
    int gone = is_under_way(unmapping);
    pthread_mutex_lock(&unmapping->lock);
    gone |= atomic_load(&memory->gone);
    atomic_store(&memory->gone, gone);
    pthread_mutex_unlock(&unmapping->lock);
    return gone;
}

#else

struct fs_unmapping *fs_unmapping_new(int *error)
{
    *error = -ENOSYS;
    return NULL;
}

void fs_unmapping_free(struct fs_unmapping *unmapping) { (void)unmapping; }

int fs_unmapping_watch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory, const void *start,
                       size_t length)
{
    (void)unmapping, (void)memory, (void)start, (void)length;
    return -ENOSYS;
}

void fs_unmapping_unwatch(struct fs_unmapping *unmapping, struct fs_watched_memory *memory)
{
    (void)unmapping, (void)memory;
}

int fs_unmapping_is_gone(struct fs_unmapping *unmapping, struct fs_watched_memory *memory)
{
    (void)unmapping, (void)memory;
    return 1;
}

#endif
