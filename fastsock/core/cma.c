#define _GNU_SOURCE
#include "cma.h"

#include <sys/random.h>

#include "system.h"

uint64_t fs_cma_nonce(void)
{
    uint64_t nonce;
    if (getrandom(&nonce, sizeof nonce, GRND_NONBLOCK) != sizeof nonce)
        nonce = fs_now_ns() ^ (uint64_t)(uintptr_t)&nonce;
    return nonce | 1;
}

int fs_cma_read(const struct fs_cma_identity *there, uint64_t address, struct iovec *parts, int count)
{
    uint64_t nonce = 0;
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    parts[count] = (struct iovec){&nonce, sizeof nonce};
    struct iovec places[2] = {{(void *)(uintptr_t)address, length}, {(void *)(uintptr_t)there->address, sizeof nonce}};
    ssize_t got = process_vm_readv((pid_t)there->process, parts, (unsigned long)count + 1, places, 2, 0);
    return got == (ssize_t)(length + sizeof nonce) && nonce == there->nonce;
}

int fs_cma_gather(const struct fs_cma_identity *there, struct iovec *places, int count, void *target, size_t bytes)
{
    uint64_t nonce = 0;
    struct iovec parts[2] = {{target, bytes}, {&nonce, sizeof nonce}};
    places[count] = (struct iovec){(void *)(uintptr_t)there->address, sizeof nonce};
    ssize_t got = process_vm_readv((pid_t)there->process, parts, 2, places, (unsigned long)count + 1, 0);
    return got == (ssize_t)(bytes + sizeof nonce) && nonce == there->nonce;
}

int fs_cma_write(int64_t process, const struct iovec *parts, int count, const struct iovec *places, int many)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    return process_vm_writev((pid_t)process, parts, (unsigned long)count, places, (unsigned long)many, 0) ==
           (ssize_t)length;
}
