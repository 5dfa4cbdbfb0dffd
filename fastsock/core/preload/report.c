/* One line at the process's end, where FASTSOCK_STATS asks for it: how many connections there were, and what carried them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "next.h"
#include "process.h"
#include "switch/closed.h"
#include "switch/table.h"

struct totals {
    unsigned long shm, tcp, ring_in, ring_out, tcp_in, tcp_out;
};

static void add(struct totals *totals, const struct fs_closed *seen)
{
    int gained = seen->carriers.ring_in + seen->carriers.ring_out > 0;
    totals->shm += gained;
    totals->tcp += !gained;
    totals->ring_in += seen->carriers.ring_in;
    totals->ring_out += seen->carriers.ring_out;
    totals->tcp_in += seen->carriers.tcp_in;
    totals->tcp_out += seen->carriers.tcp_out;
}

static struct totals count_all(void)
{
    struct totals totals = {0};
    struct fs_closed *closed = malloc(FS_CLOSED_KEPT * sizeof *closed), open;
    size_t count = closed == NULL ? 0 : fs_closed_list(closed);
    for (size_t i = 0; i < count; i++) add(&totals, &closed[i]);
    free(closed);
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        fs_closed_look(fs_table_find(i), i, &open);
        add(&totals, &open);
    }
    return totals;
}

static void report(void)
{
    const char *target = fs_report_target;
    if (target == NULL || fs_is_borrowed() || atomic_load(&fs_stands_aside)) return;
    struct totals all = count_all();
    char line[512];
    int to_error = strcmp(target, "-") == 0;
    const char *form = to_error
                           ? "fastsock[%d] %s: connections: shm %lu, tcp %lu; bytes by memory: sent %lu, received %lu; "
                             "by TCP: sent %lu, received %lu\n"
                           : "{\"pid\": %d, \"program\": \"%s\", \"totals\": {\"shm\": %lu, \"tcp\": %lu}, "
                             "\"shm_bytes_sent\": %lu, \"shm_bytes_received\": %lu, \"tcp_bytes_sent\": %lu, "
                             "\"tcp_bytes_received\": %lu}\n";
    int length = snprintf(line, sizeof line, form, (int)getpid(), program_invocation_short_name, all.shm, all.tcp,
                          all.ring_out, all.ring_in, all.tcp_out, all.tcp_in);
    int file = to_error ? STDERR_FILENO : open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || length <= 0) return;
    if (fs_next.write(file, line, (size_t)length) < 0) {
        /* nobody can be told */
    }
    if (!to_error) fs_next.close(file);
}

void fs_report_at_exit(void)
{
    static _Atomic int arranged;
    if (atomic_load_explicit(&arranged, memory_order_relaxed) || atomic_exchange(&arranged, 1)) return;
    if (fs_report_target == NULL) return;
    fs_closed_keep(1);
    atexit(report);
}
