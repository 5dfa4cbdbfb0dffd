#include "strided.h"

#include <stdbool.h>
#include <string.h>

/* The compiler turns copies of a known size into moves; a call of memcpy costs more than most runs. */
static inline void copy(unsigned char *target, const unsigned char *source, int64_t length)
{
    switch (length) {
    case 1: *target = *source; break;
    case 2: memcpy(target, source, 2); break;
    case 4: memcpy(target, source, 4); break;
    case 8: memcpy(target, source, 8); break;
    case 12: memcpy(target, source, 12); break;
    case 16: memcpy(target, source, 16); break;
    case 24: memcpy(target, source, 24); break;
    case 32: memcpy(target, source, 32); break;
    default: memcpy(target, source, (size_t)length);
    }
}

static inline void walk(unsigned char *packed, unsigned char *origin, const struct fs_run *runs, int64_t count,
                        int64_t extent, int64_t from, int64_t bytes, bool packing)
{
    int64_t size = 0;
    for (int64_t i = 0; i < count; i++) size += runs[i].length;
    if (size <= 0 || bytes <= 0) return;
    origin += (from / size) * extent;
    from %= size;
    int64_t i = 0;
    while (from >= runs[i].length) from -= runs[i++].length;
    /* the first run may begin in its middle, the last may end there */
    while (bytes > 0) {
        for (; i < count && bytes > 0; i++) {
            unsigned char *place = origin + runs[i].offset + from;
            int64_t length = runs[i].length - from;
            if (length > bytes) length = bytes;
            if (packing) copy(packed, place, length);
            else copy(place, packed, length);
            packed += length;
            bytes -= length;
            from = 0;
        }
        i = 0;
        origin += extent;
    }
}

void fs_pack(unsigned char *packed, const unsigned char *origin, const struct fs_run *runs, int64_t count,
             int64_t extent, int64_t from, int64_t bytes)
{
    walk(packed, (unsigned char *)(uintptr_t)origin, runs, count, extent, from, bytes, true);
}

void fs_unpack(const unsigned char *packed, unsigned char *origin, const struct fs_run *runs, int64_t count,
               int64_t extent, int64_t from, int64_t bytes)
{
    walk((unsigned char *)(uintptr_t)packed, origin, runs, count, extent, from, bytes, false);
}
