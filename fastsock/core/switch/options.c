#define _GNU_SOURCE
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "endings.h"
#include "table.h"

#define LOCK_PATIENCE_NS 50000000ull
#define KERNEL_TCP_ULP 31
#define KERNEL_SO_PEEK_OFF 42
#define KERNEL_SO_BUF_LOCK 72 /* from Linux 5.14 on: which buffers a program has set, here or at the listener */
#define KERNEL_SNDBUF_LOCK 1
#define KERNEL_RCVBUF_LOCK 2

struct kept {
    int level, option, underneath;
    _Atomic int *asked;
};

enum { KEPT = 3 };

static void list_kept(struct fs_record *record, struct kept kept[KEPT])
{
    kept[0] = (struct kept){IPPROTO_TCP, TCP_NODELAY, 1, &record->nodelay};
    kept[1] = (struct kept){IPPROTO_TCP, TCP_CORK, 0, &record->cork};
    kept[2] = (struct kept){SOL_SOCKET, SO_RCVLOWAT, 1, &record->low_water};
}

static int get(int descriptor, int level, int option, int otherwise)
{
    int value = otherwise;
    socklen_t size = sizeof value;
    return getsockopt(descriptor, level, option, &value, &size) == 0 && size == sizeof value ? value : otherwise;
}

static int set(int descriptor, int level, int option, int value)
{
    return setsockopt(descriptor, level, option, &value, sizeof value) == 0 ? 0 : -errno;
}

int fs_options_permit(int descriptor)
{
    char layer[16];
    socklen_t size = sizeof layer;
    if (getsockopt(descriptor, IPPROTO_TCP, KERNEL_TCP_ULP, layer, &size) == 0 && size != 0) return -EINVAL;
    if (get(descriptor, SOL_SOCKET, KERNEL_SO_PEEK_OFF, -1) >= 0) return -EINVAL;
    if (fcntl(descriptor, F_GETFL, 0) & O_ASYNC) return -EINVAL; /* it hears of bytes by a signal */
    return get(descriptor, SOL_SOCKET, SO_RCVLOWAT, 1) <= 1 ? 0 : -EINVAL;
}

void fs_options_take(struct fs_record *record, int descriptor)
{
    struct kept kept[KEPT];
    list_kept(record, kept);
    for (int i = 0; i < KEPT; i++) {
        int value = get(descriptor, kept[i].level, kept[i].option, kept[i].underneath);
        atomic_store(kept[i].asked, value);
        if (value != kept[i].underneath) set(descriptor, kept[i].level, kept[i].option, kept[i].underneath);
    }
}

void fs_options_give_back(struct fs_record *record, int descriptor)
{
    struct kept kept[KEPT];
    list_kept(record, kept);
    for (int i = 0; i < KEPT; i++)
        if (atomic_load(kept[i].asked) != kept[i].underneath)
            set(descriptor, kept[i].level, kept[i].option, atomic_load(kept[i].asked));
}

static const struct kept *find(const struct kept *kept, int level, int option)
{
    for (int i = 0; i < KEPT; i++)
        if (kept[i].level == level && kept[i].option == option) return &kept[i];
    return NULL;
}

int fs_option_set(struct fs_connection *connection, int descriptor, int level, int option, int value)
{
    struct fs_record *record = connection->record;
    struct kept kept[KEPT];
    if (record == NULL) return 0;
    list_kept(record, kept);
    const struct kept *one = find(kept, level, option);
    if (one == NULL) return 0;
    int locked = fs_lock(&record->sender, LOCK_PATIENCE_NS) == 0; /* it must not fail for a stopped process */
    int error = 0, ours = fs_table_is(connection, descriptor, record) && !fs_record_is_plain(record);
    if (ours) atomic_store(one->asked, one->asked == &record->low_water ? value : value != 0);
    else error = set(descriptor, level, option, value);
    if (locked) fs_unlock(&record->sender);
    return error != 0 ? error : 1;
}

/* The kernel may have told it already, to a token's send, or never will. */
static int take_error(struct fs_connection *connection, struct fs_record *record, int descriptor)
{
    int error = atomic_exchange(&record->pending_error, 0);
    if (error == 0) error = get(descriptor, SOL_SOCKET, SO_ERROR, 0);
    if (!fs_connection_enter(connection, descriptor)) return error;
    const struct fs_end *end = connection->end;
    if (end != NULL && error == ECONNRESET && fs_ending_is_of_a_token(record, end)) error = 0;
    if (end != NULL && error == 0 && fs_ending_owes_reset(record, end, descriptor)) error = ECONNRESET;
    if (error != 0) atomic_store(&record->reset_reported, 1);
    fs_connection_exit(connection);
    return error;
}

int fs_option_get(struct fs_connection *connection, int descriptor, int level, int option, int *value)
{
    struct fs_record *record = connection->record;
    struct kept kept[KEPT];
    if (record == NULL || fs_record_is_plain(record) || !fs_table_is(connection, descriptor, record)) return 0;
    if (level == SOL_SOCKET && option == SO_ERROR) {
        *value = take_error(connection, record, descriptor);
        return 1;
    }
    list_kept(record, kept);
    const struct kept *one = find(kept, level, option);
    if (one == NULL) return 0;
    *value = atomic_load(one->asked);
    return 1;
}

/* ---- buffers ---- */

static uint64_t asked_for(int descriptor, int option) /* the kernel doubles it */
{
    int size = get(descriptor, SOL_SOCKET, option, 0);
    return size > 0 ? (uint64_t)size / 2 : 0;
}

void fs_options_bound_end(struct fs_end *end, int descriptor)
{
    int set_by_program = get(descriptor, SOL_SOCKET, KERNEL_SO_BUF_LOCK, 0);
    if (set_by_program & KERNEL_SNDBUF_LOCK) fs_end_set_send_buffer(end, asked_for(descriptor, SO_SNDBUF));
    if (set_by_program & KERNEL_RCVBUF_LOCK)
        fs_end_set_receive_buffer(end, descriptor, asked_for(descriptor, SO_RCVBUF));
}

void fs_options_bound(struct fs_connection *connection, int descriptor)
{
    if (!fs_connection_enter(connection, descriptor)) return;
    struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    if (end != NULL) {
        int locked = fs_lock(&record->receiver, LOCK_PATIENCE_NS) == 0; /* a stopped reader must not stop it */
        if (fs_table_is(connection, descriptor, record)) fs_options_bound_end(end, descriptor);
        if (locked) fs_unlock(&record->receiver);
    }
    fs_connection_exit(connection);
}
