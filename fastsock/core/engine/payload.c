/* The bytes of a message as a link carries them.  Items with gaps are packed straight into the path's memory, and unpacked
 * from there, where it can be reached; else they pass a stage. */
#include <stdlib.h>

#include "link.h"

#define PACKED (64u * 1024) /* bytes for one write */

int fs_may_pack(struct fs_link *link)
{
    if (!link->calls->place && !link->stage) link->stage = malloc(PACKED);
    return link->calls->place || link->stage;
}

/* ---- going out ---- */

int fs_payload(struct fs_link *link, struct iovec *vector, int most)
{
    struct fs_request *request = link->out_request;
    if (!request) {
        *vector = (struct iovec){link->out_copy + link->out_copied, link->out_left};
        return 1;
    }
    if (!request->layout) return fs_parts_from(request, request->moved, link->out_left, vector, most);
    if (link->packed == 0) {
        link->packed_from = 0;
        link->packed = link->out_left < PACKED ? link->out_left : PACKED;
        fs_copy_out(request, request->moved, link->stage, link->packed);
    }
    *vector = (struct iovec){link->stage + link->packed_from, link->packed};
    return 1;
}

void fs_payload_gone(struct fs_link *link, size_t length)
{
    struct fs_request *request = link->out_request;
    link->out_left -= length;
    if (!request) {
        link->out_copied += length;
        return;
    }
    request->moved += length;
    if (link->packed) link->packed_from += length, link->packed -= length;
}

int fs_packs_straight(const struct fs_link *link)
{
    return link->out_request && link->out_request->layout && link->calls->place;
}

ssize_t fs_pack_straight(struct fs_link *link)
{
    struct fs_request *request = link->out_request;
    unsigned char *place;
    ssize_t room = link->calls->place(link, &place);
    if (room <= 0) return room;
    size_t length = (size_t)room < link->out_left ? (size_t)room : link->out_left;
    fs_copy_out(request, request->moved, place, length);
    int error = link->calls->placed(link, length);
    return error ? error : (ssize_t)length;
}

/* ---- coming in ---- */

ssize_t fs_read_items(struct fs_link *link, const struct fs_request *request, size_t wanted)
{
    unsigned char stage[FS_STAGE];
    const unsigned char *found = stage;
    size_t most = wanted < sizeof stage ? wanted : sizeof stage;
    ssize_t got = link->calls->look ? link->calls->look(link, &found) : link->calls->read(link, stage, most);
    if (got <= 0) return got;
    if ((size_t)got > wanted) got = (ssize_t)wanted;
    fs_copy_in(request, request->moved, found, (size_t)got);
    return link->calls->look ? link->calls->read(link, NULL, (size_t)got) : got;
}
