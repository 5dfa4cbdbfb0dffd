#include "kernels.h"

#include <float.h>
#include <stdint.h>

#include "copy.h"

#define BLOCK 4096 /* bytes of an intermediate result: it stays in the nearest cache */

/* Equal addresses are fine, as an element depends on those of its own place only: no check for overlap is needed. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* not every type has vectors */
#define FOR_EACH _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < count; i++)
#else
#define FOR_EACH _Pragma("GCC ivdep") for (size_t i = 0; i < count; i++)
#endif

/* Addresses come from the program: they may have any alignment. */
#define ANYWHERE(type) type __attribute__((aligned(1)))

/* clang-format off */
#define KERNEL(name, type, expression)                                                          \
    static void name(const void *left, const void *right, void *target, size_t count)           \
    {                                                                                           \
        typedef ANYWHERE(type) element;                                                         \
        const element *a = left, *b = right;                                                    \
        element *c = target;                                                                    \
        FOR_EACH c[i] = (type)(expression);                                                     \
    }

/* Sums and products wrap around, as everybody's do: in an unsigned type that is no overflow. */
#define INTEGER(name, type, wide)                              \
    KERNEL(name##_sum, type, (wide)a[i] + (wide)b[i])          \
    KERNEL(name##_prod, type, (wide)a[i] * (wide)b[i])         \
    KERNEL(name##_max, type, a[i] > b[i] ? a[i] : b[i])        \
    KERNEL(name##_min, type, a[i] < b[i] ? a[i] : b[i])        \
    KERNEL(name##_land, type, (a[i] != 0) & (b[i] != 0))       \
    KERNEL(name##_lor, type, (a[i] != 0) | (b[i] != 0))        \
    KERNEL(name##_lxor, type, (a[i] != 0) ^ (b[i] != 0))       \
    KERNEL(name##_band, type, a[i] & b[i])                     \
    KERNEL(name##_bor, type, a[i] | b[i])                      \
    KERNEL(name##_bxor, type, a[i] ^ b[i])

INTEGER(int8, int8_t, uint32_t)
INTEGER(int16, int16_t, uint32_t)
INTEGER(int32, int32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint8, uint8_t, uint32_t)
INTEGER(uint16, uint16_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(uint64, uint64_t, uint64_t)

#define REAL(name, type)                                \
    KERNEL(name##_sum, type, a[i] + b[i])               \
    KERNEL(name##_prod, type, a[i] * b[i])              \
    KERNEL(name##_max, type, a[i] > b[i] ? a[i] : b[i]) \
    KERNEL(name##_min, type, a[i] < b[i] ? a[i] : b[i])

REAL(float, float)
REAL(double, double)
REAL(long_double, long double)

/* Written out, because C's own product of complex numbers looks for infinities and takes ten times as long. */
#define COMPLEX(name, type, part)                                                               \
    static void name##_sum(const void *left, const void *right, void *target, size_t count)     \
    {                                                                                           \
        part##_sum(left, right, target, 2 * count);                                             \
    }                                                                                           \
    static void name##_prod(const void *left, const void *right, void *target, size_t count)    \
    {                                                                                           \
        typedef ANYWHERE(type) element;                                                         \
        const element *a = left, *b = right;                                                    \
        element *c = target;                                                                    \
        FOR_EACH {                                                                              \
            type ar = a[2 * i], ai = a[2 * i + 1], br = b[2 * i], bi = b[2 * i + 1];            \
            c[2 * i] = ar * br - ai * bi;                                                       \
            c[2 * i + 1] = ar * bi + ai * br;                                                   \
        }                                                                                       \
    }

COMPLEX(complex_float, float, float)
COMPLEX(complex_double, double, double)
COMPLEX(complex_long_double, long double, long_double)

#if LDBL_MANT_DIG == 113
typedef long double quad_number;
#define HAVE_QUAD 1
#elif defined(__SIZEOF_FLOAT128__)
typedef __float128 quad_number;
#define HAVE_QUAD 1
#endif
#ifdef HAVE_QUAD
REAL(quad, quad_number)
COMPLEX(complex_quad, quad_number, quad)
#endif

/* Of equal values the one with the lower place.  Packed, as they travel: what lies in the gaps of a program's own pairs is
 * nobody else's business. */
#define PAIR(name, type)                                                                        \
    struct __attribute__((packed)) name { type value; int place; };                                                     \
    KERNEL(name##_maxloc, struct name,                                                          \
           a[i].value > b[i].value || (a[i].value == b[i].value && a[i].place < b[i].place) ? a[i] : b[i]) \
    KERNEL(name##_minloc, struct name,                                                          \
           a[i].value < b[i].value || (a[i].value == b[i].value && a[i].place < b[i].place) ? a[i] : b[i])

#undef KERNEL
#define KERNEL(name, type, expression)                                                          \
    static void name(const void *left, const void *right, void *target, size_t count)           \
    {                                                                                           \
        typedef ANYWHERE(type) element;                                                         \
        const element *a = left, *b = right;                                                    \
        element *c = target;                                                                    \
        for (size_t i = 0; i < count; i++) {                                                    \
            type chosen = expression;                                                           \
            c[i] = chosen;                                                                      \
        }                                                                                       \
    }

PAIR(float_int, float)
PAIR(double_int, double)
PAIR(long_int, long)
PAIR(int_int, int)
PAIR(short_int, short)
PAIR(long_double_int, long double)

static const size_t sizes[FS_TYPES] = {
    1, 2, 4, 8, 1, 2, 4, 8, sizeof(float), sizeof(double), sizeof(long double),
    2 * sizeof(float), 2 * sizeof(double), 2 * sizeof(long double), 1, 16, 32,
    sizeof(struct float_int), sizeof(struct double_int), sizeof(struct long_int),
    sizeof(struct int_int), sizeof(struct short_int), sizeof(struct long_double_int),
};

size_t fs_type_size(int type) { return type >= 0 && type < FS_TYPES ? sizes[type] : 0; }

#define NUMBERS(name) [FS_SUM] = name##_sum, [FS_PROD] = name##_prod
#define ORDERED(name) NUMBERS(name), [FS_MAX] = name##_max, [FS_MIN] = name##_min
#define LOGICAL(name) [FS_LAND] = name##_land, [FS_LOR] = name##_lor, [FS_LXOR] = name##_lxor
#define INTEGERS(name) \
    ORDERED(name), LOGICAL(name), [FS_BAND] = name##_band, [FS_BOR] = name##_bor, [FS_BXOR] = name##_bxor
#define PLACES(name) [FS_MAXLOC] = name##_maxloc, [FS_MINLOC] = name##_minloc

static fs_kernel *const kernels[FS_TYPES][FS_OPERATIONS] = {
    [FS_INT8] = {INTEGERS(int8)},
    [FS_INT16] = {INTEGERS(int16)},
    [FS_INT32] = {INTEGERS(int32)},
    [FS_INT64] = {INTEGERS(int64)},
    [FS_UINT8] = {INTEGERS(uint8)},
    [FS_UINT16] = {INTEGERS(uint16)},
    [FS_UINT32] = {INTEGERS(uint32)},
    [FS_UINT64] = {INTEGERS(uint64)},
    [FS_FLOAT] = {ORDERED(float)},
    [FS_DOUBLE] = {ORDERED(double)},
    [FS_LONG_DOUBLE] = {ORDERED(long_double)},
    [FS_COMPLEX_FLOAT] = {NUMBERS(complex_float)},
    [FS_COMPLEX_DOUBLE] = {NUMBERS(complex_double)},
    [FS_COMPLEX_LONG_DOUBLE] = {NUMBERS(complex_long_double)},
    [FS_BOOL] = {LOGICAL(uint8)},
#ifdef HAVE_QUAD
    [FS_QUAD] = {ORDERED(quad)},
    [FS_COMPLEX_QUAD] = {NUMBERS(complex_quad)},
#endif
    [FS_FLOAT_INT] = {PLACES(float_int)},
    [FS_DOUBLE_INT] = {PLACES(double_int)},
    [FS_LONG_INT] = {PLACES(long_int)},
    [FS_INT_INT] = {PLACES(int_int)},
    [FS_SHORT_INT] = {PLACES(short_int)},
    [FS_LONG_DOUBLE_INT] = {PLACES(long_double_int)},
};

/* REPLACE and NO_OP are defined for every type: one of the two sides, untouched. */
#define SIDE(name, which, bytes)                                                            \
    static void name##_##bytes(const void *left, const void *right, void *target, size_t count) \
    {                                                                                       \
        (void)left, (void)right;                                                            \
        if (target != (which)) fs_move(target, which, count * (bytes));                     \
    }
#define SIDES(bytes) SIDE(replace, left, bytes) SIDE(no_op, right, bytes)
SIDES(1) SIDES(2) SIDES(4) SIDES(6) SIDES(8) SIDES(12) SIDES(16) SIDES(20) SIDES(32)

#define BOTH(bytes) {bytes, {replace_##bytes, no_op_##bytes}}
static fs_kernel *side_of(int operation, size_t bytes)
{
    static const struct { size_t bytes; fs_kernel *sides[2]; } of[] = {
        BOTH(1), BOTH(2), BOTH(4), BOTH(6), BOTH(8), BOTH(12), BOTH(16), BOTH(20), BOTH(32)};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (bytes == of[i].bytes) return of[i].sides[operation == FS_NO_OP];
    return NULL;
}

/* clang-format on */

fs_kernel *fs_kernel_of(int operation, int type)
{
    if (type < 0 || type >= FS_TYPES || operation < 0 || operation >= FS_OPERATIONS) return NULL;
    if (operation == FS_REPLACE || operation == FS_NO_OP) return side_of(operation, sizes[type]);
    return kernels[type][operation];
}

void fs_reduce_pieces(fs_kernel *kernel, size_t element, const unsigned char *const *pieces, int many,
                      unsigned char *target, size_t count)
{
    _Alignas(64) unsigned char block[BLOCK];
    if (many == 1 && target != pieces[0]) fs_copy(target, pieces[0], count * element);
    if (many == 2) kernel(pieces[0], pieces[1], target, count);
    if (many <= 2) return;
    size_t most = BLOCK / element;
    for (size_t at = 0; at < count; at += most) {
        size_t part = count - at < most ? count - at : most, from = at * element;
        kernel(pieces[0] + from, pieces[1] + from, block, part);
        for (int i = 2; i < many - 1; i++) kernel(block, pieces[i] + from, block, part);
        kernel(block, pieces[many - 1] + from, target + from, part);
    }
}
