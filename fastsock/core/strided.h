/* Copies between memory with gaps, as a derived datatype describes it, and memory without, as a message carries it. */
#ifndef FASTSOCK_STRIDED_H
#define FASTSOCK_STRIDED_H

#include <stdint.h>
#include <sys/uio.h>

struct fs_layout;

/* `length` bytes that begin `offset` bytes after an origin */
struct fs_run {
    int64_t offset;
    int64_t length;
};

/* `count` items of a layout, `step` bytes apart; the first one's origin is `offset` bytes after another */
struct fs_piece {
    int64_t offset;
    int64_t count;
    int64_t step;
    const struct fs_layout *layout;
};

struct fs_loop {
    int64_t count;
    int64_t stride;
    int64_t size; /* the bytes of data of one turn */
};

enum { FS_LOOPS = 6 };

/* Where the data of an item lie, in order: loops, and in them one block of `length` bytes, or else runs or pieces. What
 * has no data has a size of 0, and nothing else of it counts. */
struct fs_layout {
    int64_t size;   /* the bytes of data of an item */
    int64_t offset; /* from the item's origin to that of the innermost, in the first turn of each loop */
    int64_t length;
    const struct fs_run *runs;
    const struct fs_piece *pieces;
    int64_t count; /* of runs or pieces: at least one */
    int loops;
    struct fs_loop loop[FS_LOOPS]; /* the outermost first */
};

enum { FS_LAYOUT_FINE, FS_LAYOUT_FULL, FS_LAYOUT_HUGE };

/* A block of bytes at the origin. */
void fs_layout_block(struct fs_layout *layout, int64_t length);
/* Runs at the origin, or a block where they are one: neighbours are joined, and empty ones left out, where they stand.
 * HUGE: their sum is too large for a number. */
int fs_layout_runs(struct fs_layout *layout, struct fs_run *runs, int64_t count);
/* Pieces at the origin. HUGE as above. */
int fs_layout_pieces(struct fs_layout *layout, const struct fs_piece *pieces, int64_t count);
/* The same data `count` times, `stride` bytes apart. FULL: it has as many loops as there can be, so it has to become a
 * piece first. HUGE: the data are more bytes than a number can tell. Then the layout is as it was. */
int fs_layout_repeat(struct fs_layout *layout, int64_t count, int64_t stride);
/* Whether it is one block of bytes, which then begins at layout->offset. */
int fs_layout_is_block(const struct fs_layout *layout);

/* Items lie `extent` bytes apart. Both functions handle the bytes [from, from + bytes) of the items' data in order, where
 * `from` counts from the first byte of data of the item at `origin`, and take `packed` as the place of the first of these
 * bytes. The caller has checked that all of it lies in its memory. */
void fs_pack(unsigned char *packed, const unsigned char *origin, const struct fs_layout *layout, int64_t extent,
             int64_t from, int64_t bytes);
void fs_unpack(const unsigned char *packed, unsigned char *origin, const struct fs_layout *layout, int64_t extent,
               int64_t from, int64_t bytes);
/* Where these bytes lie, in at most so many places, neighbours joined.  How many places; *listed is how many bytes they have. */
int fs_list(struct iovec *places, int most, unsigned char *origin, const struct fs_layout *layout, int64_t extent,
            int64_t from, int64_t bytes, int64_t *listed);

#endif
