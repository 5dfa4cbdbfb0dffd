/* Fences, and epochs of a group: counts that each member writes, and the others wait for. */
#include "waiting.h"

int fs_window_fence(struct fs_window *window, struct fs_window_call *call)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    uint32_t here = ++window->fences;
    atomic_store(&window->own->fences, here); /* and all that was put before can be seen */
    fs_window_show(window);
    for (int i = 0; i < window->size; i++) {
        if (i == window->index) continue;
        const struct fs_window_wait wait = fs_window_count_of(i, &window->members[i].fences, here);
        int result = fs_window_await(window, call, &wait);
        if (result != 0) return result;
    }
    return 0;
}

static int are_members(const struct fs_window *window, const int *members, int many)
{
    for (int i = 0; i < many; i++)
        if (members[i] < 0 || members[i] >= window->size) return 0;
    return 1;
}

int fs_window_post(struct fs_window *window, const int *origins, int many)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (!are_members(window, origins, many)) return -EINVAL;
    for (int i = 0; i < many; i++) atomic_store(&window->own->posts[origins[i]], ++window->posted[origins[i]]);
    fs_window_show(window);
    return 0;
}

int fs_window_start(struct fs_window *window, struct fs_window_call *call, const int *targets, int many)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (!are_members(window, targets, many)) return -EINVAL;
    for (int i = 0; i < many; i++) {
        const _Atomic uint32_t *posts = &window->members[targets[i]].posts[window->index];
        const struct fs_window_wait wait = fs_window_count_of(targets[i], posts, window->started[targets[i]] + 1);
        int result = fs_window_await(window, call, &wait);
        if (result != 0) return result;
    }
    for (int i = 0; i < many; i++) window->started[targets[i]]++;
    return 0;
}

int fs_window_complete(struct fs_window *window, const int *targets, int many)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (!are_members(window, targets, many)) return -EINVAL;
    for (int i = 0; i < many; i++) atomic_store(&window->own->completes[targets[i]], window->started[targets[i]]);
    fs_window_show(window);
    return 0;
}

int fs_window_await_origins(struct fs_window *window, struct fs_window_call *call, const int *origins, int many,
                            int waits)
{
    if (fs_window_is_inherited(window)) return -ESTALE;
    if (!are_members(window, origins, many)) return -EINVAL;
    for (int i = 0; i < many; i++) {
        const _Atomic uint32_t *completes = &window->members[origins[i]].completes[window->index];
        const struct fs_window_wait wait = fs_window_count_of(origins[i], completes, window->posted[origins[i]]);
        if (!waits && !wait.come(window, &wait)) return 0;
        int result = fs_window_await(window, call, &wait);
        if (result != 0) return result;
    }
    return 1;
}
