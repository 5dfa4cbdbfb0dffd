#define _GNU_SOURCE
#include "transfer.h"

#include "locks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_RUN 8192               /* of reads: from here a call for each run costs less than a copy */
#define FAR_APART 16384             /* so does one for each of runs that are so far apart */
#define BUFFERED_MOST (512ll << 10) /* at a time: it stays in the cache of the processor */

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

/* ---- one transfer ---- */

struct transfer {
    int file, writing;
    const struct fs_file_view *view;
    int64_t from, bytes; /* of data, still to be moved */
    unsigned char *data;
    int64_t done;
    int how;
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

static int run_by_run(struct transfer *at)
{
    return fs_layout_walk(at->view->layout, at->view->extent, at->from, at->bytes, one_run, at);
}

/* Nobody changes the part meanwhile. */
static int hold_to_write(const struct transfer *at, int64_t start, int64_t span)
{
    if (at->how & FS_FILE_LOCKED) return 0;
    return fs_file_hold_to_write(at->file, start, span, at->how & FS_FILE_CLAIMS);
}

static int by_runs(struct transfer *at, int64_t start, int64_t span)
{
    /* The kernel lets one at a time write to a file: who comes and goes with every run may sleep at every run. */
    const int held = at->writing ? hold_to_write(at, start, span) : 0;
    int result = run_by_run(at);
    fs_file_let_go(at->file, start, span, held);
    return result < 0 ? result : 0;
}

static int without_gaps(struct transfer *at, int64_t start)
{
    if (!at->writing) {
        int64_t count = read_run(at->file, at->data, at->bytes, start);
        if (count > 0) at->done = count;
        return count < 0 ? (int)count : 0;
    }
    const int held = hold_to_write(at, start, at->bytes);
    int64_t count = write_run(at->file, at->data, at->bytes, start);
    fs_file_let_go(at->file, start, at->bytes, held);
    if (count > 0) at->done = count;
    return count < 0 ? (int)count : 0;
}

/* ---- through a buffer: what lies between is read along, and written back as it was ---- */

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

/* Of the data in a part of the file, which is in the buffer from its byte `start` on. */
static void copy(const struct transfer *at, unsigned char *buffer, int64_t start, int64_t bytes)
{
    if (at->writing) fs_file_put(at->view, at->from, at->data, bytes, buffer, start);
    else fs_file_take(at->view, at->from, at->data, bytes, buffer, start);
}

static int read_part(struct transfer *at, unsigned char *buffer, int64_t start, int64_t length, int64_t bytes)
{
    int64_t got = read_run(at->file, buffer, length, start);
    if (got < 0) return (int)got;
    if (got < length) at->bytes = bytes = below(at, start + got) - at->from; /* the file ends there */
    copy(at, buffer, start, bytes);
    moved(at, bytes);
    return 0;
}

static int change_part(struct transfer *at, unsigned char *buffer, int64_t start, int64_t length, int64_t bytes)
{
    int64_t got = bytes == length ? length : read_run(at->file, buffer, length, start);
    if (got < 0) return (int)got;
    if (got < length) memset(buffer + got, 0, (size_t)(length - got));
    copy(at, buffer, start, bytes);
    int64_t put = write_run(at->file, buffer, length, start);
    if (put < 0) return (int)put;
    moved(at, bytes);
    return 0;
}

/* Others have claims there: they may write between the runs at any time. */
static int write_beside(struct transfer *at, int64_t bytes)
{
    struct transfer part = *at;
    part.bytes = bytes;
    int result = run_by_run(&part);
    if (result < 0) return result;
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
        if (!at->writing) {
            result = read_part(at, buffer, start, length, bytes);
            continue;
        }
        const int held = fs_file_hold_to_change(at->file, start, length, at->how & FS_FILE_LOCKED);
        if (held & FS_FILE_WHOLE) result = change_part(at, buffer, start, length, bytes);
        else result = held ? write_beside(at, bytes) : -ENOLCK;
        fs_file_let_go(at->file, start, length, held);
    }
    free(buffer);
    return result;
}

/* ---- which of these ---- */

static int with_gaps(struct transfer *at, int64_t runs, int64_t start, int64_t span)
{
    const int far = span / runs >= FAR_APART, longer = !at->writing && at->bytes / runs >= LONG_RUN;
    if (far || longer || !(at->how & FS_FILE_READS)) return by_runs(at, start, span);
    int result = through_buffer(at);
    if (result != -ENOLCK) return result;
    return by_runs(at, start, span); /* without locks nothing that lies between may be written */
}

/* Items that are ordered among each other, too. */
static int ordered(struct transfer *at)
{
    const int64_t start = place_of(at, at->from), span = place_of(at, at->from + at->bytes - 1) + 1 - start;
    if (span == at->bytes) return without_gaps(at, start);
    const int64_t items = (at->from % at->view->layout->size + at->bytes - 1) / at->view->layout->size + 1;
    int64_t runs;
    if (__builtin_mul_overflow(items, at->view->reach.runs, &runs)) runs = INT64_MAX;
    return with_gaps(at, runs, start, span);
}

/* Items that lie within each other: one after the other. */
static int item_by_item(struct transfer *at)
{
    while (at->bytes > 0) {
        const int64_t size = at->view->layout->size, item = at->from / size, from = at->from % size;
        struct fs_file_view one = *at->view;
        one.start += item * one.extent;
        one.extent = one.reach.end - one.reach.first;
        struct transfer inner = {at->file, at->writing, &one,   from, least(size - from, at->bytes),
                                 at->data, 0,           at->how};
        const int64_t wanted = inner.bytes;
        int result = ordered(&inner);
        if (result < 0) return result;
        moved(at, inner.done);
        if (inner.done < wanted) break;
    }
    return 0;
}

/* Whether all of it lies where a file may have a byte. */
static int is_in_reach(const struct transfer *at)
{
    int64_t end;
    if (__builtin_add_overflow(at->from, at->bytes, &end)) return 0;
    if (__builtin_mul_overflow(end / at->view->layout->size, at->view->extent, &end)) return 0;
    if (__builtin_add_overflow(end, at->view->start, &end)) return 0;
    return !__builtin_add_overflow(end, at->view->reach.end, &end);
}

static int64_t transfer(struct transfer *at)
{
    if (at->bytes <= 0) return 0;
    if (!is_in_reach(at)) return -EFBIG;
    int result = fs_file_view_is_ordered(at->view) ? ordered(at) : item_by_item(at);
    return result < 0 ? result : at->done;
}

int64_t fs_file_read(int file, const struct fs_file_view *view, int64_t from, void *data, int64_t bytes, int how)
{
    struct transfer at = {file, 0, view, from, bytes, data, 0, how};
    return transfer(&at);
}

int64_t fs_file_write(int file, const struct fs_file_view *view, int64_t from, const void *data, int64_t bytes, int how)
{
    struct transfer at = {file, 1, view, from, bytes, (unsigned char *)(uintptr_t)data, 0, how};
    return transfer(&at);
}
