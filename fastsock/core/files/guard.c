#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>

struct watch {
    uintptr_t start, end;
    sigjmp_buf back;
};

static _Thread_local struct watch *volatile watched;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO && before.sa_sigaction != NULL) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        signal(number, SIG_DFL); /* the instruction is executed again, and ends the process */
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct watch *watch = watched;
    uintptr_t place = (uintptr_t)info->si_addr;
    if (watch != NULL && place >= watch->start && place < watch->end) siglongjmp(watch->back, 1);
    pass_on(number, info, context);
}

/* A program may have put its own handler there since: faulthandler does.  Then that one is the one before. */
static void be_ready(void)
{
    struct sigaction found;
    if (sigaction(SIGBUS, NULL, &found) == 0 && found.sa_flags & SA_SIGINFO && found.sa_sigaction == on_fault) return;
    pthread_mutex_lock(&changing);
    if (sigaction(SIGBUS, NULL, &found) == 0 && !(found.sa_flags & SA_SIGINFO && found.sa_sigaction == on_fault)) {
        struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
        before = found;
        sigaction(SIGBUS, &ours, NULL);
    }
    pthread_mutex_unlock(&changing);
}

int fs_guarded(void (*copy)(void *context), void *context, const void *start, size_t length)
{
    struct watch watch = {.start = (uintptr_t)start, .end = (uintptr_t)start + length};
    be_ready();
    if (sigsetjmp(watch.back, 0) != 0) { /* the signal is not held back, so there is no mask to save */
        watched = NULL;
        return -EFAULT;
    }
    watched = &watch;
    copy(context);
    watched = NULL;
    return 0;
}
