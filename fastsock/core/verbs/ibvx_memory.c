/* Memory of programs that the device knows, for long messages.
 *
 * To make memory known takes long, so what a message used stays known for later ones (a pin-down cache).  But a program
 * may unmap it, and map something else there, while the device has the pages of before.  So it stays known only where
 * the kernel tells of that (unmapping.h).  Elsewhere the device forgets it with the message. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#ifdef FS_HAS_VERBS

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((uintptr_t)4096)
#define MOST_KEPT 128u

static void take_out(struct fs_ibvx *device, const struct fs_ibvx_region *region)
{
    struct fs_ibvx_region **place = &device->kept;
    while (*place && *place != region) place = &(*place)->next;
    if (!*place) return;
    *place = region->next;
    device->kept_count--;
}

static void destroy(struct fs_ibvx_region *region)
{
    struct fs_ibvx *device = region->device;
    if (region->is_kept) fs_unmapping_unwatch(device->unmapping, &region->watched);
    device->library->ibv_dereg_mr(region->known);
    atomic_fetch_sub(&device->registered, region->pages);
    free(region);
}

/* The one that was used last the longest ago.  0: every one is in use. */
static int evict(struct fs_ibvx *device)
{
    struct fs_ibvx_region *oldest = NULL;
    for (struct fs_ibvx_region *each = device->kept; each; each = each->next)
        if (each->users == 0) oldest = each;
    if (!oldest) return 0;
    take_out(device, oldest);
    destroy(oldest);
    return 1;
}

static int may_know(struct fs_ibvx *device, size_t pages)
{
    while (atomic_load(&device->registered) + pages > device->bound)
        if (!evict(device)) return 0;
    size_t now = atomic_fetch_add(&device->registered, pages) + pages;
    if (now > atomic_load(&device->most_registered)) atomic_store(&device->most_registered, now);
    return 1;
}

static const int access_for[] = {
    [FS_IBVX_SOURCE] = 0,
    [FS_IBVX_TARGET] = IBV_ACCESS_LOCAL_WRITE,
    [FS_IBVX_WRITTEN_BY_OTHERS] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    [FS_IBVX_READ_BY_OTHERS] = IBV_ACCESS_REMOTE_READ,
    [FS_IBVX_EXPOSED] = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static int serves(const struct fs_ibvx_region *region, uintptr_t start, size_t length, enum fs_ibvx_use use)
{
    const int is_ours_alone = use == FS_IBVX_SOURCE || use == FS_IBVX_TARGET;
    return start >= region->start && start - region->start <= region->length &&
           length <= region->length - (start - region->start) && region->use == use &&
           (is_ours_alone || region->users == 0);
}

static struct fs_ibvx_region *find(struct fs_ibvx *device, uintptr_t start, size_t length, enum fs_ibvx_use use)
{
    struct fs_ibvx_region *next, *found = NULL;
    for (struct fs_ibvx_region *each = device->kept; each && !found; each = next) {
        next = each->next;
        if (serves(each, start, length, use) && !fs_unmapping_is_gone(device->unmapping, &each->watched)) found = each;
        else if (each->users == 0 && atomic_load(&each->watched.gone)) fs_ibvx_revoke(each);
    }
    return found;
}

static void put_first(struct fs_ibvx *device, struct fs_ibvx_region *region)
{
    region->next = device->kept;
    device->kept = region;
    device->kept_count++;
}

/* Watched first: so nothing goes unseen once the device has its pages. */
static void keep(struct fs_ibvx_region *region, const void *memory, size_t length)
{
    struct fs_ibvx *device = region->device;
    region->is_kept = device->unmapping && fs_unmapping_watch(device->unmapping, &region->watched, memory, length) == 0;
    if (region->is_kept) put_first(device, region);
}

static struct fs_ibvx_region *learn(struct fs_ibvx *device, void *memory, size_t length, enum fs_ibvx_use use)
{
    const uintptr_t start = (uintptr_t)memory, last = start + length + PAGE - 1;
    const size_t pages = (last & ~(PAGE - 1)) - (start & ~(PAGE - 1));
    struct fs_ibvx_region *region = malloc(sizeof *region);
    if (region && may_know(device, pages)) {
        *region = (struct fs_ibvx_region){
            .device = device, .start = start, .length = length, .pages = pages, .use = use, .users = 1};
        if (use != FS_IBVX_EXPOSED) keep(region, memory, length);
        region->known = device->library->ibv_reg_mr(device->domain, memory, length, access_for[use]);
        if (region->known) {
            while (device->kept_count > MOST_KEPT && evict(device)) continue;
            return region;
        }
        take_out(device, region);
        if (region->is_kept) fs_unmapping_unwatch(device->unmapping, &region->watched);
        atomic_fetch_sub(&device->registered, pages);
    }
    free(region);
    return NULL;
}

struct fs_ibvx_region *fs_ibvx_know(struct fs_ibvx_pair *pair, void *memory, size_t length, enum fs_ibvx_use use)
{
    struct fs_ibvx *device = pair->device;
    struct fs_ibvx_region *region = find(device, (uintptr_t)memory, length, use);
    if (region) {
        take_out(device, region);
        put_first(device, region);
        region->users++;
        pair->counts.known_already++;
        return region;
    }
    region = learn(device, memory, length, use);
    if (!region) pair->counts.refused++;
    return region;
}

int fs_ibvx_pin(struct fs_ibvx *device, void *memory, size_t length)
{
    struct fs_ibvx_region *region = learn(device, memory, length, FS_IBVX_SOURCE);
    if (!region) return -ENOMEM;
    if (!region->is_kept) { /* no later message would find it */
        destroy(region);
        return -EOPNOTSUPP;
    }
    region->is_pinned = 1; /* its one user */
    return 0;
}

int fs_ibvx_unpin(struct fs_ibvx *device, void *memory, size_t length)
{
    for (struct fs_ibvx_region *each = device->kept; each; each = each->next) {
        if (!each->is_pinned || each->start != (uintptr_t)memory || each->length != length) continue;
        each->is_pinned = 0;
        each->users--;
        if (each->users == 0) fs_ibvx_revoke(each);
        return 0;
    }
    return -ENOENT;
}

void fs_ibvx_forget(struct fs_ibvx_region *region)
{
    region->users--;
    if (!region->is_kept) destroy(region);
}

void fs_ibvx_revoke(struct fs_ibvx_region *region)
{
    take_out(region->device, region);
    destroy(region);
}

int fs_ibvx_expose(struct fs_ibvx *device, void *memory, size_t length, uint32_t *key)
{
    struct fs_ibvx_region *region = learn(device, memory, length, FS_IBVX_EXPOSED);
    if (!region) return -ENOMEM;
    region->next = device->exposed;
    device->exposed = region;
    *key = fs_ibvx_key(region);
    return 0;
}

int fs_ibvx_conceal(struct fs_ibvx *device, uint32_t key)
{
    struct fs_ibvx_region **place = &device->exposed, *found;
    while (*place && fs_ibvx_key(*place) != key) place = &(*place)->next;
    found = *place;
    if (!found) return -ENOENT;
    *place = found->next;
    destroy(found);
    return 0;
}

void fs_ibvx_forget_all(struct fs_ibvx *device)
{
    while (device->exposed) fs_ibvx_conceal(device, fs_ibvx_key(device->exposed));
    while (device->kept) fs_ibvx_revoke(device->kept);
}

uint32_t fs_ibvx_key(const struct fs_ibvx_region *region) { return region->known->rkey; }

#else

void fs_ibvx_forget(struct fs_ibvx_region *region) { (void)region; }

void fs_ibvx_revoke(struct fs_ibvx_region *region) { (void)region; }

#endif
