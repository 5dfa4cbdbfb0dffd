/* libibverbs and librdmacm, opened when a device is there.
 *
 * fastsock is not linked against them: a host without RDMA needs neither.  Where their headers were not there when
 * fastsock was built, FS_HAS_VERBS is not defined, and the files of this folder are empty.
 *
 * The data path of verbs (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) is inline in the headers: it
 * calls the driver through the context.
 */
#ifndef FASTSOCK_VERBS_LIBRARY_H
#define FASTSOCK_VERBS_LIBRARY_H

#if __has_include(<infiniband/verbs.h>) && __has_include(<rdma/rdma_cma.h>)
#define FS_HAS_VERBS 1

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#undef ibv_reg_mr /* macros around inline functions, of which the library has the plain ones too */
#undef ibv_query_port

/* The type of each member is that of the function in the header. */
#define FS_VERBS_FUNCTIONS(X)   \
    X(ibv_get_device_list)      \
    X(ibv_free_device_list)     \
    X(ibv_open_device)          \
    X(ibv_close_device)         \
    X(ibv_get_device_name)      \
    X(ibv_query_device)         \
    X(ibv_query_port)           \
    X(ibv_query_gid)            \
    X(ibv_alloc_pd)             \
    X(ibv_dealloc_pd)           \
    X(ibv_reg_mr)               \
    X(ibv_dereg_mr)             \
    X(ibv_create_comp_channel)  \
    X(ibv_destroy_comp_channel) \
    X(ibv_create_cq)            \
    X(ibv_destroy_cq)           \
    X(ibv_get_cq_event)         \
    X(ibv_ack_cq_events)        \
    X(ibv_get_async_event)      \
    X(ibv_ack_async_event)      \
    X(ibv_create_srq)           \
    X(ibv_destroy_srq)          \
    X(ibv_create_qp)            \
    X(ibv_modify_qp)            \
    X(ibv_query_qp)             \
    X(ibv_destroy_qp)           \
    X(ibv_wc_status_str)        \
    X(ibv_is_fork_initialized)
#define FS_RDMA_FUNCTIONS(X)      \
    X(rdma_create_event_channel)  \
    X(rdma_destroy_event_channel) \
    X(rdma_create_id)             \
    X(rdma_destroy_id)            \
    X(rdma_bind_addr)             \
    X(rdma_listen)                \
    X(rdma_resolve_addr)          \
    X(rdma_resolve_route)         \
    X(rdma_create_qp)             \
    X(rdma_destroy_qp)            \
    X(rdma_connect)               \
    X(rdma_accept)                \
    X(rdma_reject)                \
    X(rdma_disconnect)            \
    X(rdma_get_cm_event)          \
    X(rdma_ack_cm_event)          \
    X(rdma_migrate_id)            \
    X(rdma_set_option)

struct fs_verbs_library {
#define FS_MEMBER(function) __typeof__(&function) function;
    FS_VERBS_FUNCTIONS(FS_MEMBER)
    FS_RDMA_FUNCTIONS(FS_MEMBER)
#undef FS_MEMBER
};

/* The functions of both libraries, or NULL with -errno: -ENODEV no device (/sys/class/infiniband), -ENOENT a library or
 * a function of it is not there, -ENOTSUP the kernel is
 * older than 5.12: memory that a device uses would not survive a fork.  Found out once:
 * where there was no device, that is looked at again by the next call, for a few microseconds. */
const struct fs_verbs_library *fs_verbs_library(int *error);
int fs_library_find(void *handle, const char *name, void *member); /* 0, or -ENOENT: dlsym() into a function pointer */
int fs_verbs_any_is_iwarp(const struct fs_verbs_library *verbs);   /* of this host's devices */
/* The libraries keep the devices open that they once opened, and the kernel lets no child use those.  0 or -EPERM. */
int fs_verbs_use(void);
int fs_verbs_is_inherited(void); /* from a process that used them */

#endif

/* Whether the kernel knows an RDMA device now: 1 or 0, without any library. */
int fs_verbs_has_device(void);

#endif
