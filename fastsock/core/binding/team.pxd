# What the shared-memory collectives offer to the binding.
cdef extern from "cma.h" nogil:
    struct fs_cma_identity:
        pass

cdef extern from "team/team.h" nogil:
    enum: FS_OPERATIONS, FS_TYPES, FS_TEAM_MOST

    ctypedef void fs_kernel(const void *left, const void *right, void *target, size_t count)
    fs_kernel *fs_kernel_of(int operation, int type)
    size_t fs_type_size(int type)

    struct fs_team:
        pass

    struct fs_team_hooks:
        void *context
        void (*leave)(void *context)
        void (*enter)(void *context)
        int (*progress)(void *context)
        int (*interrupted)(void *context)

    struct fs_blocks:
        const size_t *sizes
        const size_t *offsets

    void fs_team_identify(fs_cma_identity *own)
    int fs_team_meet(fs_team *team, const fs_cma_identity *all)
    int fs_team_create_memory(int size, int crowded)
    fs_team *fs_team_open(int memory, int index, int size, const int *bells, const int *watches, int at_once,
                          const fs_team_hooks *hooks, int *error)
    enum fs_team_kept: FS_TEAM_MEASURED, FS_TEAM_BUFFERED, FS_TEAM_DIRECT
    void fs_team_keep(fs_team *team, fs_team_kept kept)
    void fs_team_close(fs_team *team)
    int fs_team_culprit(const fs_team *team)

    int fs_team_barrier(fs_team *team)
    int fs_team_bcast(fs_team *team, void *data, size_t bytes, int root)
    int fs_team_reduce(fs_team *team, const void *source, void *target, size_t count, int type, int operation, int root)
    int fs_team_allreduce(fs_team *team, const void *source, void *target, size_t count, int type, int operation)
    int fs_team_scan(fs_team *team, const void *source, void *target, size_t count, int type, int operation)
    int fs_team_exscan(fs_team *team, const void *source, void *target, size_t count, int type, int operation)
    int fs_team_reduce_scatter(fs_team *team, const void *source, void *target, const size_t *counts, int type,
                               int operation)
    int fs_team_gather(fs_team *team, const void *source, size_t bytes, void *target, const fs_blocks *blocks, int root)
    int fs_team_scatter(fs_team *team, const void *source, const fs_blocks *blocks, void *target, size_t bytes, int root)
    int fs_team_allgather(fs_team *team, const void *source, void *target, const fs_blocks *blocks)
    int fs_team_alltoall(fs_team *team, const void *source, const fs_blocks *out, void *target, const fs_blocks *in_)
