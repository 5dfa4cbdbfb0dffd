/* The next definitions of the names that this library has too: the C library's, or those of a library that is preloaded
 * behind this one.
 *
 * The doors call them as fs_next.NAME.  The core, which is linked within, knows nothing of that: what it calls by such a
 * name is led there by the linker (--wrap).  Each finds its definition when it is called first, which may be before this
 * library's own constructor has run.
 */
#ifndef FASTSOCK_PRELOAD_NEXT_H
#define FASTSOCK_PRELOAD_NEXT_H

#include <aio.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* The result, the name, the parameters, and how they are passed on. */
#define FS_NEXT_ALL(X)                                                                                             \
    X(int, socket, (int a, int b, int c), (a, b, c))                                                               \
    X(int, connect, (int a, const struct sockaddr *b, socklen_t c), (a, b, c))                                     \
    X(int, accept, (int a, struct sockaddr *b, socklen_t *c), (a, b, c))                                           \
    X(int, accept4, (int a, struct sockaddr *b, socklen_t *c, int d), (a, b, c, d))                                \
    X(int, close, (int a), (a))                                                                                    \
    X(int, close_range, (unsigned a, unsigned b, int c), (a, b, c))                                                \
    X(int, shutdown, (int a, int b), (a, b))                                                                       \
    X(int, dup, (int a), (a))                                                                                      \
    X(int, dup2, (int a, int b), (a, b))                                                                           \
    X(int, dup3, (int a, int b, int c), (a, b, c))                                                                 \
    X(int, fcntl, (int a, int b, void *c), (a, b, c))                                                              \
    X(ssize_t, send, (int a, const void *b, size_t c, int d), (a, b, c, d))                                        \
    X(ssize_t, recv, (int a, void *b, size_t c, int d), (a, b, c, d))                                              \
    X(ssize_t, sendto, (int a, const void *b, size_t c, int d, const struct sockaddr *e, socklen_t f),             \
      (a, b, c, d, e, f))                                                                                          \
    X(ssize_t, recvfrom, (int a, void *b, size_t c, int d, struct sockaddr *e, socklen_t *f), (a, b, c, d, e, f))  \
    X(ssize_t, sendmsg, (int a, const struct msghdr *b, int c), (a, b, c))                                         \
    X(ssize_t, recvmsg, (int a, struct msghdr *b, int c), (a, b, c))                                               \
    X(int, sendmmsg, (int a, struct mmsghdr *b, unsigned c, int d), (a, b, c, d))                                  \
    X(int, recvmmsg, (int a, struct mmsghdr *b, unsigned c, int d, struct timespec *e), (a, b, c, d, e))           \
    X(ssize_t, read, (int a, void *b, size_t c), (a, b, c))                                                        \
    X(ssize_t, write, (int a, const void *b, size_t c), (a, b, c))                                                 \
    X(ssize_t, readv, (int a, const struct iovec *b, int c), (a, b, c))                                            \
    X(ssize_t, writev, (int a, const struct iovec *b, int c), (a, b, c))                                           \
    X(ssize_t, preadv2, (int a, const struct iovec *b, int c, off_t d, int e), (a, b, c, d, e))                    \
    X(ssize_t, pwritev2, (int a, const struct iovec *b, int c, off_t d, int e), (a, b, c, d, e))                   \
    X(ssize_t, sendfile, (int a, int b, off_t *c, size_t d), (a, b, c, d))                                         \
    X(ssize_t, splice, (int a, off_t *b, int c, off_t *d, size_t e, unsigned f), (a, b, c, d, e, f))               \
    X(int, poll, (struct pollfd * a, nfds_t b, int c), (a, b, c))                                                  \
    X(int, ppoll, (struct pollfd * a, nfds_t b, const struct timespec *c, const sigset_t *d), (a, b, c, d))        \
    X(int, select, (int a, fd_set *b, fd_set *c, fd_set *d, struct timeval *e), (a, b, c, d, e))                   \
    X(int, pselect, (int a, fd_set *b, fd_set *c, fd_set *d, const struct timespec *e, const sigset_t *f),         \
      (a, b, c, d, e, f))                                                                                          \
    X(int, epoll_create, (int a), (a))                                                                             \
    X(int, epoll_create1, (int a), (a))                                                                            \
    X(int, epoll_ctl, (int a, int b, int c, struct epoll_event *d), (a, b, c, d))                                  \
    X(int, epoll_wait, (int a, struct epoll_event *b, int c, int d), (a, b, c, d))                                 \
    X(int, epoll_pwait, (int a, struct epoll_event *b, int c, int d, const sigset_t *e), (a, b, c, d, e))          \
    X(int, epoll_pwait2, (int a, struct epoll_event *b, int c, const struct timespec *d, const sigset_t *e),       \
      (a, b, c, d, e))                                                                                             \
    X(int, ioctl, (int a, unsigned long b, void *c), (a, b, c))                                                    \
    X(int, getsockopt, (int a, int b, int c, void *d, socklen_t *e), (a, b, c, d, e))                              \
    X(int, setsockopt, (int a, int b, int c, const void *d, socklen_t e), (a, b, c, d, e))                         \
    X(int, execve, (const char *a, char *const b[], char *const c[]), (a, b, c))                                   \
    X(int, execvpe, (const char *a, char *const b[], char *const c[]), (a, b, c))                                  \
    X(int, fexecve, (int a, char *const b[], char *const c[]), (a, b, c))                                          \
    X(int, execveat, (int a, const char *b, char *const c[], char *const d[], int e), (a, b, c, d, e))             \
    X(int, clone, (int (*a)(void *), void *b, int c, void *d, pid_t *e, void *f, pid_t *g), (a, b, c, d, e, f, g)) \
    X(int, system, (const char *a), (a))                                                                           \
    X(FILE *, popen, (const char *a, const char *b), (a, b))                                                       \
    X(int, posix_spawn,                                                                                            \
      (pid_t * a, const char *b, const posix_spawn_file_actions_t *c, const posix_spawnattr_t *d, char *const e[], \
       char *const f[]),                                                                                           \
      (a, b, c, d, e, f))                                                                                          \
    X(int, posix_spawnp,                                                                                           \
      (pid_t * a, const char *b, const posix_spawn_file_actions_t *c, const posix_spawnattr_t *d, char *const e[], \
       char *const f[]),                                                                                           \
      (a, b, c, d, e, f))                                                                                          \
    X(int, posix_spawn_file_actions_adddup2, (posix_spawn_file_actions_t * a, int b, int c), (a, b, c))            \
    X(FILE *, fdopen, (int a, const char *b), (a, b))                                                              \
    X(long, syscall, (long a, long b, long c, long d, long e, long f, long g), (a, b, c, d, e, f, g))              \
    X(int, prctl, (int a, unsigned long b, unsigned long c, unsigned long d, unsigned long e), (a, b, c, d, e))    \
    X(int, aio_read, (struct aiocb * a), (a))                                                                      \
    X(int, aio_write, (struct aiocb * a), (a))                                                                     \
    X(int, lio_listio, (int a, struct aiocb *const b[], int c, struct sigevent *d), (a, b, c, d))                  \
    X(int, vdprintf, (int a, const char *b, va_list c), (a, b, c))

#define FS_NEXT_POINTER(result, name, parameters, arguments) result(*name) parameters;
struct fs_next {
    FS_NEXT_ALL(FS_NEXT_POINTER)
};
extern struct fs_next fs_next __attribute__((visibility("default"))); /* also for Python's modules (led.c) */

/* vfork() returns twice, so nobody calls it for another: where it is. */
typedef pid_t fs_vfork_call(void);
fs_vfork_call *fs_next_vfork(void);
/* Likewise of those that ask who has called them. */
void *fs_next_dlopen(void);
void *fs_next_dlmopen(void);

#define FS_DOOR __attribute__((visibility("default")))
/* Another name of a door. */
#if __has_attribute(copy)
#define FS_ALIAS(name) FS_DOOR __attribute__((alias(#name), copy(name)))
#else
#define FS_ALIAS(name) FS_DOOR __attribute__((alias(#name)))
#endif

#endif
