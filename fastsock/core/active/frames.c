/* Frames: written, and taken out of what was received. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "active.h"

static void store_64(unsigned char *to, uint64_t value)
{
    value = fs_am_little_64(value);
    memcpy(to, &value, sizeof value);
}

static uint32_t load_32(const unsigned char *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return fs_am_little_32(value);
}

size_t fs_am_put(unsigned char *out, int kind, int handler, uint32_t number, const int64_t *words, int count,
                 uint64_t length, uint64_t offset)
{
    size_t size = FS_AM_HEADER;
    out[0] = (unsigned char)kind;
    out[1] = (unsigned char)count;
    out[2] = (unsigned char)handler;
    out[3] = (unsigned char)(handler >> 8);
    number = fs_am_little_32(number);
    memcpy(out + 4, &number, sizeof number);
    store_64(out + 8, length);
    if (!FS_AM_IS_LITTLE)
        for (int i = 0; i < count; i++) store_64(out + size + FS_AM_WORD * i, (uint64_t)words[i]);
    else if (count && out + size != (const unsigned char *)words) memcpy(out + size, words, FS_AM_WORD * (size_t)count);
    size += FS_AM_WORD * (size_t)count;
    if (fs_am_has_offset(kind)) {
        store_64(out + size, offset);
        size += FS_AM_WORD;
    }
    return size;
}

void fs_am_words(const struct fs_am_frame *frame, int64_t *words)
{
    for (int i = 0; i < frame->words; i++) words[i] = fs_am_word(frame->body + FS_AM_WORD * i);
}

unsigned char *fs_am_space(struct fs_am *am, size_t *length)
{
    if (am->from) {
        memmove(am->room, am->room + am->from, am->filled - am->from);
        am->filled -= am->from;
        am->from = 0;
    }
    *length = FS_AM_ROOM - am->filled;
    if (am->hint > am->filled) *length = am->hint - am->filled;
    return am->room + am->filled;
}

void fs_am_received(struct fs_am *am, size_t length) { am->filled += length; }

/* What is impossible by the header alone. */
static const char *fault(const struct fs_am *am, const struct fs_am_frame *frame)
{
    if (frame->kind < FS_AM_REQUEST || frame->kind >= FS_AM_KINDS) return "a frame is of no kind that there is";
    if (frame->words > FS_AM_WORDS) return "a frame has more than 16 words";
    switch (frame->kind) {
    case FS_AM_REQUEST:
    case FS_AM_REPLY: return frame->length > FS_AM_MEDIUM ? "a message without a bulk is longer than 8192 bytes" : NULL;
    case FS_AM_GET: return NULL; /* whether that much is there, the segment decides */
    case FS_AM_DONE:
    case FS_AM_RETURNED:
        if (frame->words || frame->length) return "an answer without a handler brings something";
        if (frame->kind == FS_AM_DONE) return frame->handler ? "an answer without a handler names one" : NULL;
        return frame->handler < 1 || frame->handler >= FS_AM_REASONS ? "a request came back for no reason" : NULL;
    default: return frame->length > am->most_bulk ? "a bulk is longer than this end allows" : NULL;
    }
}

int fs_am_take(struct fs_am *am, struct fs_am_frame *frame)
{
    const unsigned char *at = am->room + am->from;
    size_t there = am->filled - am->from;
    if (am->bulk_left || there < FS_AM_HEADER) return 0;
    frame->kind = at[0];
    frame->words = at[1];
    frame->handler = at[2] | at[3] << 8;
    frame->number = load_32(at + 4);
    frame->length = (uint64_t)fs_am_word(at + 8);
    frame->offset = 0;
    am->wrong = fault(am, frame);
    if (am->wrong) return -EPROTO;
    int bulk = fs_am_has_bulk(frame->kind);
    size_t head = FS_AM_HEADER + FS_AM_WORD * (size_t)(frame->words + fs_am_has_offset(frame->kind));
    size_t whole = bulk || frame->kind == FS_AM_GET ? head : head + (size_t)frame->length;
    if (there < whole) {
        if (am->hint) am->hint = whole;
        return 0;
    }
    frame->body = at + FS_AM_HEADER;
    if (fs_am_has_offset(frame->kind)) frame->offset = (uint64_t)fs_am_word(at + head - FS_AM_WORD);
    frame->payload = bulk || frame->kind == FS_AM_GET ? NULL : at + head;
    int asks = frame->kind <= FS_AM_GET;
    int result = asks ? fs_am_asked(am, frame) : fs_am_replied(am, frame);
    if (result != 0) return result;
    am->from += whole;
    if (bulk) am->bulk_left = frame->length;
    /* behind a long bulk another is likely: then its bytes go straight to their place */
    am->hint = bulk && frame->length > FS_AM_ROOM ? head : 0;
    return 1;
}

size_t fs_am_spill(struct fs_am *am, void *target, size_t room)
{
    size_t there = am->filled - am->from;
    if (there > am->bulk_left) there = (size_t)am->bulk_left;
    if (there > room) there = room;
    if (target && there) memcpy(target, am->room + am->from, there);
    am->from += there;
    am->bulk_left -= there;
    return there;
}

void fs_am_spilled(struct fs_am *am, uint64_t length)
{
    am->bulk_left -= length < am->bulk_left ? length : am->bulk_left;
}
