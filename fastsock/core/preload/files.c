/* sendfile and splice: bytes that the kernel moves by itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "next.h"
#include "passing.h"
#include "sharing.h"
#include "stream.h"
#include "switch/carry.h"

#define BLOCK ((size_t)256 << 10)
#define MOST 0x7ffff000 /* bytes that one call of the kernel moves */

/* -EBUSY: a ring carries what is sent. */
static ssize_t send_file_by_kernel(struct fs_connection *connection, int out, int in, off_t *offset, size_t count)
{
    struct fs_record *within;
    if (!fs_carry_sends_by_tcp(connection) || fs_carry_send_begins(connection, out, 0, &within) != 0) return -EBUSY;
    ssize_t sent = fs_next.sendfile(out, in, offset, count);
    if (sent < 0) sent = -errno;
    fs_carry_send_ended(connection, out, within, sent);
    return sent;
}

/* Into the ring.  -ESPIPE: the file has no positions. */
static ssize_t copy_file(struct fs_connection *connection, int out, int in, off_t *offset, size_t count)
{
    off_t at = offset != NULL ? *offset : lseek(in, 0, SEEK_CUR);
    if (at < 0) return -errno;
    char *block = malloc(count < BLOCK ? count + 1 : BLOCK);
    if (block == NULL) return -ENOMEM;
    ssize_t done = 0, sent = 0;
    while ((size_t)done < count) {
        size_t wanted = count - (size_t)done < BLOCK ? count - (size_t)done : BLOCK;
        ssize_t got = pread(in, block, wanted, at + done);
        if (got <= 0) {
            sent = got < 0 ? -errno : 0;
            break;
        }
        struct iovec part = {block, (size_t)got};
        struct fs_parts parts = {&part, 1, (size_t)got};
        sent = fs_stream_send(connection, out, &parts, 0);
        if (sent > 0) done += sent;
        if (sent < got) break;
    }
    free(block);
    if (done > 0 && offset != NULL) *offset = at + done;
    if (done > 0 && offset == NULL) lseek(in, at + done, SEEK_SET);
    return done > 0 ? done : sent;
}

FS_DOOR ssize_t sendfile(int out, int in, off_t *offset, size_t count)
{
    struct fs_connection *connection = fs_stream_of(out);
    if (connection == NULL) return fs_next.sendfile(out, in, offset, count);
    int before = errno;
    if (count > MOST) count = MOST;
    ssize_t sent = send_file_by_kernel(connection, out, in, offset, count);
    if (sent == -EBUSY) sent = copy_file(connection, out, in, offset, count);
    if (sent != -ESPIPE) return fs_answer(sent, before);
    fs_pass_number(out);
    return fs_next.sendfile(out, in, offset, count);
}

FS_DOOR ssize_t sendfile64(int out, int in, off_t *offset, size_t count);
FS_DOOR ssize_t sendfile64(int out, int in, off_t *offset, size_t count) { return sendfile(out, in, offset, count); }

/* Between a pipe and the socket nothing can be given back: so TCP carries such a connection. */
FS_DOOR ssize_t splice(int in, off_t *from, int out, off_t *to, size_t count, unsigned flags)
{
    fs_pass_number(in);
    fs_pass_number(out);
    return fs_next.splice(in, from, out, to, count, flags);
}
