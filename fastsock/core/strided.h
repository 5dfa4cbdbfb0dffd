/* Copies between memory with gaps, as a derived datatype describes it, and memory without, as a message carries it. */
#ifndef FASTSOCK_STRIDED_H
#define FASTSOCK_STRIDED_H

#include <stdint.h>

/* `length` bytes that begin `offset` bytes after an item's origin */
struct fs_run {
    int64_t offset;
    int64_t length;
};

/* Items lie `extent` bytes apart and consist of `count` runs each. Both functions handle the bytes [from, from + bytes)
 * of the items' data in order, where `from` counts from the first run of the item at `origin`, and take `packed` as the
 * place of the first of these bytes. The caller has checked that all of it lies in its memory. */
void fs_pack(unsigned char *packed, const unsigned char *origin, const struct fs_run *runs, int64_t count,
             int64_t extent, int64_t from, int64_t bytes);
void fs_unpack(const unsigned char *packed, unsigned char *origin, const struct fs_run *runs, int64_t count,
               int64_t extent, int64_t from, int64_t bytes);

#endif
