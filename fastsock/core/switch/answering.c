#define _GNU_SOURCE
#include "answering.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "descriptor.h"
#include "switch.h"
#include "system.h"
#include "table.h"
#include "tokens.h"

#define LOCK_PATIENCE_NS 50000000ull
#define AGAIN_MS 50 /* where the lock could not be had */
#define NAME "fastsock/2/a/"

/* ---- names ---- */

struct name {
    struct sockaddr_un address;
    socklen_t size;
};

static struct name name_of(uint64_t number)
{
    struct name name = {.address.sun_family = AF_UNIX};
    char *at = name.address.sun_path + 1;
    memcpy(at, NAME, sizeof NAME - 1);
    at += sizeof NAME - 1;
    for (int shift = 60; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[number >> shift & 15];
    name.size = (socklen_t)(at - (char *)&name.address);
    return name;
}

/* Nobody but the other ends must find it by chance. */
static uint64_t make_number(void)
{
    uint64_t number = 0;
    while (number == 0)
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return 0;
    return number;
}

static int wake(int descriptor, uint64_t number)
{
    struct name name = name_of(number);
    ssize_t sent = sendto(descriptor, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&name.address, name.size);
    return sent == 1 || errno == EAGAIN ? 0 : -errno; /* a full queue: it is about to look */
}

/* ---- this process's thread ---- */

/* Under the process's lock. */
static struct {
    struct fs_descriptor socket;
    uint64_t number;     /* of its name; 0: nobody answers */
    uint32_t generation; /* of the process that this is of */
    int runs;
    pthread_t thread;
} own = {.socket = {.number = -1}};
static _Atomic int resting;
static _Atomic pid_t kernels_number; /* of the thread */

/* Bytes lie in the ring, and the reader asks for a token all the same: somebody hears of them by the kernel alone. */
static int is_token_missing(const struct fs_end *end)
{
    return (atomic_load(&fs_words_out(end)->seq) & 1) != 0 && fs_ring_unread(&end->out) > 0 &&
           (atomic_load(&fs_words_out(end)->tokens) & FS_TOKEN_WANTED) != 0;
}

static void answer(struct fs_connection *connection, struct fs_record *record, struct fs_end *end, int descriptor)
{
    if (!fs_table_is(connection, descriptor, record) || fs_record_state(record) != FS_ATTACHED) return;
    fs_switch_mend(record, end, descriptor);
    if (fs_switch_is_asked(end)) fs_switch_answer(connection, end, descriptor);
    else if (atomic_load(&record->out_ring) && is_token_missing(end)) fs_tokens_ring(connection, end, descriptor);
}

/* A connection that has left meanwhile, or is another one by now, is another one's matter.  1: its sender is at work. */
static int answer_at(int descriptor)
{
    struct fs_connection *connection = fs_table_find(descriptor);
    if (connection == NULL || !fs_connection_enter(connection, descriptor)) return 0;
    struct fs_record *record = connection->record;
    struct fs_end *end = connection->end;
    int asked =
        end != NULL && fs_record_state(record) == FS_ATTACHED && (fs_switch_is_asked(end) || is_token_missing(end));
    int locked = asked && fs_lock(&record->sender, LOCK_PATIENCE_NS) == 0;
    if (locked) {
        answer(connection, record, end, descriptor);
        fs_unlock(&record->sender);
    }
    fs_connection_exit(connection);
    return asked && !locked;
}

/* 1: some are to be looked at again. */
static int answer_all(void)
{
    int busy = 0;
    for (int i = 0; (i = fs_table_next(i)) >= 0; i++) busy |= answer_at(i);
    return busy;
}

/* A datagram is there; 0: it is time to look again. */
static int await(int descriptor)
{
    struct pollfd one = {descriptor, POLLIN, 0};
    return poll(&one, 1, AGAIN_MS) != 0;
}

static int own_socket(void)
{
    fs_hold_process();
    int descriptor = fs_descriptor_number(&own.socket);
    fs_release_process();
    return descriptor;
}

/* Whoever asks does so before he tells: what is told is taken first, and then all are looked at. */
static void *serve(void *unused)
{
    (void)unused;
    atomic_store(&kernels_number, (pid_t)syscall(SYS_gettid));
    int busy = 0;
    for (int descriptor; !atomic_load(&resting) && (descriptor = own_socket()) >= 0;) {
        char drop;
        if ((!busy || await(descriptor)) && recv(descriptor, &drop, 1, 0) < 0 && errno != EINTR) break;
        busy = !atomic_load(&resting) && answer_all();
    }
    return NULL;
}

/* With the process's lock. */
static void start(void)
{
    atomic_store(&resting, 0);
    atomic_store(&kernels_number, 0);
    own.runs = fs_start_thread(&own.thread, serve, NULL) == 0;
}

static int bind_socket(uint64_t number)
{
    struct name name = name_of(number);
    int made = number == 0 ? -1 : socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && bind(made, (struct sockaddr *)&name.address, name.size) != 0) {
        close(made);
        made = -1;
    }
    return made;
}

/* With the process's lock. */
static void stop_listening(void)
{
    int descriptor = fs_descriptor_take(&own.socket);
    if (descriptor >= 0) close(descriptor);
    own.number = 0;
}

/* Of this process; 0: there is nobody. */
static uint64_t number_of_process(void)
{
    fs_hold_process();
    if (own.generation != fs_generation()) {
        own.generation = fs_generation();
        own.runs = 0;
        own.number = make_number();
        if (fs_descriptor_keep(&own.socket, bind_socket(own.number)) >= 0) start();
        if (!own.runs) stop_listening();
    }
    uint64_t number = own.number;
    fs_release_process();
    return number;
}

void fs_answering_rest(void)
{
    fs_hold_process();
    int runs = own.runs && own.generation == fs_generation();
    pthread_t thread = own.thread;
    if (runs) {
        own.runs = 0;
        atomic_store(&resting, 1);
        int descriptor = fs_descriptor_number(&own.socket);
        /* where the program has closed it nobody can wake the thread any more: it stays */
        if (descriptor < 0 || wake(descriptor, own.number) != 0) runs = 0;
    }
    fs_release_process();
    if (!runs) return;
    while (atomic_load(&kernels_number) == 0) sched_yield();
    fs_join_thread(thread, atomic_load(&kernels_number));
}

void fs_answering_go_on(void)
{
    fs_hold_process();
    if (own.generation == fs_generation() && own.number != 0 && !own.runs) {
        int descriptor = fs_descriptor_number(&own.socket);
        start();
        if (descriptor >= 0) wake(descriptor, own.number); /* what told the thread to rest may have been a wish's */
    }
    fs_release_process();
}

/* ---- a direction's ---- */

/* The place of one that is gone, or of anyone: whoever is not named there sends on, and names itself again. */
static void name_in(struct fs_switch_words *words, uint64_t number)
{
    for (int i = 0; i < FS_ANSWERERS; i++) {
        uint64_t none = 0;
        if (atomic_load(&words->answerers[i]) == number) return;
        if (atomic_compare_exchange_strong(&words->answerers[i], &none, number)) return;
    }
    atomic_store(&words->answerers[number % FS_ANSWERERS], number);
}

void fs_answering_begin(struct fs_connection *connection, struct fs_end *end)
{
    uint64_t number = number_of_process();
    if (number != 0) name_in(fs_words_out(end), number);
    atomic_store(&connection->answers_as, fs_generation());
}

int fs_answering_wake(struct fs_end *end)
{
    struct fs_switch_words *words = fs_words_in(end);
    int woken = 0, descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) return 0;
    for (int i = 0; i < FS_ANSWERERS; i++) {
        uint64_t number = atomic_load(&words->answerers[i]);
        if (number == 0) continue;
        if (wake(descriptor, number) == 0) woken++;
        else atomic_compare_exchange_strong(&words->answerers[i], &number, 0); /* its process has ended */
    }
    close(descriptor);
    return woken;
}
