#define _GNU_SOURCE
#include "rsocket_library.h"

#ifdef FS_HAS_RSOCKETS

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SOUND 53

static struct fs_rsocket_library library;
static int opened = -EAGAIN; /* 0, or -errno; -EAGAIN: not tried */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* The version of rdma-core is part of the file's name: librdmacm.so.1.4.53.0.  0: unknown. */
static unsigned version_of(const void *function)
{
    Dl_info found;
    char path[PATH_MAX];
    unsigned version = 0;
    if (dladdr(function, &found) == 0 || found.dli_fname == NULL || realpath(found.dli_fname, path) == NULL) return 0;
    const char *name = strrchr(path, '/');
    if (name == NULL || sscanf(name, "/librdmacm.so.%*u.%*u.%u.", &version) != 1) return 0;
    return version;
}

static int open_it(void)
{
    void *manager = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    if (manager == NULL) return -ENOENT;
#define FS_FIND(function)                                                                               \
    _Static_assert(__builtin_types_compatible_p(__typeof__(library.function), __typeof__(&(function))), \
                   "as the header has it");                                                             \
    if (fs_library_find(manager, #function, &library.function) != 0) return -ENOENT;
    FS_FIND(rsocket)
    FS_FIND(rbind)
    FS_FIND(rlisten)
    FS_FIND(raccept)
    FS_FIND(rconnect)
    FS_FIND(rclose)
    FS_FIND(rrecv)
    FS_FIND(rsend)
    FS_FIND(rpoll)
    FS_FIND(rgetpeername)
    FS_FIND(rgetsockopt)
    FS_FIND(rsetsockopt)
    FS_FIND(rfcntl)
    return version_of(dlsym(manager, "rsocket")) < FIRST_SOUND ? -ELIBBAD : 0;
}

const struct fs_rsocket_library *fs_rsocket_library(int *error)
{
    if (fs_verbs_library(error) == NULL) return NULL;
    pthread_mutex_lock(&opening);
    if (opened == -EAGAIN) opened = open_it();
    *error = opened;
    pthread_mutex_unlock(&opening);
    return *error == 0 ? &library : NULL;
}

#endif
