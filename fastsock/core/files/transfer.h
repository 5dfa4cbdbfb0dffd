/* Data between memory without gaps and the places in a file that a view names.
 *
 * Functions return bytes of data, or a negative errno.  They may be called by several threads at once, without the
 * interpreter's lock.  A write locks what it writes: so nothing is lost that is written next to a part that somebody reads,
 * changes and writes back. */
#ifndef FASTSOCK_FILES_TRANSFER_H
#define FASTSOCK_FILES_TRANSFER_H

#include <stdint.h>

#include "places.h"

/* Items of an ordered layout with data, the first one's origin `start` bytes into the file. */
struct fs_file_view {
    int64_t start, extent;
    const struct fs_layout *layout;
    struct fs_reach reach;
};

/* Whether the items are ordered among each other, too. */
static inline int fs_file_view_is_ordered(const struct fs_file_view *view)
{
    return view->extent >= view->reach.end - view->reach.first;
}

enum {
    FS_FILE_READS = 1,  /* it is open for reading */
    FS_FILE_LOCKED = 2, /* the caller has the lock of all that lies between the first byte and the last */
    FS_FILE_CLAIMS = 4, /* short writes that follow each other may claim what lies behind (locks.h) */
};

/* The bytes of data [from, from + bytes) of the items.  A read ends at the end of the file. */
int64_t fs_file_read(int file, const struct fs_file_view *view, int64_t from, void *data, int64_t bytes, int how);
int64_t fs_file_write(int file, const struct fs_file_view *view, int64_t from, const void *data, int64_t bytes,
                      int how);

/* The bytes of data from `from` on that lie in a part of the file, which is in memory here, beginning with the byte `start`. */
void fs_file_take(const struct fs_file_view *view, int64_t from, void *data, int64_t bytes, const void *part,
                  int64_t start);
void fs_file_put(const struct fs_file_view *view, int64_t from, const void *data, int64_t bytes, void *part,
                 int64_t start);

#endif
