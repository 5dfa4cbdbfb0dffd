#define _GNU_SOURCE
#include "next.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

/* A C library without that call: as a kernel without it. */
static int is_missing(void)
{
    errno = ENOSYS;
    return -1;
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    return found != NULL ? found : (void *)is_missing;
}

/* Each pointer leads to this until its definition is known. */
#define FIND_FIRST(result, name, parameters, arguments) \
    static result find_##name parameters                \
    {                                                   \
        *(void **)&fs_next.name = find(#name);          \
        return fs_next.name arguments;                  \
    }
FS_NEXT_ALL(FIND_FIRST)

#define FIRST(result, name, parameters, arguments) .name = find_##name,
struct fs_next fs_next = {FS_NEXT_ALL(FIRST)};

static fs_vfork_call *next_vfork;

fs_vfork_call *fs_next_vfork(void)
{
    if (next_vfork == NULL) *(void **)&next_vfork = find("vfork");
    return next_vfork;
}

static void *next_dlopen, *next_dlmopen;

void *fs_next_dlopen(void)
{
    if (next_dlopen == NULL) next_dlopen = find("dlopen");
    return next_dlopen;
}

void *fs_next_dlmopen(void)
{
    if (next_dlmopen == NULL) next_dlmopen = find("dlmopen");
    return next_dlmopen;
}

/* Later ones may be called by a signal's handler, or by a child that was made by vfork(). */
#define FIND_NOW(result, name, parameters, arguments) *(void **)&fs_next.name = find(#name);
__attribute__((constructor(101))) static void find_all(void)
{
    int before = errno;
    FS_NEXT_ALL(FIND_NOW)
    fs_next_vfork();
    fs_next_dlopen();
    fs_next_dlmopen();
    errno = before;
}
