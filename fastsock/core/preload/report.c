/* FASTSOCK_STATS: at the process's end one line for each connection, and one of all.  FASTSOCK_TRACE: a line as a connection
 * begins, and as it ends. */
#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "borrowed.h"
#include "next.h"
#include "process.h"
#include "sharing.h"
#include "switch/closed.h"
#include "switch/descriptor.h"
#include "switch/table.h"
#include "describing.h"

enum {
    ROOM = 32 << 10,
    SHORT = 1 << 10
}; /* of a line at the end; of one on the way, on a stack that may be a handler's */

/* ---- of all ---- */

struct totals {
    _Atomic uint64_t shm, tcp, ring_in, ring_out, tcp_in, tcp_out;
};

static struct totals of_closed; /* all that were noted: their lines are kept of the last ones only */

static void forget_parents(void) { memset(&of_closed, 0, sizeof of_closed); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_parents); }

static void add(struct totals *totals, const struct fs_closed *seen)
{
    int gained = seen->carriers.ring_in + seen->carriers.ring_out > 0;
    atomic_fetch_add(&totals->shm, (uint64_t)gained);
    atomic_fetch_add(&totals->tcp, (uint64_t)!gained);
    atomic_fetch_add(&totals->ring_in, seen->carriers.ring_in);
    atomic_fetch_add(&totals->ring_out, seen->carriers.ring_out);
    atomic_fetch_add(&totals->tcp_in, seen->carriers.tcp_in);
    atomic_fetch_add(&totals->tcp_out, seen->carriers.tcp_out);
}

/* ---- at the end ---- */

static void begin_line(struct fs_line *line)
{
    line->length = 0;
    fs_line_put(line, "fastsock[");
    fs_line_number(line, (uint64_t)getpid());
    fs_line_put(line, "] ");
}

static void put_row(struct fs_line *line, const struct fs_closed *seen)
{
    const char *role = fs_describe_role(seen);
    begin_line(line);
    fs_line_put(line, fs_describe_path(seen));
    fs_line_put(line, "  ");
    fs_line_put(line, role);
    for (size_t width = strlen(role); width < 8; width++) fs_line_put(line, " ");
    fs_line_address(line, &seen->own);
    fs_line_put(line, seen->role == FS_ROLE_ACCEPTED ? " < " : " > ");
    fs_line_address(line, &seen->other);
    fs_line_put(line, "  sent ");
    fs_line_separated(line, seen->carriers.tcp_out + seen->carriers.ring_out);
    fs_line_put(line, " B, received ");
    fs_line_separated(line, seen->carriers.tcp_in + seen->carriers.ring_in);
    fs_line_put(line, " B  (");
    fs_line_reason(line, seen, ": ", "");
    fs_line_put(line, ")");
}

static void put_json_row(struct fs_line *line, const struct fs_closed *seen)
{
    line->length = 0;
    fs_line_put(line, "{\"pid\": ");
    fs_line_number(line, (uint64_t)getpid());
    fs_line_put(line, ", \"role\": ");
    fs_line_quoted(line, fs_describe_role(seen));
    fs_line_put(line, ", \"transport\": ");
    fs_line_quoted(line, fs_describe_path(seen));
    fs_line_put(line, ", \"reason\": ");
    fs_line_quoted(line, fs_describe_reason(seen));
    fs_line_put(line, ", \"detail\": \"");
    line->escapes = 1;
    fs_line_detail(line, seen);
    line->escapes = 0;
    fs_line_put(line, "\", \"local\": ");
    fs_line_list(line, &seen->own);
    fs_line_put(line, ", \"peer\": ");
    fs_line_list(line, &seen->other);
    fs_line_put(line, ", \"bytes_sent\": ");
    fs_line_number(line, seen->carriers.tcp_out + seen->carriers.ring_out);
    fs_line_put(line, ", \"bytes_received\": ");
    fs_line_number(line, seen->carriers.tcp_in + seen->carriers.ring_in);
    fs_line_put(line, ", \"bytes_direct\": ");
    if (strcmp(fs_describe_path(seen), "shm") == 0) fs_line_number(line, seen->carriers.direct);
    else fs_line_put(line, "null");
    fs_line_put(line, "}");
}

static void put_part(struct fs_line *line, const char *name, uint64_t number)
{
    fs_line_put(line, name);
    if (line->escapes) fs_line_number(line, number);
    else fs_line_separated(line, number);
}

static void put_totals(struct fs_line *line, const struct totals *all)
{
    begin_line(line);
    fs_line_put(line, program_invocation_short_name);
    put_part(line, ": connections: shm ", all->shm);
    put_part(line, ", tcp ", all->tcp);
    put_part(line, "; bytes by memory: sent ", all->ring_out);
    put_part(line, ", received ", all->ring_in);
    put_part(line, "; by TCP: sent ", all->tcp_out);
    put_part(line, ", received ", all->tcp_in);
}

static void put_json_part(struct fs_line *line, const char *name, uint64_t number)
{
    fs_line_put(line, name);
    fs_line_number(line, number);
}

static void put_json_totals(struct fs_line *line, const struct totals *all)
{
    line->length = 0;
    put_json_part(line, "{\"pid\": ", (uint64_t)getpid());
    fs_line_put(line, ", \"program\": ");
    fs_line_quoted(line, program_invocation_short_name);
    put_json_part(line, ", \"totals\": {\"shm\": ", all->shm);
    put_json_part(line, ", \"tcp\": ", all->tcp);
    put_json_part(line, "}, \"shm_bytes_sent\": ", all->ring_out);
    put_json_part(line, ", \"shm_bytes_received\": ", all->ring_in);
    put_json_part(line, ", \"tcp_bytes_sent\": ", all->tcp_out);
    put_json_part(line, ", \"tcp_bytes_received\": ", all->tcp_in);
    fs_line_put(line, "}");
}

static int is_launched(void)
{
    const char *launched = getenv("FASTSOCK_LAUNCHED");
    return launched != NULL && strtol(launched, NULL, 10) == getpid();
}

static void write_all(struct fs_line *line, int file, struct fs_closed *closed, size_t count)
{
    int is_text = file < 0;
    struct totals all = of_closed;
    struct fs_closed open;
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) {
        struct fs_connection *connection = fs_table_find(i);
        if (connection == NULL) continue;
        fs_closed_look(connection, i, &open);
        add(&all, &open);
        (is_text ? put_row : put_json_row)(line, &open);
        if (is_text) fs_line_print(line);
        else fs_write_line(file, line);
    }
    for (size_t i = 0; i < count; i++) {
        (is_text ? put_row : put_json_row)(line, &closed[i]);
        if (is_text) fs_line_print(line);
        else fs_write_line(file, line);
    }
    if (!is_text) {
        put_json_totals(line, &all);
        fs_write_line(file, line);
    } else if (all.shm + all.tcp > 0) {
        put_totals(line, &all);
        fs_line_print(line);
    } else if (is_launched()) {
        begin_line(line);
        fs_line_put(line, "no TCP connection was made or accepted");
        fs_line_print(line);
    }
}

static int open_report(const char *target) { return open(target, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666); }

static void report(void)
{
    static _Atomic int is_written;
    const char *target = fs_report_target;
    if (target == NULL || fs_is_borrowed() || atomic_load(&fs_stands_aside) || atomic_load(&fs_python_reports)) return;
    if (atomic_exchange(&is_written, 1)) return;
    int to_error = strcmp(target, "-") == 0;
    int file = to_error ? -1 : open_report(target);
    if (!to_error && file < 0 && errno == EMFILE) {
        fs_descriptor_give_back();
        file = open_report(target);
    }
    struct fs_closed *closed = malloc(FS_CLOSED_KEPT * sizeof *closed);
    struct fs_line line = {.bytes = malloc(ROOM), .room = ROOM};
    if (line.bytes != NULL && (to_error || file >= 0))
        write_all(&line, file, closed, closed == NULL ? 0 : fs_closed_list(closed));
    free(line.bytes);
    free(closed);
    if (file >= 0) fs_next.close(file);
}

void fs_report_at_exit(void)
{
    static _Atomic int arranged;
    if (atomic_load_explicit(&arranged, memory_order_relaxed) || atomic_exchange(&arranged, 1)) return;
    if (fs_report_target == NULL) return;
    fs_closed_keep(1);
    atexit(report);
}

/* Of the program itself it is said even that there was no connection.  Of those that are open the report tells before they
 * are left at the exit: so it is arranged again when the first one comes. */
__attribute__((constructor)) static void begin(void)
{
    fs_process_begin();
    if (fs_report_target != NULL && is_launched()) atexit(report);
}

/* ---- on the way ---- */

static void begin_trace(struct fs_line *line, const struct fs_closed *seen)
{
    begin_line(line);
    fs_line_put(line, fs_describe_role(seen));
    fs_line_put(line, " ");
    fs_line_tuple(line, &seen->other);
}

void fs_report_entered(int descriptor, const struct sockaddr *given)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (!fs_traces || connection == NULL) return;
    char room[SHORT];
    struct fs_line line = {.bytes = room, .room = sizeof room};
    struct fs_closed seen;
    fs_closed_look(connection, descriptor, &seen);
    if (seen.other.any.sa_family == AF_UNSPEC && given != NULL)
        memcpy(&seen.other, given, given->sa_family == AF_INET ? sizeof seen.other.four : sizeof seen.other.six);
    begin_trace(&line, &seen);
    fs_line_put(&line, " stays on tcp");
    if (strncmp(fs_describe_reason(&seen), "excluded", 8) == 0) {
        fs_line_put(&line, ": ");
        fs_line_reason(&line, &seen, ": ", "");
    } else fs_line_put(&line, " so far");
    fs_line_print(&line);
}

void fs_report_leaves(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL) return;
    fs_closed_note(descriptor);
    if ((!fs_traces && fs_report_target == NULL) || atomic_load(&connection->descriptors) != 1) return;
    struct fs_closed seen;
    fs_closed_look(connection, descriptor, &seen);
    if (fs_report_target != NULL) add(&of_closed, &seen);
    if (!fs_traces) return;
    char room[SHORT];
    struct fs_line line = {.bytes = room, .room = sizeof room};
    begin_trace(&line, &seen);
    fs_line_put(&line, " ends on ");
    fs_line_put(&line, fs_describe_path(&seen));
    fs_line_put(&line, ": ");
    fs_line_reason(&line, &seen, " (", ")");
    fs_line_print(&line);
}

void fs_report_short(int count)
{
    char room[SHORT];
    struct fs_line line = {.bytes = room, .room = sizeof room};
    struct rlimit limit = {0, 0};
    getrlimit(RLIMIT_NOFILE, &limit);
    begin_line(&line);
    fs_line_put(&line, "the program has all the descriptors that it may have (RLIMIT_NOFILE, ");
    fs_line_number(&line, limit.rlim_cur);
    fs_line_put(&line, "), and ");
    fs_line_number(&line, (uint64_t)count);
    fs_line_put(&line, " of them are fastsock's");
    fs_line_print(&line);
}
