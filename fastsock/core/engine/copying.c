#include "copy.h"
#include "internal.h"
#include "strided.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

void fs_copy_in(const struct fs_request *request, size_t offset, const void *source, size_t length)
{
    const unsigned char *from = source;
    if (request->layout) {
        fs_unpack(from, request->one.iov_base, request->layout, request->extent, (int64_t)offset, (int64_t)length);
        return;
    }
    for (size_t i = 0; i < request->count && length > 0; i++) {
        const struct iovec *part = &request->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t size = MIN(part->iov_len - offset, length);
        fs_copy((unsigned char *)part->iov_base + offset, from, size);
        from += size, length -= size, offset = 0;
    }
}

void fs_copy_out(const struct fs_request *request, size_t offset, void *target, size_t length)
{
    unsigned char *to = target;
    if (request->layout) {
        fs_pack(to, request->one.iov_base, request->layout, request->extent, (int64_t)offset, (int64_t)length);
        return;
    }
    for (size_t i = 0; i < request->count && length > 0; i++) {
        const struct iovec *part = &request->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t size = MIN(part->iov_len - offset, length);
        fs_copy(to, (const unsigned char *)part->iov_base + offset, size);
        to += size, length -= size, offset = 0;
    }
}

void fs_copy_across(const struct fs_request *from, const struct fs_request *to, size_t length)
{
    size_t offset = 0;
    unsigned char stage[FS_STAGE];
    while (from->layout && offset < length) {
        void *place = fs_in_one_piece(to, length);
        size_t size = place ? length : MIN(sizeof stage, length - offset);
        fs_copy_out(from, offset, place ? place : stage, size);
        if (!place) fs_copy_in(to, offset, stage, size);
        offset += size;
    }
    for (size_t i = 0; i < from->count && offset < length; i++) {
        size_t size = MIN(from->parts[i].iov_len, length - offset);
        fs_copy_in(to, offset, from->parts[i].iov_base, size);
        offset += size;
    }
}

int fs_parts_from(const struct fs_request *request, size_t offset, size_t length, struct iovec *vector, int most)
{
    int count = 0;
    for (size_t i = 0; i < request->count && length > 0 && count < most; i++) {
        const struct iovec *part = &request->parts[i];
        if (offset >= part->iov_len) {
            offset -= part->iov_len;
            continue;
        }
        size_t size = MIN(part->iov_len - offset, length);
        vector[count++] = (struct iovec){(unsigned char *)part->iov_base + offset, size};
        length -= size, offset = 0;
    }
    return count;
}

void *fs_in_one_piece(const struct fs_request *request, size_t length)
{
    struct iovec part;
    return fs_parts_from(request, 0, length, &part, 1) == 1 && part.iov_len >= length ? part.iov_base : NULL;
}
