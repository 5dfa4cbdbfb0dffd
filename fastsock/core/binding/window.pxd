# What windows in shared memory offer to the binding.
from libc.stdint cimport int64_t, uint64_t

from .team cimport fs_team_hooks

cdef extern from "strided.h" nogil:
    struct fs_layout:
        pass

cdef extern from "window/window.h" nogil:
    enum: FS_WINDOW_MOST

    struct fs_window:
        pass

    struct fs_window_call:
        fs_team_hooks hooks
        int left, culprit

    int fs_window_create_memory(int size, uint64_t data_bytes, int crowded)
    fs_window *fs_window_open(int memory, int index, int size, uint64_t data_bytes, const int *watches, int at_once,
                              int *error)
    void fs_window_close(fs_window *window)
    unsigned char *fs_window_data(const fs_window *window)
    int fs_window_is_inherited(const fs_window *window)

    int fs_window_lock(fs_window *window, fs_window_call *call, int target, int alone)
    int fs_window_unlock(fs_window *window, int target, int alone)
    int fs_window_fence(fs_window *window, fs_window_call *call)
    int fs_window_post(fs_window *window, const int *origins, int many)
    int fs_window_start(fs_window *window, fs_window_call *call, const int *targets, int many)
    int fs_window_complete(fs_window *window, const int *targets, int many)
    int fs_window_await_origins(fs_window *window, fs_window_call *call, const int *origins, int many, int waits)
    int fs_window_open_door(fs_window *window)
    int fs_window_meet_doors(fs_window *window)
    void fs_window_shut_door(fs_window *window)
    int fs_window_read(fs_window *window, fs_window_call *call, int target, const void *memory, void *into, size_t bytes)
    int fs_window_write(fs_window *window, fs_window_call *call, int target, void *memory, const void *source, size_t bytes)
    int fs_window_read_items(fs_window *window, fs_window_call *call, int target, unsigned char *memory,
                             const fs_layout *layout, int64_t extent, unsigned char *packed, size_t first, size_t bytes)
    int fs_window_write_items(fs_window *window, fs_window_call *call, int target, unsigned char *memory,
                              const fs_layout *layout, int64_t extent, const unsigned char *packed, size_t first,
                              size_t bytes)
    uint64_t fs_window_table_bytes(int size)
    int fs_window_attach(fs_window *window, uint64_t start, uint64_t bytes)
    int fs_window_detach(fs_window *window, uint64_t start)
    int fs_window_is_attached(fs_window *window, fs_window_call *call, int target, uint64_t low, uint64_t high)
    int fs_window_accumulate(fs_window *window, fs_window_call *call, int target, uint64_t offset, unsigned char *memory,
                             const unsigned char *source, unsigned char *result, size_t count, int type, int operation)
    int fs_window_accumulate_items(fs_window *window, fs_window_call *call, int target, unsigned char *memory,
                                   const fs_layout *layout, int64_t extent, const unsigned char *source,
                                   unsigned char *result, size_t bytes, int type, int operation)
    int fs_window_hold(fs_window *window, fs_window_call *call, int target)
    int fs_window_release(fs_window *window, int target)
    int fs_window_compare_and_swap(fs_window *window, fs_window_call *call, int target, uint64_t offset,
                                   unsigned char *memory, const void *source, const void *compare, void *result,
                                   size_t bytes)
