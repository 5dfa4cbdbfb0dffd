/* Operations that are atomic, element by element.
 *
 * Each block of a member's part has a stripe: a lock for as long as its elements are combined.  One way for all types and
 * lengths, because two ways do not exclude each other: long arrays need the loops of the kernels, which no instruction of the
 * processor makes atomic. */
#include <string.h>

#include "doors.h"
#include "waiting.h"

enum {
    LONG = 32 * 1024, /* bytes: to combine so many is a wait too */
    LONGEST_ELEMENT = 64,
};

/* What is done to elements, and how long one is. */
struct fs_combining {
    fs_kernel *kernel;
    size_t element;
    int operation;
};

static int is_free(const struct fs_window *window, const struct fs_window_wait *wait)
{
    (void)window;
    return atomic_load_explicit(wait->word, memory_order_relaxed) == 0;
}

static int owner_of(const struct fs_window *window, const struct fs_window_wait *wait)
{
    int owner = (int)atomic_load_explicit(wait->word, memory_order_relaxed);
    return owner <= window->size ? owner - 1 : -1;
}

static int take(struct fs_window *window, struct fs_window_call *call, struct fs_window_stripe *stripe)
{
    const struct fs_window_wait wait = {is_free, owner_of, &stripe->owner, 0, -1};
    for (;;) {
        uint32_t none = 0;
        if (atomic_compare_exchange_weak_explicit(&stripe->owner, &none, (uint32_t)window->index + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return 0;
        int result = fs_window_await(window, call, &wait);
        if (result != 0) return result;
    }
}

static void give(struct fs_window *window, struct fs_window_stripe *stripe)
{
    atomic_store_explicit(&stripe->owner, 0, memory_order_release);
    fs_window_show(window);
}

static struct fs_window_stripe *stripe_of(const struct fs_window *window, int target, uint64_t offset)
{
    return &window->members[target].stripes[offset / FS_WINDOW_BLOCK % FS_WINDOW_STRIPES];
}

/* Combines elements, of which nobody else changes any meanwhile. */
static int combine(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                   const unsigned char *source, unsigned char *result, size_t bytes, const struct fs_combining *how)
{
    _Alignas(64) unsigned char room[FS_WINDOW_BLOCK + LONGEST_ELEMENT];
    const int far = fs_window_is_far(window, target);
    unsigned char *here = far ? room : memory;
    int error = far ? fs_window_read(window, call, target, memory, here, bytes) : 0;
    if (error != 0) return error;
    if (result != NULL) memcpy(result, here, bytes);
    if (how->operation == FS_NO_OP) return 0;
    how->kernel(source, here, here, bytes / how->element);
    return far ? fs_window_write(window, call, target, memory, here, bytes) : 0;
}

/* Elements that begin in the block that the offset lies in. */
static size_t elements_within(uint64_t offset, size_t element, size_t count)
{
    size_t room = FS_WINDOW_BLOCK - (size_t)(offset % FS_WINDOW_BLOCK), many = (room + element - 1) / element;
    return many < count ? many : count;
}

static int check(const struct fs_window *window, int target)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    return target < 0 || target >= window->size ? -EINVAL : 0;
}

int fs_window_accumulate(struct fs_window *window, struct fs_window_call *call, int target, uint64_t offset,
                         unsigned char *memory, const unsigned char *source, unsigned char *result, size_t count,
                         int type, int operation)
{
    const size_t element = fs_type_size(type);
    const struct fs_combining how = {fs_kernel_of(operation, type), element, operation};
    int error = how.kernel == NULL || element > LONGEST_ELEMENT ? -EINVAL : check(window, target);
    int left = error == 0 && count * element >= LONG && fs_window_leave(call);
    while (error == 0 && count > 0) {
        size_t many = elements_within(offset, element, count), bytes = many * element;
        struct fs_window_stripe *stripe = stripe_of(window, target, offset);
        error = take(window, call, stripe);
        if (error != 0) break;
        error = combine(window, call, target, memory, source, result, bytes, &how);
        give(window, stripe);
        offset += bytes, memory += bytes, count -= many;
        if (result != NULL) result += bytes;
        if (source != NULL) source += bytes;
    }
    if (left) fs_window_enter(call);
    return error;
}

/* Elements with gaps may begin in any block: all stripes, in order. */
static int take_all(struct fs_window *window, struct fs_window_call *call, int target)
{
    struct fs_window_stripe *stripes = window->members[target].stripes;
    for (int i = 0; i < FS_WINDOW_STRIPES; i++) {
        int error = take(window, call, &stripes[i]);
        if (error == 0) continue;
        while (--i >= 0) give(window, &stripes[i]);
        return error;
    }
    return 0;
}

static void give_all(struct fs_window *window, int target)
{
    for (int i = FS_WINDOW_STRIPES - 1; i >= 0; i--) give(window, &window->members[target].stripes[i]);
}

int fs_window_hold(struct fs_window *window, struct fs_window_call *call, int target)
{
    int error = check(window, target);
    return error == 0 ? take_all(window, call, target) : error;
}

int fs_window_release(struct fs_window *window, int target)
{
    int error = check(window, target);
    if (error == 0) give_all(window, target);
    return error;
}

static int read_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                      const struct fs_layout *layout, int64_t extent, unsigned char *packed, size_t from, size_t bytes)
{
    if (fs_window_is_far(window, target))
        return fs_window_read_items(window, call, target, memory, layout, extent, packed, from, bytes);
    fs_pack(packed, memory, layout, extent, (int64_t)from, (int64_t)bytes);
    return 0;
}

static int write_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                       const struct fs_layout *layout, int64_t extent, const unsigned char *packed, size_t from,
                       size_t bytes)
{
    if (fs_window_is_far(window, target))
        return fs_window_write_items(window, call, target, memory, layout, extent, packed, from, bytes);
    fs_unpack(packed, memory, layout, extent, (int64_t)from, (int64_t)bytes);
    return 0;
}

int fs_window_accumulate_items(struct fs_window *window, struct fs_window_call *call, int target, unsigned char *memory,
                               const struct fs_layout *layout, int64_t extent, const unsigned char *source,
                               unsigned char *result, size_t bytes, int type, int operation)
{
    unsigned char block[FS_WINDOW_BLOCK];
    size_t element = fs_type_size(type);
    fs_kernel *kernel = fs_kernel_of(operation, type);
    int error = kernel == NULL || bytes % element != 0 ? -EINVAL : check(window, target);
    if (error != 0) return error;
    int left = bytes >= LONG && fs_window_leave(call);
    error = take_all(window, call, target);
    const int taken = error == 0;
    size_t most = sizeof block / element * element;
    for (size_t at = 0; error == 0 && at < bytes; at += most) {
        size_t length = bytes - at < most ? bytes - at : most;
        error = read_items(window, call, target, memory, layout, extent, block, at, length);
        if (error != 0) break;
        if (result != NULL) memcpy(result + at, block, length);
        if (operation == FS_NO_OP) continue;
        kernel(source + at, block, block, length / element);
        error = write_items(window, call, target, memory, layout, extent, block, at, length);
    }
    if (taken) give_all(window, target);
    if (left) fs_window_enter(call);
    return error;
}

int fs_window_compare_and_swap(struct fs_window *window, struct fs_window_call *call, int target, uint64_t offset,
                               unsigned char *memory, const void *source, const void *compare, void *result,
                               size_t bytes)
{
    int error = check(window, target);
    struct fs_window_stripe *stripe = error == 0 ? stripe_of(window, target, offset) : NULL;
    if (error == 0) error = take(window, call, stripe);
    if (error != 0) return error;
    const int far = fs_window_is_far(window, target);
    if (far) error = fs_window_read(window, call, target, memory, result, bytes);
    else memcpy(result, memory, bytes);
    if (error == 0 && memcmp(result, compare, bytes) == 0) {
        if (far) error = fs_window_write(window, call, target, memory, source, bytes);
        else memcpy(memory, source, bytes);
    }
    give(window, stripe);
    return error;
}
