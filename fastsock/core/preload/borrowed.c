#define _GNU_SOURCE
#include "borrowed.h"

#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include "next.h"

static pid_t own_number;
static _Atomic int may_be; /* such a child was made, here or in a process that this one was forked from */

int fs_is_borrowed(void) { return atomic_load_explicit(&may_be, memory_order_relaxed) && getpid() != own_number; }

void fs_borrowing_begins(void) { atomic_store(&may_be, 1); }

void fs_borrowing_is_over(void) { own_number = getpid(); }

FS_DOOR int clone(int (*begin)(void *), void *stack, int flags, void *given, ...)
{
    va_list rest;
    va_start(rest, given);
    pid_t *parents = va_arg(rest, pid_t *);
    void *thread = va_arg(rest, void *);
    pid_t *childs = va_arg(rest, pid_t *);
    va_end(rest);
    if (flags & CLONE_VM) fs_borrowing_begins();
    return fs_next.clone(begin, stack, flags, given, parents, thread, childs);
}

FS_ALIAS(clone) int __clone(int (*begin)(void *), void *stack, int flags, void *given, ...);

/* It returns twice: so it must leave no frame of its own behind, and jumps to the next one. */
fs_vfork_call *fs_vfork_begins(void) __attribute__((visibility("hidden")));
fs_vfork_call *fs_vfork_begins(void)
{
    fs_borrowing_begins();
    return fs_next_vfork();
}

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    endbr64\n"
        "    subq $8, %rsp\n"
        "    call fs_vfork_begins\n"
        "    addq $8, %rsp\n"
        "    jmp *%rax\n"
        ".size vfork, .-vfork\n"
        ".globl __vfork\n"
        ".set __vfork, vfork\n"
        ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    hint #34\n" /* a branch may come here */
        "    stp x29, x30, [sp, #-16]!\n"
        "    bl fs_vfork_begins\n"
        "    ldp x29, x30, [sp], #16\n"
        "    mov x16, x0\n"
        "    br x16\n"
        ".size vfork, .-vfork\n"
        ".globl __vfork\n"
        ".set __vfork, vfork\n"
        ".popsection\n");
#else /* one that nobody has seen may come at any time */
__attribute__((constructor)) static void expect_any(void) { fs_borrowing_begins(); }
#endif
