/* Reductions of arrays: one loop for every predefined operation and type. */
#ifndef FASTSOCK_TEAM_KERNELS_H
#define FASTSOCK_TEAM_KERNELS_H

#include <stddef.h>

/* clang-format off */
enum fs_operation {
    FS_SUM, FS_PROD, FS_MAX, FS_MIN, FS_LAND, FS_LOR, FS_LXOR, FS_BAND, FS_BOR, FS_BXOR,
    FS_MAXLOC, FS_MINLOC, FS_REPLACE, FS_NO_OP, FS_OPERATIONS
};

/* The last six are pairs of a value and an int without a gap between or behind them, for MAXLOC and MINLOC. */
enum fs_type {
    FS_INT8, FS_INT16, FS_INT32, FS_INT64, FS_UINT8, FS_UINT16, FS_UINT32, FS_UINT64,
    FS_FLOAT, FS_DOUBLE, FS_LONG_DOUBLE, FS_COMPLEX_FLOAT, FS_COMPLEX_DOUBLE, FS_COMPLEX_LONG_DOUBLE, FS_BOOL,
    FS_QUAD, FS_COMPLEX_QUAD, /* IEEE binary128, Fortran's REAL(16); no arithmetic where the compiler has none */
    FS_FLOAT_INT, FS_DOUBLE_INT, FS_LONG_INT, FS_INT_INT, FS_SHORT_INT, FS_LONG_DOUBLE_INT, FS_TYPES
};
/* clang-format on */

/* target = left operation right, element by element.  Addresses need no alignment; the target may be one of the two. */
typedef void fs_kernel(const void *left, const void *right, void *target, size_t count);

fs_kernel *fs_kernel_of(int operation, int type); /* NULL: there is no such combination */
size_t fs_type_size(int type);                    /* 0: there is no such type */

/* target = pieces[0] operation pieces[1] operation ..., always in that order; the target may be one of them. */
void fs_reduce_pieces(fs_kernel *kernel, size_t element, const unsigned char *const *pieces, int many,
                      unsigned char *target, size_t count);

#endif
