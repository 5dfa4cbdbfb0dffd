/* A stream that was closed goes on a little, so that the other end's next send ends as TCP's does.
 *
 * A UNIX stream refuses a send as soon as its peer is closed; TCP takes the first one, and answers by a reset.  That first
 * one may be OpenSSL's, which sends an alert when the stream ends without a goodbye: refused, the alert hides the end
 * from whoever reads.  So the descriptor is kept with its writing half shut, until something comes in (to close it then
 * is the reset), the other end is closed too, or as much time has passed as TCP waits in this state.
 *
 * One thread of the process does that for all.  A child that is forked lets go of them: it has no such thread.
 */
#define _GNU_SOURCE
#include "linger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "system.h"

#define MOST 64
#define FIRST_NUMBER 512          /* above what a program has just closed: it may ask whether its number is free now */
#define LONGEST_NS 60000000000ull /* tcp_fin_timeout */

struct entry {
    int descriptor; /* -1: free */
    ino_t file;     /* a program may close every number that it does not know, and use it again */
    uint64_t since;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct entry entries[MOST];
static struct entry wake[2] = {{-1, 0, 0}, {-1, 0, 0}}; /* a pipe: somebody new lingers */
static int running, asked_to_end;
static pthread_t thread;
static pid_t ended_number; /* of the thread that was asked */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER; /* to end: one at a time */

static ino_t file_of(int descriptor)
{
    struct stat status;
    return descriptor >= 0 && fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

static int copy_of(int descriptor)
{
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, FIRST_NUMBER);
    if (copy < 0 && errno == EINVAL) copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0); /* more than this process may have */
    return copy;
}

/* Nobody is left at the other end who might send. */
static int is_over(int descriptor)
{
    struct pollfd one = {descriptor, 0, 0};
    return poll(&one, 1, 0) > 0;
}

static void drop(struct entry *entry)
{
    if (entry->descriptor >= 0 && file_of(entry->descriptor) == entry->file) close(entry->descriptor);
    entry->descriptor = -1;
}

/* Closes what is over, with the lock held.  Milliseconds to the next that will be, -1 for none. */
static int sweep(void)
{
    uint64_t now = fs_now_ns(), oldest = UINT64_MAX;
    for (int i = 0; i < MOST; i++) {
        if (entries[i].descriptor < 0) continue;
        if (now - entries[i].since >= LONGEST_NS) drop(&entries[i]);
        else if (entries[i].since < oldest) oldest = entries[i].since;
    }
    return oldest == UINT64_MAX ? -1 : (int)((LONGEST_NS - (now - oldest)) / 1000000) + 1;
}

static void give_up(void)
{
    for (int i = 0; i < MOST; i++) drop(&entries[i]);
    drop(&wake[0]);
    drop(&wake[1]);
    running = 0;
}

static int is_sound(void)
{
    return file_of(wake[0].descriptor) == wake[0].file && file_of(wake[1].descriptor) == wake[1].file;
}

/* Ends where nobody lingers any more: the next one starts another. */
static void *serve(void *argument)
{
    (void)argument;
    for (;;) {
        struct pollfd list[MOST + 1];
        char drain[MOST];
        pthread_mutex_lock(&lock);
        int timeout = sweep();
        if (timeout < 0 || asked_to_end || !is_sound()) {
            give_up();
            if (asked_to_end) ended_number = (pid_t)syscall(SYS_gettid);
            else pthread_detach(pthread_self());
            asked_to_end = 0;
            pthread_cond_broadcast(&ended);
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        for (int i = 0; i < MOST; i++) list[i] = (struct pollfd){entries[i].descriptor, POLLIN | POLLRDHUP, 0};
        list[MOST] = (struct pollfd){wake[0].descriptor, POLLIN, 0};
        pthread_mutex_unlock(&lock);
        if (poll(list, MOST + 1, timeout) <= 0) continue;
        pthread_mutex_lock(&lock);
        for (int i = 0; i < MOST; i++)
            if (list[i].revents && entries[i].descriptor == list[i].fd) drop(&entries[i]);
        if (list[MOST].revents && is_sound())
            while (read(wake[0].descriptor, drain, sizeof drain) > 0) {}
        pthread_mutex_unlock(&lock);
    }
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

static void in_child(void)
{
    give_up();
    asked_to_end = 0;
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&asking, NULL);
    pthread_cond_init(&ended, NULL);
}

static void begin(void)
{
    for (int i = 0; i < MOST; i++) entries[i].descriptor = -1;
    pthread_atfork(before_fork, after_fork, in_child);
}

static int start(void)
{
    int pipe[2];
    if (running) return is_sound() ? 0 : -EBADF; /* its thread will find that out, and end */
    if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return -errno;
    for (int i = 0; i < 2; i++) {
        int copy = copy_of(pipe[i]);
        if (copy >= 0) close(pipe[i]);
        else copy = pipe[i];
        wake[i] = (struct entry){copy, file_of(copy), 0};
    }
    int error = fs_start_thread(&thread, serve, NULL);
    running = error == 0;
    return error;
}

/* A free place, or that of whoever lingers longest. */
static uint32_t place(void)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < MOST; i++) {
        if (entries[i].descriptor < 0) return i;
        if (entries[i].since < entries[oldest].since) oldest = i;
    }
    drop(&entries[oldest]);
    return oldest;
}

void fs_linger_rest(void)
{
    pthread_mutex_lock(&asking);
    pthread_mutex_lock(&lock);
    int asked = running && is_sound() && (write(wake[1].descriptor, "", 1) == 1 || errno == EAGAIN);
    pthread_t asked_one = thread;
    asked_to_end = asked;
    while (asked_to_end) pthread_cond_wait(&ended, &lock);
    pid_t number = ended_number;
    pthread_mutex_unlock(&lock);
    if (asked) fs_join_thread(asked_one, number);
    pthread_mutex_unlock(&asking);
}

int fs_linger(int descriptor)
{
    pthread_once(&once, begin);
    if (is_over(descriptor)) return 0;
    int copy = copy_of(descriptor), error = 0;
    if (copy < 0) return -errno;
    pthread_mutex_lock(&lock);
    uint32_t at = place();
    entries[at] = (struct entry){copy, file_of(copy), fs_now_ns()};
    error = start();
    if (error == 0 && shutdown(copy, SHUT_WR) != 0) error = -errno;
    if (error != 0) drop(&entries[at]);
    if (running && is_sound() && write(wake[1].descriptor, "", 1) < 0 && errno != EAGAIN) drop(&entries[at]);
    pthread_mutex_unlock(&lock);
    return error;
}
