/* Code that moves the connection's bytes by other calls than the C library's of sockets. */
#define _GNU_SOURCE
#include <aio.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "scene.h"

static void stdio_here(int number)
{
    char line[32];
    FILE *file = fdopen(dup(number), "r+");
    fprintf(file, "abc");
    fflush(file);
    say("line", fgets(line, sizeof line, file) != NULL);
    printf("%s", line);
    dprintf(number, "def");
    get(number, 3);
    fclose(file);
    close(number);
}

static void stdio_there(int number)
{
    get(number, 3);
    put(number, "ghi\n");
    get(number, 3);
    put(number, "jkl");
    await_end(number);
}

static void bare_here(int number)
{
    char bytes[8] = "";
    struct iovec part = {bytes, 4};
    say("write", syscall(SYS_write, number, "ab", (size_t)2));
    say("read", syscall(SYS_read, number, bytes, (size_t)2));
    say("is it", memcmp(bytes, "AB", 2) == 0);
    say("sendto", syscall(SYS_sendto, number, "cdef", (size_t)4, 0, NULL, 0));
    say("readv", syscall(SYS_readv, number, &part, 1));
    say("is it", memcmp(bytes, "CDEF", 4) == 0);
    int copy = (int)syscall(SYS_dup, number);
    put(copy, "g");
    say("recvfrom", syscall(SYS_recvfrom, copy, bytes, sizeof bytes, 0, NULL, NULL));
    say("close", syscall(SYS_close, copy));
    say("send", send(copy, "x", 1, 0));
    put(number, "h");
    get(number, 1);
    say("shutdown", syscall(SYS_shutdown, number, SHUT_WR));
    say("end", recv(number, bytes, sizeof bytes, 0));
    say("close", syscall(SYS_close, number));
    int null = open("/dev/null", O_WRONLY);
    say("is it", null == number && write(null, "x", 1) == 1);
}

static void bare_there(int number)
{
    static const char *const answers[] = {"AB", "CDEF", "G", "H"};
    for (int i = 0; i < 4; i++) {
        get(number, strlen(answers[i]));
        put(number, answers[i]);
    }
    await_end(number);
}

/* Another thread, of the C library's, reads and writes the number. */
static void finish(struct aiocb *call, const char *what)
{
    const struct aiocb *list[] = {call};
    while (aio_error(call) == EINPROGRESS) aio_suspend(list, 1, NULL);
    say(what, aio_return(call));
}

static void by_another_thread_here(int number)
{
    char bytes[8] = "";
    struct aiocb call = {.aio_fildes = number, .aio_buf = bytes, .aio_nbytes = 3};
    struct aiocb listed = {.aio_fildes = number, .aio_buf = "abc", .aio_nbytes = 3, .aio_lio_opcode = LIO_WRITE};
    struct aiocb *list[] = {&listed, NULL};
    await_bytes(number, 3);
    say("begins to read", aio_read(&call));
    finish(&call, "read");
    printf("%s\n", bytes);
    call.aio_buf = "def";
    say("begins to write", aio_write(&call));
    finish(&call, "written");
    say("list", lio_listio(LIO_WAIT, list, 2, NULL));
    say("written", aio_return(&listed));
    get(number, 1);
}

static void by_another_thread_there(int number)
{
    put(number, "xyz");
    get(number, 6);
    put(number, "k");
    await_end(number);
}

static long submit(aio_context_t context, int number, int what, void *bytes, size_t size)
{
    struct iocb one = {.aio_lio_opcode = (uint16_t)what,
                       .aio_fildes = (uint32_t)number,
                       .aio_buf = (uint64_t)(uintptr_t)bytes,
                       .aio_nbytes = size};
    struct iocb *all[1] = {&one};
    struct io_event event = {0};
    if (syscall(SYS_io_submit, context, 1L, all) != 1) return -1;
    return syscall(SYS_io_getevents, context, 1L, 1L, &event, NULL) == 1 ? (long)event.res : -1;
}

static void submitted_here(int number)
{
    aio_context_t context = 0;
    char bytes[16] = "";
    say("io_setup", syscall(SYS_io_setup, 4L, &context));
    put(number, "one");
    say("io_submit", submit(context, number, IOCB_CMD_PWRITE, "two", 3));
    say("io_submit", submit(context, number, IOCB_CMD_PREAD, bytes, sizeof bytes));
    say("same", memcmp(bytes, "answer", 6));
    put(number, "end");
    say("recv", recv(number, bytes, 4, MSG_WAITALL));
}

static void submitted_there(int number)
{
    char bytes[16] = "";
    if (recv(number, bytes, 6, MSG_WAITALL) == 6) put(number, memcmp(bytes, "onetwo", 6) == 0 ? "answer" : "wrong!");
    get(number, 3);
    put(number, "last");
    await_end(number);
}

/* Code whose calls of the C library come by no door of a preloaded library. */
static void go_past(int number, void *library)
{
    ssize_t (*sends)(int, const void *, size_t, int), (*receives)(int, void *, size_t, int);
    char bytes[16] = "";
    if (library == NULL) die("dlopen");
    *(void **)&sends = dlsym(library, "send");
    *(void **)&receives = dlsym(library, "recv");
    put(number, "one");
    say("send", sends(number, "two", 3, 0));
    say("recv", receives(number, bytes, 6, MSG_WAITALL));
    say("same", memcmp(bytes, "answer", 6));
    put(number, "end");
    say("recv", recv(number, bytes, 4, MSG_WAITALL));
}

static void deepbind_here(int number) { go_past(number, dlopen("libc.so.6", RTLD_NOW | RTLD_DEEPBIND)); }

static void deepbind_there(int number) { submitted_there(number); }

static void namespace_here(int number) { go_past(number, dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW)); }

static void namespace_there(int number) { submitted_there(number); }

const struct scene scenes_of_past_the_doors[] = {
    SCENE(stdio),    SCENE(bare),      SCENE(by_another_thread), SCENE(submitted),
    SCENE(deepbind), SCENE(namespace), {NULL, NULL, NULL},
};
