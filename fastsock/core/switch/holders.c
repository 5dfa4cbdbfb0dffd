#define _GNU_SOURCE
#include "holders.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "system.h"

#define PLACES 46
#define CROWD PLACES /* of all that found no place: nobody knows when the last of them has ended */
#define SET_SHIFT (PLACES + 1)
#define BITS ((1ull << SET_SHIFT) - 1)
#define AGE_NS 100000000ull

/* `state` of a place: how often it was given away, above one of these.  COMING: a child that is about to be. */
enum { FREE, COMING, HERE, GONE, STATES };

struct place {
    _Atomic uint64_t state;
    _Atomic uint64_t process;  /* number of its PID namespace, then its own */
    _Atomic uint64_t began;    /* in the kernel's ticks since the boot: at most so much */
    _Atomic uint64_t stack;    /* where its stack begins: another one after exec; 0: unknown */
    _Atomic uint64_t asked_at; /* when the kernel was asked of it last */
};

struct fs_family {
    struct place places[PLACES];
};

/* Of this process: written under the lock, which a fork holds. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fs_family *_Atomic own;
static _Atomic int own_place = CROWD;
static int child_place = CROWD;
static uint64_t own_stack; /* 0: not known yet */

/* ---- what the kernel tells of a process ---- */

struct seen {
    char state;
    long threads;
    unsigned long long began, stack;
};

static int ask(const char *path, struct seen *seen)
{
    char text[1024];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    ssize_t got = read(file, text, sizeof text - 1);
    int error = got <= 0 ? -ESRCH : 0;
    close(file);
    if (error != 0) return error;
    text[got] = 0;
    const char *after = strrchr(text, ')'); /* the program's name may hold anything */
    int read_all =
        after != NULL && sscanf(after + 1,
                                " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s "
                                "%llu %*s %*s %*s %*s %*s %llu",
                                &seen->state, &seen->threads, &seen->began, &seen->stack) == 4;
    return read_all ? 0 : -EPROTO;
}

static uint64_t ticks_now(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) return UINT64_MAX;
    uint64_t a_second = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)now.tv_sec * a_second + (uint64_t)now.tv_nsec * a_second / 1000000000ull;
}

/* A fresh child is not known to system.h yet. */
static uint64_t own_namespace(void)
{
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? (uint32_t)status.st_ino : 0;
}

/* Of another namespace nothing can be asked, and a process that cannot be read is believed to be there. */
static int has_ended(const struct place *place)
{
    struct seen seen;
    char path[48];
    uint64_t process = atomic_load(&place->process), stack = atomic_load(&place->stack);
    pid_t number = (pid_t)(uint32_t)process;
    if (process >> 32 == 0 || process >> 32 != fs_thread_identity() >> 32) return 0;
    if (kill(number, 0) != 0 && errno == ESRCH) return 1;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)number);
    if (ask(path, &seen) != 0) return 0;
    if (seen.began > atomic_load(&place->began) + 1) return 1;                   /* another one has its number */
    if ((seen.state == 'Z' || seen.state == 'X') && seen.threads <= 1) return 1; /* its parent has not heard yet */
    return stack != 0 && seen.stack != 0 && seen.stack != stack;                 /* it has become another program */
}

/* ---- places ---- */

static uint64_t state_of(const struct place *place) { return atomic_load(&place->state) % STATES; }

/* Whether its process is not there any more, as far as the kernel is asked. */
static int is_gone(struct place *place, enum fs_asking asking)
{
    uint64_t state = atomic_load(&place->state), now = fs_now_ns();
    if (state % STATES == GONE) return 1;
    if (state % STATES != HERE) return 0;
    if (asking == FS_ASK_LATER && now - atomic_load(&place->asked_at) < AGE_NS) return 0;
    atomic_store(&place->asked_at, now);
    if (!has_ended(place)) return 0;
    atomic_compare_exchange_strong(&place->state, &state, state - HERE + GONE);
    return state_of(place) == GONE;
}

/* Bits of its last owner may be left somewhere: the next one counts there, too, until it ends. */
static int take_free_place(struct fs_family *family)
{
    for (int i = 0; i < PLACES; i++) {
        uint64_t state = atomic_load(&family->places[i].state), kind = state % STATES;
        if (kind != FREE && kind != GONE) continue;
        if (atomic_compare_exchange_strong(&family->places[i].state, &state, state - kind + STATES + COMING)) return i;
    }
    return CROWD;
}

static int take_place(struct fs_family *family)
{
    int place = take_free_place(family);
    if (place != CROWD) return place;
    for (int i = 0; i < PLACES; i++)
        if (i != own_place) is_gone(&family->places[i], FS_ASK_LATER);
    return take_free_place(family);
}

/* By the process itself. */
static void move_in(struct place *place)
{
    uint64_t state = atomic_load(&place->state);
    atomic_store(&place->process, own_namespace() << 32 | (uint32_t)getpid());
    atomic_store(&place->began, ticks_now());
    atomic_store(&place->stack, own_stack);
    atomic_store(&place->asked_at, 0);
    atomic_store(&place->state, state - COMING + HERE);
}

static int move_into(struct fs_family *family)
{
    int place = take_place(family);
    if (place == CROWD) return 0;
    move_in(&family->places[place]);
    own = family;
    own_place = place;
    return 1;
}

/* With the lock.  Where the family that this process was born into is full, a new one begins with it. */
static struct fs_family *own_family(void)
{
    if (own != NULL && (own_place != CROWD || move_into(own))) return own;
    void *memory = mmap(NULL, sizeof(struct fs_family), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    move_into(memory);
    return own;
}

/* ---- what is held ---- */

static uint64_t bit_of(int place) { return 1ull << place; }
static uint64_t own_bit(const struct fs_holders *holders) { return bit_of(holders->family == own ? own_place : CROWD); }

/* The count moves: whoever is about to take the bit away for the place's last owner fails. */
static void set_bit(struct fs_holders *holders, uint64_t bit)
{
    uint64_t word = atomic_load(&holders->word);
    while (!atomic_compare_exchange_weak(&holders->word, &word, (word | bit) + (1ull << SET_SHIFT))) {}
}

int fs_holders_begin(struct fs_holders *holders)
{
    if (own == NULL || own_place == CROWD) {
        pthread_mutex_lock(&lock);
        struct fs_family *family = own_family();
        pthread_mutex_unlock(&lock);
        if (family == NULL) return -ENOMEM;
    }
    holders->family = own;
    atomic_store_explicit(&holders->word, bit_of(own_place), memory_order_relaxed);
    return 0;
}

/* Takes away the bits of processes that are gone.  The bits that are left; `last`: this took the last one. */
static uint64_t look_round(struct fs_holders *holders, enum fs_asking asking, int *last)
{
    uint64_t mine = own_bit(holders), word = atomic_load(&holders->word);
    *last = 0;
    for (int i = 0; i < PLACES; i++) {
        if (!(word & bit_of(i)) || bit_of(i) == mine) continue;
        /* in this order: a place that was given away again behind the look at the word has moved the word's count */
        while (word & bit_of(i) && is_gone(&holders->family->places[i], asking)) {
            uint64_t without = word & ~bit_of(i);
            if (!atomic_compare_exchange_strong(&holders->word, &word, without)) continue;
            word = without;
            *last = (word & BITS) == 0;
        }
    }
    return word & BITS;
}

int fs_holders_is_alone(struct fs_holders *holders)
{
    int last;
    uint64_t mine = own_bit(holders);
    if (mine == bit_of(CROWD)) return 0;
    return (atomic_load(&holders->word) & BITS) == mine || look_round(holders, FS_ASK_ALL, &last) == mine;
}

int fs_holders_leave(struct fs_holders *holders, enum fs_asking asking)
{
    uint64_t mine = own_bit(holders);
    if (mine == bit_of(CROWD)) return 0;
    int last;
    uint64_t before = atomic_fetch_and(&holders->word, ~mine) & BITS;
    if ((before & ~mine) == 0) return (before & mine) != 0;
    look_round(holders, asking, &last);
    return last;
}

/* ---- forks ---- */

void fs_holders_before_fork(int holds)
{
    struct seen seen;
    pthread_mutex_lock(&lock);
    child_place = CROWD;
    if (!holds || own == NULL) return;
    if (own_stack == 0 && ask("/proc/self/stat", &seen) == 0) own_stack = seen.stack;
    if (own_place != CROWD) atomic_store(&own->places[own_place].stack, own_stack);
    child_place = take_place(own);
}

void fs_holders_add_child(struct fs_holders *holders)
{
    set_bit(holders, bit_of(holders->family == own ? child_place : CROWD));
}

void fs_holders_after_fork(int in_child)
{
    if (in_child) {
        own_place = child_place;
        if (own_place != CROWD) move_in(&own->places[own_place]);
    }
    pthread_mutex_unlock(&lock);
}
