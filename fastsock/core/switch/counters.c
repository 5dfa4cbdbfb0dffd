#define _GNU_SOURCE
#include "counters.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define KERNEL_TCP_INFO 11 /* TCP_INFO, whose header has an older struct */
enum { ESTABLISHED = 1, SYN_SENT = 2, SYN_RECEIVED = 3 };
#define TRIES 3

/* The beginning of the kernel's struct tcp_info.  It only ever grows at its end. */
struct kernel_info {
    uint8_t state, others[7];
    uint32_t before_rates[24];
    uint64_t rates[2], bytes_acked, bytes_received;
    uint32_t segments[2], notsent_bytes, min_rtt, data_segments[2];
    uint64_t delivery_rate, times[3];
    uint32_t delivered[2];
    uint64_t bytes_sent, bytes_retrans;
};

_Static_assert(offsetof(struct kernel_info, bytes_acked) == 120 && offsetof(struct kernel_info, notsent_bytes) == 144 &&
                   offsetof(struct kernel_info, bytes_retrans) == 208 && sizeof(struct kernel_info) == 216,
               "as in linux/tcp.h");

static int ask(int descriptor, struct kernel_info *info)
{
    socklen_t size = sizeof *info;
    if (getsockopt(descriptor, IPPROTO_TCP, KERNEL_TCP_INFO, info, &size) != 0)
        return errno == EBADF || errno == ENOTSOCK ? -errno : -EOPNOTSUPP;
    if (size < sizeof *info) return -EOPNOTSUPP;
    if (info->state == SYN_SENT || info->state == SYN_RECEIVED) return -EAGAIN;
    return info->state == ESTABLISHED ? 0 : -ENOTCONN;
}

/* The SYN of the end that connects is acknowledged like a byte.  `left`: what is not acknowledged yet; less than 0: that
 * changed meanwhile. */
static void find_sides(struct fs_counters *counters, const struct kernel_info *info, int left)
{
    uint64_t reached = left < 0 ? 0 : counters->sent - (uint64_t)left;
    counters->opened = FS_OPENED_UNKNOWN;
    if (left >= 0 && info->bytes_acked == reached + 1) counters->opened = FS_OPENED_HERE;
    if (left >= 0 && info->bytes_acked == reached) counters->opened = FS_OPENED_THERE;
    counters->acknowledged = info->bytes_acked - (counters->opened != FS_OPENED_THERE && info->bytes_acked > 0);
}

/* Unread, and not acknowledged. */
static int ask_queues(int descriptor, int *in, int *out)
{
    if (ioctl(descriptor, FIONREAD, in) == 0 && ioctl(descriptor, SIOCOUTQ, out) == 0) return 0;
    return errno == EBADF ? -EBADF : -EOPNOTSUPP;
}

int fs_counters_read(int descriptor, struct fs_counters *counters)
{
    for (int i = 0; i < TRIES; i++) {
        struct kernel_info info;
        int in_before = 0, out_before = 0, in = 0, out = 0;
        int error = ask_queues(descriptor, &in_before, &out_before);
        if (error == 0) error = ask(descriptor, &info);
        if (error == 0) error = ask_queues(descriptor, &in, &out);
        if (error != 0) return error;
        if (in != in_before) continue;
        counters->sent = info.bytes_sent - info.bytes_retrans + info.notsent_bytes;
        counters->received = info.bytes_received;
        counters->consumed = info.bytes_received - (uint64_t)in;
        find_sides(counters, &info, out == out_before ? out : -1);
        return 0;
    }
    return -EAGAIN;
}
