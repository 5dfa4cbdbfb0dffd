#define _GNU_SOURCE
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "system.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

int fs_sealed_create(const char *name, size_t bytes)
{
    if (!fs_may_write(bytes)) return -EFBIG;
    int memory = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0) return -errno;
    if (ftruncate(memory, (off_t)bytes) != 0 || fcntl(memory, F_ADD_SEALS, SEALS | F_SEAL_SEAL) != 0) {
        int error = errno;
        close(memory);
        return -error;
    }
    return memory;
}

int64_t fs_sealed_bytes(int memory)
{
    struct stat status;
    int seals = fcntl(memory, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS) return -EPROTO;
    return fstat(memory, &status) == 0 ? status.st_size : -errno;
}

void *fs_sealed_map(int memory, size_t bytes, int *error)
{
    *error = -ENOMEM;
    if (!fs_may_map(bytes)) return NULL;
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (start == MAP_FAILED) {
        /* for memory that must be locked (mlockall) mmap has another word where there is no more */
        if (errno != EAGAIN) *error = -errno;
        return NULL;
    }
    *error = 0;
    return start;
}

void *fs_sealed_join(int memory, size_t bytes, int *error)
{
    int64_t found = fs_sealed_bytes(memory);
    *error = found < 0 ? (int)found : -EPROTO;
    return found >= 0 && (uint64_t)found == bytes ? fs_sealed_map(memory, bytes, error) : NULL;
}
