#include "library.h"

#include <dirent.h>
#include <stddef.h>

#define DEVICES "/sys/class/infiniband"

int fs_verbs_has_device(void)
{
    int found = 0;
    DIR *devices = opendir(DEVICES);
    if (devices == NULL) return 0;
    for (struct dirent *entry; !found && (entry = readdir(devices)) != NULL;) found = entry->d_name[0] != '.';
    closedir(devices);
    return found;
}

#ifdef FS_HAS_VERBS

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "system.h"

static struct fs_verbs_library library;
static int opened = -EAGAIN; /* 0, or -errno; -EAGAIN: not tried */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* An object pointer becomes a function pointer: POSIX promises it of dlsym(), ISO C has no word for it. */
int fs_library_find(void *handle, const char *name, void *member)
{
    void *found = dlsym(handle, name);
    if (found == NULL) return -ENOENT;
    memcpy(member, &found, sizeof found);
    return 0;
}

static int open_both(void)
{
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    void *manager = verbs == NULL ? NULL : dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    if (manager == NULL) return -ENOENT;
#define FS_FIND(from, function) \
    if (fs_library_find(from, #function, &library.function) != 0) return -ENOENT;
#define FS_FIND_VERBS(function) FS_FIND(verbs, function)
#define FS_FIND_RDMA(function) FS_FIND(manager, function)
    FS_VERBS_FUNCTIONS(FS_FIND_VERBS)
    FS_RDMA_FUNCTIONS(FS_FIND_RDMA)
    /* Else ibv_fork_init() would take registered memory, so every open socket, away from a child. */
    return library.ibv_is_fork_initialized() == IBV_FORK_UNNEEDED ? 0 : -ENOTSUP;
}

const struct fs_verbs_library *fs_verbs_library(int *error)
{
    pthread_mutex_lock(&opening);
    if (opened == -EAGAIN) *error = fs_verbs_has_device() ? (opened = open_both()) : -ENODEV;
    else *error = opened;
    pthread_mutex_unlock(&opening);
    return *error == 0 ? &library : NULL;
}

int fs_verbs_any_is_iwarp(const struct fs_verbs_library *verbs)
{
    int count = 0, found = 0;
    struct ibv_device **devices = verbs->ibv_get_device_list(&count);
    for (int i = 0; devices != NULL && i < count; i++) found |= devices[i]->transport_type == IBV_TRANSPORT_IWARP;
    if (devices != NULL) verbs->ibv_free_device_list(devices);
    return found;
}

static _Atomic uint32_t user; /* the generation of the process that used a device first */

int fs_verbs_is_inherited(void)
{
    const uint32_t first = atomic_load(&user);
    return first != 0 && first != fs_generation();
}

int fs_verbs_use(void)
{
    uint32_t nobody = 0;
    atomic_compare_exchange_strong(&user, &nobody, fs_generation());
    return fs_verbs_is_inherited() ? -EPERM : 0;
}

#endif
