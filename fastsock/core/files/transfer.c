#define _GNU_SOURCE
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define LONG_RUN 2048               /* from here a call for each run costs less than a copy, or a page of a mapping */
#define FAR_APART 16384             /* so does one for each of runs that share no page */
#define MAPPED_MOST (64ll << 20)    /* at a time */
#define BUFFERED_MOST (256ll << 10) /* at a time: it stays in the cache of the processor */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- a part without gaps ---- */

static int64_t read_run(int file, unsigned char *data, int64_t bytes, int64_t offset)
{
    int64_t done = 0;
    while (done < bytes) {
        ssize_t got = pread(file, data + done, (size_t)(bytes - done), offset + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        done += got;
    }
    return done;
}

static int64_t write_run(int file, const unsigned char *data, int64_t bytes, int64_t offset)
{
    int64_t done = 0;
    while (done < bytes) {
        ssize_t put = pwrite(file, data + done, (size_t)(bytes - done), offset + done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -errno;
        if (put == 0) return -ENOSPC;
        done += put;
    }
    return done;
}

/* ---- locks ---- */

int fs_file_lock(int file, int64_t start, int64_t length, int kind)
{
    static const short types[] = {F_UNLCK, F_RDLCK, F_WRLCK};
    struct flock lock = {.l_type = types[kind], .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(file, kind == FS_FILE_UNLOCK ? F_OFD_SETLK : F_OFD_SETLKW, &lock) == 0 ? 0 : -errno;
}

static int lock_alone(int file, int64_t start, int64_t length)
{
    int result;
    do result = fs_file_lock(file, start, length, FS_FILE_ALONE);
    while (result == -EINTR); /* who has it writes a few megabytes, and waits for nobody */
    return result;
}

/* ---- one transfer ---- */

struct transfer {
    int file, writing;
    const struct fs_file_view *view;
    int64_t from, bytes; /* of data, still to be moved */
    unsigned char *data;
    int64_t done;
    int everywhere; /* it comes to every page on its way */
};

static int64_t place_of(const struct transfer *at, int64_t from)
{
    return at->view->start + fs_layout_place(at->view->layout, at->view->extent, from);
}

static int64_t below(const struct transfer *at, int64_t offset)
{
    return fs_layout_below(at->view->layout, at->view->extent, offset - at->view->start);
}

static void moved(struct transfer *at, int64_t bytes)
{
    at->from += bytes, at->bytes -= bytes, at->data += bytes, at->done += bytes;
}

/* ---- a call for each run ---- */

static int one_run(void *context, int64_t offset, int64_t length)
{
    struct transfer *at = context;
    offset += at->view->start;
    int64_t count =
        at->writing ? write_run(at->file, at->data, length, offset) : read_run(at->file, at->data, length, offset);
    if (count < 0) return (int)count;
    at->data += count, at->done += count;
    return count < length; /* the file ends there */
}

static int by_runs(struct transfer *at)
{
    int result = fs_layout_walk(at->view->layout, at->view->extent, at->from, at->bytes, one_run, at);
    return result < 0 ? result : 0;
}

/* ---- through a mapping: what lies between is not touched, whoever writes there ---- */

void fs_file_take(const struct fs_file_view *view, int64_t from, void *data, int64_t bytes, const void *part,
                  int64_t start)
{
    const unsigned char *origin = (const unsigned char *)part - (start - view->start);
    fs_pack(data, origin, view->layout, view->extent, from, bytes);
}

void fs_file_put(const struct fs_file_view *view, int64_t from, const void *data, int64_t bytes, void *part,
                 int64_t start)
{
    unsigned char *origin = (unsigned char *)part - (start - view->start);
    fs_unpack(data, origin, view->layout, view->extent, from, bytes);
}

/* A part of the file that is in memory, from its byte `start` on. */
struct copying {
    const struct transfer *at;
    unsigned char *part;
    int64_t start, bytes;
};

static void copy(void *context)
{
    const struct copying *copying = context;
    const struct transfer *at = copying->at;
    if (at->writing) fs_file_put(at->view, at->from, at->data, copying->bytes, copying->part, copying->start);
    else fs_file_take(at->view, at->from, at->data, copying->bytes, copying->part, copying->start);
}

static int64_t size_of(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 ? (int64_t)status.st_size : -errno;
}

/* What was in the way of a page. */
static int fault_of(const struct transfer *at, int64_t end)
{
    int64_t size = size_of(at->file);
    if (size < 0) return (int)size;
    return size < end ? -FS_FILE_SHRANK : -ENOSPC;
}

/* The bytes of data up to `end`.  The file is so long. */
static int through_window(struct transfer *at, int64_t end, int64_t bytes)
{
    const int64_t page = sysconf(_SC_PAGESIZE), start = place_of(at, at->from) / page * page;
    const size_t length = (size_t)(end - start);
    unsigned char *window = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, at->file, start);
    if (window == MAP_FAILED) return -errno;
    struct copying copying = {at, window, start, bytes};
    if (at->everywhere) madvise(window, length, MADV_POPULATE_WRITE); /* where it fails the copy tells */
    int result = fs_guarded(copy, &copying, window, length);
    munmap(window, length);
    if (result != 0) return fault_of(at, end);
    moved(at, bytes);
    return 0;
}

static int through_mapping(struct transfer *at)
{
    const int64_t size = size_of(at->file), last = place_of(at, at->from + at->bytes - 1);
    if (size < 0) return (int)size;
    if (size <= last) { /* that makes it longer, and never shorter */
        int64_t count = write_run(at->file, at->data + at->bytes - 1, 1, last);
        if (count < 0) return (int)count;
    }
    while (at->bytes > 0) {
        const int64_t end = place_of(at, at->from) + MAPPED_MOST;
        const int64_t bytes = least(below(at, end) - at->from, at->bytes);
        int result = through_window(at, place_of(at, at->from + bytes - 1) + 1, bytes);
        if (result != 0) return result;
    }
    return 0;
}

/* ---- through a buffer: what lies between is read along, and written back as it was ---- */

static int fill_window(struct transfer *at, unsigned char *buffer, int64_t start, int64_t length, int64_t bytes)
{
    struct copying copying = {at, buffer, start, bytes};
    int64_t got = read_run(at->file, buffer, length, start);
    if (got < 0) return (int)got;
    if (at->writing) {
        if (got < length) memset(buffer + got, 0, (size_t)(length - got));
        copy(&copying);
        got = write_run(at->file, buffer, length, start);
        if (got < 0) return (int)got;
    } else {
        if (got < length) bytes = copying.bytes = below(at, start + got) - at->from;
        copy(&copying);
        if (got < length) at->bytes = bytes; /* the file ends there */
    }
    moved(at, bytes);
    return 0;
}

static int through_buffer(struct transfer *at)
{
    const int64_t span = place_of(at, at->from + at->bytes - 1) + 1 - place_of(at, at->from);
    unsigned char *buffer = malloc((size_t)least(span, BUFFERED_MOST));
    int result = buffer == NULL ? -ENOMEM : 0;
    while (at->bytes > 0 && result == 0) {
        const int64_t start = place_of(at, at->from);
        const int64_t bytes = least(below(at, start + BUFFERED_MOST) - at->from, at->bytes);
        const int64_t length = place_of(at, at->from + bytes - 1) + 1 - start;
        if (at->writing) result = lock_alone(at->file, start, length);
        if (result != 0) break;
        result = fill_window(at, buffer, start, length, bytes);
        if (at->writing) fs_file_lock(at->file, start, length, FS_FILE_UNLOCK);
    }
    free(buffer);
    return result;
}

/* ---- which of these ---- */

static int with_gaps(struct transfer *at, int64_t runs, int64_t span, int how)
{
    if (at->bytes / runs >= LONG_RUN || span / runs >= FAR_APART || !(how & FS_FILE_READS)) return by_runs(at);
    at->everywhere = span / runs <= sysconf(_SC_PAGESIZE);
    if (at->writing && how & FS_FILE_MAPS) {
        int result = through_mapping(at);
        if (result != -ENODEV && result != -EACCES) return result; /* else: not every file can be mapped */
    }
    return through_buffer(at);
}

/* Items that are ordered among each other, too. */
static int ordered(struct transfer *at, int how)
{
    const int64_t start = place_of(at, at->from), span = place_of(at, at->from + at->bytes - 1) + 1 - start;
    if (span == at->bytes) {
        int64_t count =
            at->writing ? write_run(at->file, at->data, span, start) : read_run(at->file, at->data, span, start);
        if (count > 0) at->done += count;
        return count < 0 ? (int)count : 0;
    }
    const int64_t items = (at->from % at->view->layout->size + at->bytes - 1) / at->view->layout->size + 1;
    int64_t runs;
    if (__builtin_mul_overflow(items, at->view->reach.runs, &runs)) runs = INT64_MAX;
    return with_gaps(at, runs, span, how);
}

/* Items that lie within each other: one after the other. */
static int item_by_item(struct transfer *at, int how)
{
    while (at->bytes > 0) {
        const int64_t size = at->view->layout->size, item = at->from / size, from = at->from % size;
        struct fs_file_view one = *at->view;
        one.start += item * one.extent;
        one.extent = one.reach.end - one.reach.first;
        struct transfer inner = {at->file, at->writing, &one, from, least(size - from, at->bytes), at->data, 0, 0};
        const int64_t wanted = inner.bytes;
        int result = ordered(&inner, how);
        if (result < 0) return result;
        moved(at, inner.done);
        if (inner.done < wanted) break;
    }
    return 0;
}

static int64_t transfer(struct transfer *at, int how)
{
    if (at->bytes <= 0) return 0;
    int result = fs_file_view_is_ordered(at->view) ? ordered(at, how) : item_by_item(at, how);
    return result < 0 ? result : at->done;
}

int64_t fs_file_read(int file, const struct fs_file_view *view, int64_t from, void *data, int64_t bytes, int how)
{
    struct transfer at = {file, 0, view, from, bytes, data, 0, 0};
    return transfer(&at, how);
}

int64_t fs_file_write(int file, const struct fs_file_view *view, int64_t from, const void *data, int64_t bytes, int how)
{
    struct transfer at = {file, 1, view, from, bytes, (unsigned char *)(uintptr_t)data, 0, 0};
    return transfer(&at, how);
}
