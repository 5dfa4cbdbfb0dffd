/* The bytes are what a peer sends, and in between what the victim does: it answers, asks, and takes bulks in pieces.
 * Nothing may crash, and there are never more requests under way than credits. */
#include <stdlib.h>
#include <string.h>

#include "active/active.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

enum { SHORTS = 3, LONGS = 2, MOST = 5000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fs_am am;
    struct fs_am_frame frame;
    unsigned char target[MOST], head[FS_AM_HEAD];
    uint32_t number = 0;
    if (length < 2) return 0;
    if (fs_am_open(&am, data[0] & 1, SHORTS, LONGS, MOST) != 0) return 0;
    for (size_t at = 1; at < length;) {
        size_t part = data[at] >> 2, room;
        int what = data[at++] & 3;
        if (part > length - at) part = length - at;
        if (what == 1) number = fs_am_ask(&am, FS_AM_REQUEST + (int)(part & 3));
        if (what == 2) fs_am_answer(&am, number);
        unsigned char *space = fs_am_space(&am, &room);
        if (part > room) abort();
        memcpy(space, data + at, part);
        fs_am_received(&am, part);
        at += part;
        int result;
        while ((result = fs_am_take(&am, &frame)) == 1) {
            int64_t words[FS_AM_WORDS];
            number = frame.number;
            fs_am_words(&frame, words);
            if (frame.payload) memcpy(target, frame.payload, frame.length < MOST ? (size_t)frame.length : MOST);
            fs_am_put(head, frame.kind, frame.handler, number, words, frame.words, frame.length, frame.offset);
            if (am.bulk_left > MOST) abort();
            fs_am_spill(&am, what ? target : NULL, 1 + part);
            if (what == 3) fs_am_spilled(&am, part);
        }
        if (fs_am_under_way(&am) > SHORTS + LONGS) abort();
        if (result < 0) {
            if (!am.wrong) abort();
            break;
        }
        while (fs_am_spill(&am, target, MOST)) {}
    }
    fs_am_close(&am);
    return 0;
}
