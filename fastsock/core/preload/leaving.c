/* exec and spawn: another program has the numbers that live on.  stdio: the C library moves bytes past the doors. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <aio.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "next.h"
#include "passing.h"

FS_DOOR int execve(const char *path, char *const arguments[], char *const environment[])
{
    fs_pass_inherited();
    return fs_next.execve(path, arguments, environment);
}

FS_DOOR int execv(const char *path, char *const arguments[]) { return execve(path, arguments, environ); }

FS_DOOR int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    fs_pass_inherited();
    return fs_next.execvpe(file, arguments, environment);
}

FS_DOOR int execvp(const char *file, char *const arguments[]) { return execvpe(file, arguments, environ); }

FS_DOOR int fexecve(int descriptor, char *const arguments[], char *const environment[])
{
    fs_pass_inherited();
    return fs_next.fexecve(descriptor, arguments, environment);
}

FS_DOOR int execveat(int folder, const char *path, char *const arguments[], char *const environment[], int flags)
{
    fs_pass_inherited();
    return fs_next.execveat(folder, path, arguments, environment, flags);
}

FS_DOOR int system(const char *command)
{
    if (command != NULL) fs_pass_inherited();
    return fs_next.system(command);
}

FS_DOOR FILE *popen(const char *command, const char *mode)
{
    fs_pass_inherited();
    return fs_next.popen(command, mode);
}
FS_ALIAS(popen) FILE *_IO_popen(const char *command, const char *mode);

/* The arguments of execl() and its family, behind the first one; `behind`: what follows them. */
#define LISTED(arguments, first, behind, call)                               \
    va_list rest;                                                            \
    size_t count = 1;                                                        \
    va_start(rest, first);                                                   \
    while (va_arg(rest, char *) != NULL) count++;                            \
    va_end(rest);                                                            \
    char *arguments[count + 1];                                              \
    va_start(rest, first);                                                   \
    arguments[0] = (char *)first;                                            \
    for (size_t i = 1; i <= count; i++) arguments[i] = va_arg(rest, char *); \
    behind;                                                                  \
    va_end(rest);                                                            \
    return call

FS_DOOR int execl(const char *path, const char *first, ...)
{
    LISTED(arguments, first, (void)0, execv(path, arguments));
}

FS_DOOR int execlp(const char *file, const char *first, ...)
{
    LISTED(arguments, first, (void)0, execvp(file, arguments));
}

FS_DOOR int execle(const char *path, const char *first, ...)
{
    LISTED(arguments, first, char *const *environment = va_arg(rest, char *const *),
           execve(path, arguments, environment));
}

FS_DOOR int posix_spawn(pid_t *process, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    fs_pass_inherited();
    return fs_next.posix_spawn(process, path, actions, attributes, arguments, environment);
}

FS_DOOR int posix_spawnp(pid_t *process, const char *file, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    fs_pass_inherited();
    return fs_next.posix_spawnp(process, file, actions, attributes, arguments, environment);
}

FS_DOOR int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int descriptor, int as)
{
    fs_pass_number(descriptor);
    return fs_next.posix_spawn_file_actions_adddup2(actions, descriptor, as);
}

/* ---- stdio ---- */

FS_DOOR FILE *fdopen(int descriptor, const char *mode)
{
    fs_pass_to_stream(descriptor);
    return fs_next.fdopen(descriptor, mode);
}
FS_ALIAS(fdopen) FILE *_IO_fdopen(int descriptor, const char *mode);

FS_DOOR int vdprintf(int descriptor, const char *format, va_list rest)
{
    fs_pass_number(descriptor);
    return fs_next.vdprintf(descriptor, format, rest);
}

FS_DOOR int dprintf(int descriptor, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    int printed = vdprintf(descriptor, format, rest);
    va_end(rest);
    return printed;
}

FS_DOOR int __vdprintf_chk(int descriptor, int flag, const char *format, va_list rest);
FS_DOOR int __vdprintf_chk(int descriptor, int flag, const char *format, va_list rest)
{
    (void)flag;
    return vdprintf(descriptor, format, rest);
}

FS_DOOR int __dprintf_chk(int descriptor, int flag, const char *format, ...);
FS_DOOR int __dprintf_chk(int descriptor, int flag, const char *format, ...)
{
    (void)flag;
    va_list rest;
    va_start(rest, format);
    int printed = vdprintf(descriptor, format, rest);
    va_end(rest);
    return printed;
}

/* ---- asynchronous calls: a thread of the C library makes them ---- */

FS_DOOR int aio_read(struct aiocb *call)
{
    fs_pass_number(call->aio_fildes);
    return fs_next.aio_read(call);
}
FS_ALIAS(aio_read) int aio_read64(struct aiocb64 *call);

FS_DOOR int aio_write(struct aiocb *call)
{
    fs_pass_number(call->aio_fildes);
    return fs_next.aio_write(call);
}
FS_ALIAS(aio_write) int aio_write64(struct aiocb64 *call);

FS_DOOR int lio_listio(int mode, struct aiocb *const calls[], int count, struct sigevent *event)
{
    for (int i = 0; i < count; i++)
        if (calls[i] != NULL && calls[i]->aio_lio_opcode != LIO_NOP) fs_pass_number(calls[i]->aio_fildes);
    return fs_next.lio_listio(mode, calls, count, event);
}
FS_ALIAS(lio_listio) int lio_listio64(int mode, struct aiocb64 *const calls[], int count, struct sigevent *event);
