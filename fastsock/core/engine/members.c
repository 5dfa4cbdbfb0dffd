/* Which ranks share a context. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static struct fs_members *take_members(struct fs_engine *engine, uint32_t context)
{
    for (struct fs_members **link = &engine->members; *link; link = &(*link)->next) {
        struct fs_members *found = *link;
        if (found->context != context) continue;
        *link = found->next;
        return found;
    }
    return NULL;
}

static int by_rank(const void *one, const void *other)
{
    const int left = *(const int *)one, right = *(const int *)other;
    return (left > right) - (left < right);
}

static void put_in_order(int *ranks, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (ranks[i - 1] <= ranks[i]) continue;
        qsort(ranks, count, sizeof *ranks, by_rank);
        return;
    }
}

int fs_engine_set_members(struct fs_engine *engine, uint32_t context, const int *ranks, size_t count)
{
    struct fs_members *fresh = malloc(sizeof *fresh + count * sizeof(int));
    if (!fresh) return -ENOMEM;
    fresh->context = context;
    fresh->count = count;
    memcpy(fresh->ranks, ranks, count * sizeof(int));
    put_in_order(fresh->ranks, count);
    fs_engine_lock(engine);
    struct fs_members *old = take_members(engine, context);
    fresh->next = engine->members;
    engine->members = fresh;
    fs_engine_unlock(engine);
    free(old);
    return 0;
}

int fs_engine_clear_members(struct fs_engine *engine, uint32_t context)
{
    fs_engine_lock(engine);
    struct fs_members *old = take_members(engine, context);
    fs_engine_unlock(engine);
    int found = old != NULL;
    free(old);
    return found;
}

static const struct fs_members *members_of(const struct fs_engine *engine, uint32_t context)
{
    const struct fs_members *members = engine->members;
    while (members && members->context != context) members = members->next;
    return members;
}

int fs_is_member(const struct fs_engine *engine, uint32_t context, int rank)
{
    const struct fs_members *members = members_of(engine, context);
    if (!members) return rank < engine->size;
    size_t low = 0, high = members->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (members->ranks[middle] < rank) low = middle + 1;
        else high = middle;
    }
    return low < members->count && members->ranks[low] == rank;
}
