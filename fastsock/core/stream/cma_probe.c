/* Is it permitted to read another process's memory here? */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cma_offer.h"

int fs_cma_probe(void)
{
    uint64_t here = 0, there = 0;
    struct iovec into = {&there, sizeof there}, out_of = {&here, sizeof here};
    pid_t parent = getpid(), child = fork();
    if (child < 0) return -errno;
    /* the child asks: where only descendants may be read, two programs that meet are refused as it is */
    if (child == 0) {
        fs_ends_leave(NULL);
        _exit(process_vm_readv(parent, &into, 1, &out_of, 1, 0) == (ssize_t)sizeof there ? 0 : errno);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -errno;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -EINTR;
}
