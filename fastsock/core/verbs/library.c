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
#include <string.h>

static struct fs_verbs_library library;
static int opened = -EAGAIN; /* 0, or -errno; -EAGAIN: not tried */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* An object pointer becomes a function pointer: POSIX promises it of dlsym(), ISO C has no word for it. */
static int find(void *handle, const char *name, void *member)
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
    if (find(from, #function, &library.function) != 0) return -ENOENT;
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

#endif
