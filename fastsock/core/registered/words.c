#include <string.h>

#include "registered.h"

#define PARCEL_MAGIC 0x31425346u /* "FSB1" */
#define MEMO_MAGIC 0x314d5346u   /* "FSM1" */

static void put_32(unsigned char *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++) bytes[i] = (unsigned char)(value >> 8 * i);
}

static void put_64(unsigned char *bytes, uint64_t value)
{
    put_32(bytes, (uint32_t)value);
    put_32(bytes + 4, (uint32_t)(value >> 32));
}

static uint32_t take_32(const unsigned char *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value |= (uint32_t)bytes[i] << 8 * i;
    return value;
}

static uint64_t take_64(const unsigned char *bytes) { return take_32(bytes) | (uint64_t)take_32(bytes + 4) << 32; }

int fs_region_is_within(uint64_t size, uint64_t offset, uint64_t length)
{
    return offset <= size && length <= size - offset;
}

void fs_parcel_put(unsigned char *bytes, const struct fs_parcel *parcel)
{
    put_32(bytes, PARCEL_MAGIC);
    put_32(bytes + 4, parcel->kind);
    put_64(bytes + 8, parcel->length);
    put_64(bytes + 16, parcel->offset);
    put_64(bytes + 24, parcel->importer);
    put_64(bytes + 32, parcel->link);
    put_32(bytes + 40, parcel->number);
    put_32(bytes + 44, parcel->slot);
    put_64(bytes + 48, parcel->serial);
}

const char *fs_parcel_take(const unsigned char *bytes, struct fs_parcel *parcel)
{
    *parcel = (struct fs_parcel){.kind = take_32(bytes + 4),
                                 .length = take_64(bytes + 8),
                                 .offset = take_64(bytes + 16),
                                 .importer = take_64(bytes + 24),
                                 .link = take_64(bytes + 32),
                                 .number = take_32(bytes + 40),
                                 .slot = take_32(bytes + 44),
                                 .serial = take_64(bytes + 48)};
    if (take_32(bytes) != PARCEL_MAGIC) return "these bytes are no buffer";
    if (parcel->kind < FS_PARCEL_COPY || parcel->kind > FS_PARCEL_LEND) return "no buffer comes in such a way";
    if (parcel->length == 0 || !fs_region_is_within(INT64_MAX, parcel->offset, parcel->length))
        return "no buffer has such a size";
    if (parcel->slot >= FS_LEDGER_SLOTS || parcel->serial > UINT64_MAX >> 3) return "no loan has such a number";
    if (parcel->kind == FS_PARCEL_COPY &&
        (parcel->offset | parcel->importer | parcel->link | parcel->number | parcel->slot | parcel->serial) != 0)
        return "a copied buffer has no owner";
    return NULL;
}

void fs_memo_put(unsigned char *bytes, const struct fs_memo *memo)
{
    memset(bytes, 0, FS_MEMO_BYTES);
    put_32(bytes, MEMO_MAGIC);
    put_32(bytes + 4, memo->kind);
    put_64(bytes + 8, memo->link);
    put_64(bytes + 16, memo->size);
    put_32(bytes + 24, memo->number);
}

const char *fs_memo_take(const unsigned char *bytes, size_t length, struct fs_memo *memo)
{
    if (length != FS_MEMO_BYTES || take_32(bytes) != MEMO_MAGIC) return "these bytes are no memo";
    *memo = (struct fs_memo){.kind = take_32(bytes + 4),
                             .number = take_32(bytes + 24),
                             .link = take_64(bytes + 8),
                             .size = take_64(bytes + 16)};
    if (memo->kind < FS_MEMO_HELLO || memo->kind > FS_MEMO_FORGET) return "there is no such memo";
    if (memo->size > INT64_MAX) return "no memory has such a size";
    return NULL;
}
