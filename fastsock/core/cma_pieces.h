/* The pieces of a block that both ends copy at once: both compute the same. */
#ifndef FASTSOCK_CMA_PIECES_H
#define FASTSOCK_CMA_PIECES_H

#include <stddef.h>
#include <stdint.h>

#define FS_SHORTEST_PIECE (16u * 1024)
#define FS_LONGEST_PIECE (512u * 1024) /* each costs a system call, some 2 us beside its bytes */

/* Eighths, so that neither end waits long for the other's last one. */
static inline size_t fs_piece_of(size_t length)
{
    size_t piece = FS_SHORTEST_PIECE;
    while (piece < FS_LONGEST_PIECE && piece * 8 < length) piece *= 2;
    return piece;
}

static inline uint32_t fs_pieces_of(size_t length)
{
    return (uint32_t)((length + fs_piece_of(length) - 1) / fs_piece_of(length));
}

static inline size_t fs_length_of_piece(size_t length, uint32_t index)
{
    size_t piece = fs_piece_of(length), from = (size_t)index * piece;
    return length - from < piece ? length - from : piece;
}

#endif
