/* Segments in System V shared memory: its size is fixed when it is made, so it can make nobody fault. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "sockets/abstract.h"
#include "end.h"

static int detach(void *memory, size_t size)
{
    (void)size;
    return shmdt(memory);
}

/* Only memory of this user, whom nobody else may write to: an identifier can come to mean another segment. */
static void *attach(int id, size_t *size, int *error)
{
    struct shmid_ds status;
    *error = 0;
    if (shmctl(id, IPC_STAT, &status) != 0) *error = -errno;
    else if (!fs_is_own_user(status.shm_perm.uid) || (status.shm_perm.mode & 077) != 0) *error = -EPROTO;
    if (*error != 0) return NULL;
    void *memory = shmat(id, NULL, 0);
    if (memory == (void *)-1) {
        *error = -errno;
        return NULL;
    }
    *size = status.shm_segsz; /* rounded up neither here nor by the kernel */
    return memory;
}

int fs_sysv_format(int id, uint32_t small_bytes, uint64_t token)
{
    size_t size = 0;
    int error = 0;
    void *memory = attach(id, &size, &error);
    if (memory == NULL) return error;
    if (size != fs_segment_bytes(small_bytes)) error = -EINVAL;
    else error = fs_segment_format(memory, size, small_bytes);
    if (error == 0) ((struct fs_segment_header *)memory)->token = token;
    shmdt(memory);
    return error;
}

struct fs_segment *fs_sysv_attach(int id, uint64_t token, int *error)
{
    size_t size = 0;
    void *memory = attach(id, &size, error);
    struct fs_segment *segment = memory == NULL ? NULL : fs_segment_adopt(memory, size, detach, error);
    if (segment == NULL || segment->header->token == token) return segment;
    *error = -ESTALE;
    fs_segment_drop(segment);
    return NULL;
}
