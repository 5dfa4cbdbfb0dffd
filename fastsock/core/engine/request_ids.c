/* Numbers that other ends know requests by: an index, and a generation so that an old number means nothing. */
#include <stdlib.h>

#include "link.h"

#define INDEX_BITS 20
#define INDEX_MASK FS_INDEX_MASK
#define FIRST_COUNT 64u

static int grow(struct fs_engine *engine)
{
    uint32_t count = engine->slot_count ? engine->slot_count * 2 : FIRST_COUNT;
    if (count > INDEX_MASK) return 0;
    struct fs_slot *slots = realloc(engine->slots, count * sizeof *slots);
    if (!slots) return 0;
    /* index 0 is nobody's, so that no number is 0 */
    for (uint32_t i = engine->slot_count ? engine->slot_count : 1; i < count; i++) {
        slots[i] = (struct fs_slot){.peer = -1, .next_free = engine->free_slot};
        engine->free_slot = i;
    }
    engine->slots = slots;
    engine->slot_count = count;
    return 1;
}

uint32_t fs_slot_take(struct fs_engine *engine, struct fs_request *request, int peer)
{
    if (engine->free_slot == 0 && !grow(engine)) return 0;
    uint32_t index = engine->free_slot;
    struct fs_slot *slot = &engine->slots[index];
    engine->free_slot = slot->next_free;
    slot->request = request;
    slot->peer = peer;
    slot->kind = request->kind;
    if (slot->kind == FS_SENDING) engine->peers[peer].given++;
    request->id = slot->generation << INDEX_BITS | index;
    return request->id;
}

struct fs_slot *fs_slot_find(struct fs_engine *engine, uint32_t id, int peer, int kind)
{
    uint32_t index = id & INDEX_MASK;
    if (index == 0 || index >= engine->slot_count) return NULL;
    struct fs_slot *slot = &engine->slots[index];
    if (slot->peer != peer || slot->kind != kind || (slot->generation << INDEX_BITS | index) != id) return NULL;
    return slot;
}

struct fs_slot *fs_slot_abandon(struct fs_engine *engine, uint32_t id, int state, size_t left)
{
    struct fs_slot *slot = &engine->slots[id & INDEX_MASK];
    slot->request->id = 0;
    slot->request = NULL;
    slot->gone = (uint8_t)state;
    slot->left = left;
    return slot;
}

void fs_slot_give(struct fs_engine *engine, uint32_t id)
{
    struct fs_slot *slot = &engine->slots[id & INDEX_MASK];
    if (slot->request) slot->request->id = 0;
    if (slot->kind == FS_SENDING) {
        fs_unstamp(engine, id);
        engine->peers[slot->peer].given--;
    }
    *slot = (struct fs_slot){.peer = -1, .generation = slot->generation + 1, .next_free = engine->free_slot};
    engine->free_slot = id & INDEX_MASK;
}
