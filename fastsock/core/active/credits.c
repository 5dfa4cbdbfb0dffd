/* The slots of requests. Credit is a free slot. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "active.h"

enum { NONE = 0xFFFF };

int fs_am_slot_kind(int kind) { return kind == FS_AM_REQUEST ? FS_AM_SHORT : FS_AM_LONG; }

static uint32_t slots_of(const struct fs_am *am) { return am->limits[FS_AM_SHORT] + am->limits[FS_AM_LONG]; }

static int slot_kind_at(const struct fs_am *am, uint32_t index)
{
    return index < am->limits[FS_AM_SHORT] ? FS_AM_SHORT : FS_AM_LONG;
}

int fs_am_open(struct fs_am *am, int side, uint32_t shorts, uint32_t longs, uint64_t most_bulk)
{
    memset(am, 0, sizeof *am);
    if (shorts == 0 || shorts > FS_AM_MOST_SLOTS || longs > FS_AM_MOST_SLOTS) return -EINVAL;
    uint32_t count = shorts + longs;
    am->side = side;
    am->limits[FS_AM_SHORT] = am->credits[FS_AM_SHORT] = shorts;
    am->limits[FS_AM_LONG] = am->credits[FS_AM_LONG] = longs;
    am->most_bulk = most_bulk;
    am->slots = calloc(count, sizeof *am->slots);
    am->room = malloc(FS_AM_ROOM);
    if (!am->slots || !am->room) {
        fs_am_close(am);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) am->slots[i].next = (uint16_t)(i + 1);
    am->slots[shorts - 1].next = NONE;
    am->slots[count - 1].next = NONE;
    am->first[FS_AM_SHORT] = 0;
    am->first[FS_AM_LONG] = longs ? (uint16_t)shorts : NONE;
    return 0;
}

void fs_am_close(struct fs_am *am)
{
    free(am->slots);
    free(am->room);
    am->slots = NULL;
    am->room = NULL;
    am->from = am->filled = 0;
    am->bulk_left = 0;
    am->limits[0] = am->limits[1] = am->credits[0] = am->credits[1] = 0;
    am->first[0] = am->first[1] = NONE;
}

uint32_t fs_am_under_way(const struct fs_am *am)
{
    return slots_of(am) - am->credits[FS_AM_SHORT] - am->credits[FS_AM_LONG];
}

uint32_t fs_am_ask(struct fs_am *am, int kind)
{
    int of = fs_am_slot_kind(kind);
    if (am->side != FS_AM_ASKS || am->first[of] == NONE) return 0;
    uint32_t index = am->first[of];
    struct fs_am_slot *slot = &am->slots[index];
    am->first[of] = slot->next;
    am->credits[of]--;
    slot->kind = (uint8_t)kind;
    if (++slot->turn == 0) slot->turn = 1;
    return (uint32_t)slot->turn << 16 | index;
}

static void release(struct fs_am *am, uint32_t index)
{
    int of = slot_kind_at(am, index);
    am->slots[index].kind = 0;
    am->slots[index].next = am->first[of];
    am->first[of] = (uint16_t)index;
    am->credits[of]++;
}

/* The slot of a request that is under way, or NULL. */
static struct fs_am_slot *find(struct fs_am *am, uint32_t number)
{
    uint32_t index = fs_am_index(number);
    if (index >= slots_of(am)) return NULL;
    struct fs_am_slot *slot = &am->slots[index];
    return slot->kind && slot->turn == number >> 16 ? slot : NULL;
}

int fs_am_answer(struct fs_am *am, uint32_t of)
{
    if (am->side != FS_AM_ANSWERS) return -EINVAL;
    struct fs_am_slot *slot = find(am, of);
    if (!slot) return -EALREADY;
    slot->kind = 0;
    am->credits[slot_kind_at(am, fs_am_index(of))]++;
    return 0;
}

int fs_am_asked(struct fs_am *am, const struct fs_am_frame *frame)
{
    uint32_t index = fs_am_index(frame->number);
    am->wrong = "a request came to the end that asks";
    if (am->side != FS_AM_ANSWERS) return -EPROTO;
    am->wrong = "a request has a number beyond the credits";
    if (index >= slots_of(am) || frame->number >> 16 == 0) return -EPROTO;
    am->wrong = "a request spends the credit of another kind";
    if (slot_kind_at(am, index) != fs_am_slot_kind(frame->kind)) return -EPROTO;
    struct fs_am_slot *slot = &am->slots[index];
    am->wrong = "a request has the number of one that is not answered yet";
    if (slot->kind) return -EPROTO;
    am->wrong = NULL;
    slot->kind = (uint8_t)frame->kind;
    slot->turn = (uint16_t)(frame->number >> 16);
    am->credits[slot_kind_at(am, index)]--;
    return 0;
}

int fs_am_replied(struct fs_am *am, const struct fs_am_frame *frame)
{
    am->wrong = "an answer came to the end that answers";
    if (am->side != FS_AM_ASKS) return -EPROTO;
    struct fs_am_slot *slot = find(am, frame->number);
    am->wrong = "an answer names no request that is under way";
    if (!slot) return -EPROTO;
    am->wrong = "a short request was answered in bulk";
    if (fs_am_has_bulk(frame->kind) && slot->kind == FS_AM_REQUEST) return -EPROTO;
    am->wrong = "a get was not answered by its bytes";
    if (slot->kind == FS_AM_GET && frame->kind != FS_AM_BULK_REPLY && frame->kind != FS_AM_RETURNED) return -EPROTO;
    am->wrong = NULL;
    release(am, fs_am_index(frame->number));
    return 0;
}
