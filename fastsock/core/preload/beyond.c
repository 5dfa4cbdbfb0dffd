/* syscall(): to the doors of the same names.  seccomp: no memory behind a filter that the program installs.  io_uring: what
 * is submitted there moves bytes past all doors.  Programs fall back where the kernel has none.  io_submit: its streams go back
 * to TCP.  dlopen: code that calls the C library past the doors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "borrowed.h"
#include "next.h"
#include "passing.h"
#include "process.h"
#include "stream.h"
#include "switch/refusals.h"
#include "switch/table.h"

static int is_refused(void) { return !atomic_load_explicit(&fs_stands_aside, memory_order_relaxed); }

/* ---- seccomp ---- */

/* A filter may end the process for a call that the program never makes by itself.  So no connection has memory behind it.
 * Nor has one beside code whose calls come by no door. */
static void leave_memory(void)
{
    if (fs_is_borrowed()) return; /* it becomes another program, which tries each call */
    fs_refusals_begin();
    fs_pass_all();
}

FS_DOOR int prctl(int option, ...)
{
    unsigned long words[4];
    va_list rest;
    va_start(rest, option);
    for (int i = 0; i < 4; i++) words[i] = va_arg(rest, unsigned long);
    va_end(rest);
    if (option == PR_SET_SECCOMP) leave_memory();
    return fs_next.prctl(option, words[0], words[1], words[2], words[3]);
}

/* ---- by a number ---- */

/* The doors themselves: by their own names the linker leads what is called here past them. */
#define REAL(result, name, parameters, arguments) result __real_##name parameters;
FS_NEXT_ALL(REAL)

/* Of a stream of the table.  0: no door has that call. */
static int is_led(long number, const long *w, long *result)
{
    int descriptor = (int)w[0];
    switch (number) {
    case SYS_read: *result = __real_read(descriptor, (void *)w[1], (size_t)w[2]); return 1;
    case SYS_write: *result = __real_write(descriptor, (void *)w[1], (size_t)w[2]); return 1;
    case SYS_readv: *result = __real_readv(descriptor, (void *)w[1], (int)w[2]); return 1;
    case SYS_writev: *result = __real_writev(descriptor, (void *)w[1], (int)w[2]); return 1;
    case SYS_recvfrom:
        *result = __real_recvfrom(descriptor, (void *)w[1], (size_t)w[2], (int)w[3], (void *)w[4], (void *)w[5]);
        return 1;
    case SYS_sendto:
        *result = __real_sendto(descriptor, (void *)w[1], (size_t)w[2], (int)w[3], (void *)w[4], (socklen_t)w[5]);
        return 1;
    case SYS_recvmsg: *result = __real_recvmsg(descriptor, (void *)w[1], (int)w[2]); return 1;
    case SYS_sendmsg: *result = __real_sendmsg(descriptor, (void *)w[1], (int)w[2]); return 1;
    case SYS_recvmmsg:
        *result = __real_recvmmsg(descriptor, (void *)w[1], (unsigned)w[2], (int)w[3], (void *)w[4]);
        return 1;
    case SYS_sendmmsg: *result = __real_sendmmsg(descriptor, (void *)w[1], (unsigned)w[2], (int)w[3]); return 1;
    case SYS_preadv2: *result = __real_preadv2(descriptor, (void *)w[1], (int)w[2], (off_t)w[3], (int)w[5]); return 1;
    case SYS_pwritev2: *result = __real_pwritev2(descriptor, (void *)w[1], (int)w[2], (off_t)w[3], (int)w[5]); return 1;
    case SYS_sendfile: *result = __real_sendfile(descriptor, (int)w[1], (void *)w[2], (size_t)w[3]); return 1;
    case SYS_close: *result = __real_close(descriptor); return 1;
    case SYS_dup: *result = __real_dup(descriptor); return 1;
    case SYS_shutdown: *result = __real_shutdown(descriptor, (int)w[1]); return 1;
    case SYS_fcntl: *result = __real_fcntl(descriptor, (int)w[1], (void *)w[2]); return 1;
    case SYS_ioctl: *result = __real_ioctl(descriptor, (unsigned long)w[1], (void *)w[2]); return 1;
    case SYS_getsockopt:
        *result = __real_getsockopt(descriptor, (int)w[1], (int)w[2], (void *)w[3], (void *)w[4]);
        return 1;
    case SYS_setsockopt:
        *result = __real_setsockopt(descriptor, (int)w[1], (int)w[2], (void *)w[3], (socklen_t)w[4]);
        return 1;
    default: return 0;
    }
}

/* Where another argument may be such a stream, or a range of numbers. */
static int is_led_by_others(long number, const long *w, long *result)
{
    switch (number) {
#ifdef SYS_dup2
    case SYS_dup2: *result = __real_dup2((int)w[0], (int)w[1]); return 1;
#endif
    case SYS_dup3: *result = __real_dup3((int)w[0], (int)w[1], (int)w[2]); return 1;
    case SYS_splice:
        *result = __real_splice((int)w[0], (void *)w[1], (int)w[2], (void *)w[3], (size_t)w[4], (unsigned)w[5]);
        return 1;
#ifdef SYS_close_range
    case SYS_close_range: *result = __real_close_range((unsigned)w[0], (unsigned)w[1], (int)w[2]); return 1;
#endif
    default: return 0;
    }
}

/* The kernel's asynchronous calls.  libaio calls it by itself, and so its name has a door, too; it returns -errno. */
static void pass_submitted(long count, struct iocb *const *all)
{
    if (fs_is_nowhere(all)) return;
    for (long i = 0; i < count; i++)
        if (!fs_is_nowhere(all[i])) fs_pass_number((int)all[i]->aio_fildes);
}

FS_DOOR int io_submit(aio_context_t context, long count, struct iocb **all);
FS_DOOR int io_submit(aio_context_t context, long count, struct iocb **all)
{
    int (*next)(aio_context_t, long, struct iocb **);
    *(void **)&next = dlsym(RTLD_NEXT, "io_submit");
    pass_submitted(count, all);
    return next == NULL ? -ENOSYS : next(context, count, all);
}

static int makes_process(long number)
{
    switch (number) {
#ifdef SYS_vfork
    case SYS_vfork:
#endif
#ifdef SYS_clone3
    case SYS_clone3:
#endif
    case SYS_clone: return 1;
    default: return 0;
    }
}

FS_DOOR long syscall(long number, ...)
{
    long words[6], result;
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_io_uring_setup && is_refused()) {
        errno = ENOSYS;
        return -1;
    }
    if (number == SYS_seccomp && (words[0] == SECCOMP_SET_MODE_STRICT || words[0] == SECCOMP_SET_MODE_FILTER))
        leave_memory();
    if (number == SYS_prctl && words[0] == PR_SET_SECCOMP) leave_memory();
    if (number == SYS_io_submit) pass_submitted(words[1], (struct iocb *const *)words[2]);
    if (makes_process(number)) fs_borrowing_begins();
    if (fs_table_find((int)words[0]) != NULL && is_led(number, words, &result)) return result;
    if (is_led_by_others(number, words, &result)) return result;
    return fs_next.syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

/* ---- liburing calls the kernel by itself: its own names that begin a ring; they return -errno ---- */

#define BEGINS_RING(name, parameters, arguments)                         \
    FS_DOOR int name parameters;                                         \
    FS_DOOR int name parameters                                          \
    {                                                                    \
        int(*next) parameters;                                           \
        *(void **)&next = is_refused() ? NULL : dlsym(RTLD_NEXT, #name); \
        return next == NULL ? -ENOSYS : next arguments;                  \
    }

BEGINS_RING(io_uring_setup, (unsigned entries, void *given), (entries, given))
BEGINS_RING(io_uring_queue_init, (unsigned entries, void *ring, unsigned flags), (entries, ring, flags))
BEGINS_RING(io_uring_queue_init_params, (unsigned entries, void *ring, void *given), (entries, ring, given))
BEGINS_RING(io_uring_queue_init_mem, (unsigned entries, void *ring, void *given, void *memory, size_t size),
            (entries, ring, given, memory, size))

/* ---- code that finds the C library before this one (RTLD_DEEPBIND), or has one of its own (dlmopen) ---- */

void *fs_dlopen_begins(const char *file, int mode) __attribute__((visibility("hidden")));
void *fs_dlopen_begins(const char *file, int mode)
{
    (void)file;
    if (mode & RTLD_DEEPBIND) leave_memory();
    return fs_next_dlopen();
}

void *fs_dlmopen_begins(long space, const char *file, int mode) __attribute__((visibility("hidden")));
void *fs_dlmopen_begins(long space, const char *file, int mode)
{
    (void)file;
    if (space != LM_ID_BASE || mode & RTLD_DEEPBIND) leave_memory();
    return fs_next_dlmopen();
}

/* Who has called them says where they look.  So a door jumps to the next one, and leaves no frame of its own behind. */
#if defined(__x86_64__)
#define JUMPS(name)                                    \
    __asm__(".pushsection .text\n"                     \
            ".globl " #name "\n"                       \
            ".type " #name ", @function\n" #name ":\n" \
            "    endbr64\n"                            \
            "    pushq %rdi\n"                         \
            "    pushq %rsi\n"                         \
            "    pushq %rdx\n"                         \
            "    call fs_" #name "_begins\n"           \
            "    popq %rdx\n"                          \
            "    popq %rsi\n"                          \
            "    popq %rdi\n"                          \
            "    jmp *%rax\n"                          \
            ".size " #name ", .-" #name "\n"           \
            ".popsection\n");
JUMPS(dlopen)
JUMPS(dlmopen)
#elif defined(__aarch64__)
#define JUMPS(name)                                    \
    __asm__(".pushsection .text\n"                     \
            ".globl " #name "\n"                       \
            ".type " #name ", %function\n" #name ":\n" \
            "    hint #34\n"                           \
            "    stp x29, x30, [sp, #-48]!\n"          \
            "    stp x0, x1, [sp, #16]\n"              \
            "    str x2, [sp, #32]\n"                  \
            "    bl fs_" #name "_begins\n"             \
            "    mov x16, x0\n"                        \
            "    ldr x2, [sp, #32]\n"                  \
            "    ldp x0, x1, [sp, #16]\n"              \
            "    ldp x29, x30, [sp], #48\n"            \
            "    br x16\n"                             \
            ".size " #name ", .-" #name "\n"           \
            ".popsection\n");
JUMPS(dlopen)
JUMPS(dlmopen)
#endif
