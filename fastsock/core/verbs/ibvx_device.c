/* The device of a process: which one, its queues, and the buffers that all peers' segments come into. */
#define _GNU_SOURCE
#include "ibvx_internal.h"

#include <errno.h>

#ifdef FS_HAS_VERBS

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_COMPLETIONS 65536
#define MOST_PAIRS 4096

/* ---- the lock: short, and held for copies of one segment at most ---- */

int fs_ibvx_try_lock(struct fs_ibvx *device)
{
    return atomic_exchange_explicit(&device->lock, 1, memory_order_acquire) == 0;
}

void fs_ibvx_lock(struct fs_ibvx *device)
{
    while (!fs_ibvx_try_lock(device)) sched_yield();
}

void fs_ibvx_unlock(struct fs_ibvx *device) { atomic_store_explicit(&device->lock, 0, memory_order_release); }

/* ---- which one ---- */

/* An IPv4 address as a GID shows it, or an IPv6 one.  0: it is neither. */
static int gid_of(const char *address, union ibv_gid *gid)
{
    struct in_addr four;
    memset(gid, 0, sizeof *gid);
    if (address && inet_pton(AF_INET6, address, gid->raw) == 1) return 1;
    if (!address || inet_pton(AF_INET, address, &four) != 1) return 0;
    gid->raw[10] = gid->raw[11] = 0xff;
    memcpy(gid->raw + 12, &four, sizeof four);
    return 1;
}

static int is_version_4(const union ibv_gid *gid)
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    return memcmp(gid->raw, mapped, sizeof mapped) == 0;
}

/* How well the best port of an open device fits, with the port noted: 3 has the address, 2 an IPv4 one, 1 active, 0 not. */
static int choose_port(struct fs_ibvx *device, const union ibv_gid *wanted)
{
    struct ibv_device_attr about;
    int best = 0;
    if (device->library->ibv_query_device(device->context, &about) != 0) return 0;
    for (uint8_t port = 1; port <= about.phys_port_cnt; port++) {
        struct ibv_port_attr found;
        memset(&found, 0, sizeof found);
        if (device->library->ibv_query_port(device->context, port, (void *)&found) != 0) continue;
        if (found.state != IBV_PORT_ACTIVE) continue;
        for (int index = 0; index < found.gid_tbl_len && index < 256; index++) {
            union ibv_gid gid, none = {{0}};
            if (device->library->ibv_query_gid(device->context, port, index, &gid) != 0) continue;
            if (memcmp(&gid, &none, sizeof gid) == 0) continue;
            int fit = wanted && memcmp(&gid, wanted, sizeof gid) == 0 ? 3 : is_version_4(&gid) ? 2 : 1;
            if (fit <= best) continue;
            best = fit;
            device->port = found;
            device->port_number = port;
            device->gid_index = (uint8_t)index;
            device->gid = gid;
        }
    }
    return best;
}

/* 0, or -errno: a context and a port are chosen. */
static int choose(struct fs_ibvx *device, const char *name, const char *local)
{
    union ibv_gid address, *wanted = gid_of(local, &address) ? &address : NULL;
    int count = 0, best = 0;
    struct ibv_device **all = device->library->ibv_get_device_list(&count);
    if (!all) return -ENODEV;
    for (int i = 0; i < count && best < 3; i++) {
        struct fs_ibvx one = {.library = device->library};
        const char *called = device->library->ibv_get_device_name(all[i]);
        if (name && strcmp(name, called) != 0) continue;
        if (all[i]->transport_type == IBV_TRANSPORT_IWARP) continue; /* connects by rdma_cm alone */
        one.context = device->library->ibv_open_device(all[i]);
        if (!one.context) continue;
        int fit = choose_port(&one, wanted);
        if (fit <= best) {
            device->library->ibv_close_device(one.context);
            continue;
        }
        if (device->context) device->library->ibv_close_device(device->context);
        best = fit;
        device->context = one.context;
        device->port = one.port;
        device->port_number = one.port_number;
        device->gid_index = one.gid_index;
        device->gid = one.gid;
        strncpy(device->name, called, sizeof device->name - 1);
    }
    device->library->ibv_free_device_list(all);
    return best ? 0 : -ENODEV;
}

/* ---- its queues ---- */

static uint8_t reads_of(int most)
{
    return (uint8_t)(most < 1 ? 1 : most < (int)FS_IBVX_PIECES ? most : (int)FS_IBVX_PIECES);
}

static int open_queues(struct fs_ibvx *device)
{
    const struct fs_verbs_library *library = device->library;
    struct ibv_device_attr about;
    int error = library->ibv_query_device(device->context, &about);
    if (error) return -error;
    if (about.max_srq == 0) return -EOPNOTSUPP;
    device->most_reads = reads_of(about.max_qp_init_rd_atom);
    device->most_answered = reads_of(about.max_qp_rd_atom);
    int completions = about.max_cqe < MOST_COMPLETIONS ? about.max_cqe : MOST_COMPLETIONS;
    /* each pair may have its receives and its sends in the one queue of completions */
    device->most_pairs = completions / (int)(2 * FS_IBVX_CREDITS + 2);
    if (device->most_pairs > about.max_srq_wr / (int)FS_IBVX_CREDITS)
        device->most_pairs = about.max_srq_wr / (int)FS_IBVX_CREDITS;
    if (device->most_pairs > MOST_PAIRS) device->most_pairs = MOST_PAIRS;
    device->domain = library->ibv_alloc_pd(device->context);
    device->channel = library->ibv_create_comp_channel(device->context);
    if (!device->domain || !device->channel) return -errno;
    const int descriptors[] = {device->channel->fd, device->context->async_fd};
    for (int i = 0; i < 2; i++) {
        int flags = fcntl(descriptors[i], F_GETFL);
        if (flags < 0 || fcntl(descriptors[i], F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
    }
    device->completions = library->ibv_create_cq(device->context, completions, NULL, device->channel, 0);
    if (!device->completions) return -errno;
    struct ibv_srq_init_attr receives = {
        .attr = {.max_wr = (uint32_t)device->most_pairs * FS_IBVX_CREDITS, .max_sge = 1}};
    device->receives = library->ibv_create_srq(device->domain, &receives);
    return device->receives ? 0 : -errno;
}

struct fs_ibvx *fs_ibvx_open(const struct fs_ibvx_options *options, int *error)
{
    const struct fs_verbs_library *library = fs_verbs_library(error);
    if (!library) return NULL;
    struct fs_ibvx *device = calloc(1, sizeof *device);
    *error = -ENOMEM;
    if (!device) return NULL;
    device->library = library;
    device->bound = options->memory;
    device->has_rings = options->rings;
    *error = choose(device, options->device, options->local);
    if (*error == 0) *error = open_queues(device);
    if (*error == 0) {
        int why;
        if (options->keeps) device->unmapping = fs_unmapping_new(&why);
        return device;
    }
    fs_ibvx_close(device);
    return NULL;
}

void fs_ibvx_close(struct fs_ibvx *device)
{
    const struct fs_verbs_library *library = device->library;
    fs_ibvx_forget_all(device);
    if (device->unmapping) fs_unmapping_free(device->unmapping);
    if (device->receives) library->ibv_destroy_srq(device->receives);
    if (device->completions) library->ibv_destroy_cq(device->completions);
    if (device->channel) library->ibv_destroy_comp_channel(device->channel);
    while (device->blocks) {
        struct fs_ibvx_block *next = device->blocks->next;
        if (device->blocks->region) library->ibv_dereg_mr(device->blocks->region);
        munmap(device->blocks->memory, device->blocks->size);
        free(device->blocks);
        device->blocks = next;
    }
    if (device->domain) library->ibv_dealloc_pd(device->domain);
    if (device->context) library->ibv_close_device(device->context);
    free(device);
}

const char *fs_ibvx_name(const struct fs_ibvx *device) { return device->name; }

int fs_ibvx_descriptor(const struct fs_ibvx *device) { return device->channel->fd; }

int fs_ibvx_news_descriptor(const struct fs_ibvx *device) { return device->context->async_fd; }

/* ---- the buffers of the shared receive queue ---- */

int fs_ibvx_post_receive(struct fs_ibvx *device, struct fs_ibvx_buffer *buffer)
{
    struct ibv_sge where = {(uintptr_t)buffer->data, FS_IBVX_SEGMENT, buffer->key};
    struct ibv_recv_wr request = {
        .wr_id = FS_IBVX_NUMBER(FS_IBVX_RECEIVED, (uintptr_t)buffer), .sg_list = &where, .num_sge = 1};
    struct ibv_recv_wr *bad;
    return -ibv_post_srq_recv(device->receives, &request, &bad);
}

int fs_ibvx_add_buffers(struct fs_ibvx *device)
{
    struct fs_ibvx_block *block = calloc(1, sizeof *block);
    if (!block) return -ENOMEM;
    block->size = (size_t)FS_IBVX_CREDITS * FS_IBVX_SEGMENT;
    block->memory = mmap(NULL, block->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->memory == MAP_FAILED) {
        free(block);
        return -ENOMEM;
    }
    block->region = device->library->ibv_reg_mr(device->domain, block->memory, block->size, IBV_ACCESS_LOCAL_WRITE);
    int error = block->region ? 0 : -errno;
    if (error) {
        munmap(block->memory, block->size);
        free(block);
        return error;
    }
    block->next = device->blocks;
    device->blocks = block;
    for (uint32_t i = 0; error == 0 && i < FS_IBVX_CREDITS; i++) {
        block->buffers[i] =
            (struct fs_ibvx_buffer){.data = block->memory + (size_t)i * FS_IBVX_SEGMENT, .key = block->region->lkey};
        error = fs_ibvx_post_receive(device, &block->buffers[i]);
    }
    return error;
}

#endif
