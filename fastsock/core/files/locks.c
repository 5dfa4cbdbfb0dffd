#define _GNU_SOURCE
#include "locks.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#define CLAIMS (1ll << 62)    /* here the claims lie; files end before */
#define CLAIMED (256ll << 10) /* bytes at a time */
#define SHORT (8ll << 10)     /* of a longer write the copy costs more than its lock */

enum {
    TURNS = 64,
    OFTEN = 8,      /* writes that follow each other, from which on there is a claim */
    IN_VAIN = -256, /* from here it counts again, where somebody changes parts */
};

/* Of the descriptors whose numbers end alike. */
struct turn {
    pthread_rwlock_t lock;
    _Atomic int64_t last; /* where the last short write began */
    _Atomic int often;    /* how many followed each other */
    int claimant;         /* the descriptor whose claim it is, or -1 */
    int64_t start, end;   /* of the claim */
};

static struct turn turns[TURNS];

__attribute__((constructor)) static void make_turns(void)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_rwlock_init(&turns[i].lock, NULL);
        turns[i].claimant = -1;
    }
}

static struct turn *turn_of(int file) { return &turns[(unsigned)file % TURNS]; }

static int lock_part(int file, int64_t start, int64_t length, int type, int command)
{
    struct flock lock = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    return fcntl(file, command, &lock) == 0 ? 0 : -errno;
}

int fs_file_lock(int file, int64_t start, int64_t length, int kind)
{
    static const int types[] = {F_UNLCK, F_RDLCK, F_WRLCK};
    return lock_part(file, start, length, types[kind], kind == FS_FILE_UNLOCK ? F_OFD_SETLK : F_OFD_SETLKW);
}

/* Not every file system has locks. */
static int take_part(int file, int64_t start, int64_t length)
{
    int result;
    do result = fs_file_lock(file, start, length, FS_FILE_ALONE);
    while (result == -EINTR); /* who has it writes, and waits for nobody */
    return result == 0;
}

/* ---- claims: who has the turn alone makes one, and gives one back ---- */

static int claims_lie_at(int64_t start, int64_t length) { return start < CLAIMS - CLAIMED && length < CLAIMS - start; }

static void give_claim_back(struct turn *turn)
{
    if (turn->claimant >= 0)
        lock_part(turn->claimant, CLAIMS + turn->start, turn->end - turn->start, F_UNLCK, F_OFD_SETLK);
    turn->claimant = -1;
}

static int has_claim(const struct turn *turn, int file, int64_t start, int64_t length)
{
    return turn->claimant == file && start >= turn->start && length <= turn->end - start;
}

static int claim(struct turn *turn, int file, int64_t start)
{
    give_claim_back(turn);
    if (lock_part(file, CLAIMS + start, CLAIMED, F_RDLCK, F_OFD_SETLK) != 0) {
        atomic_store_explicit(&turn->often, IN_VAIN, memory_order_relaxed);
        return 0;
    }
    turn->claimant = file, turn->start = start, turn->end = start + CLAIMED;
    return 1;
}

/* Whether so many short writes went before it that it is worth a claim. */
static int is_worth_a_claim(struct turn *turn, int64_t start, int64_t length)
{
    if (length > SHORT || !claims_lie_at(start, length)) return 0;
    const int64_t last = atomic_exchange_explicit(&turn->last, start, memory_order_relaxed);
    const int follows = start >= last && start - last < CLAIMED / 2;
    const int often = atomic_load_explicit(&turn->often, memory_order_relaxed);
    atomic_store_explicit(&turn->often, follows || often < 0 ? often + (often < OFTEN) : 0, memory_order_relaxed);
    return follows && often >= OFTEN;
}

void fs_file_forget_claims(int file)
{
    struct turn *turn = turn_of(file);
    pthread_rwlock_wrlock(&turn->lock);
    if (turn->claimant == file) give_claim_back(turn);
    atomic_store_explicit(&turn->often, 0, memory_order_relaxed);
    pthread_rwlock_unlock(&turn->lock);
}

/* ---- for one write, or one change ---- */

int fs_file_hold_to_write(int file, int64_t start, int64_t length, int claims)
{
    struct turn *turn = turn_of(file);
    pthread_rwlock_rdlock(&turn->lock);
    if (has_claim(turn, file, start, length)) return FS_FILE_TURN;
    if (claims && is_worth_a_claim(turn, start, length)) {
        pthread_rwlock_unlock(&turn->lock);
        pthread_rwlock_wrlock(&turn->lock);
        if (has_claim(turn, file, start, length) || claim(turn, file, start)) return FS_FILE_TURN;
    }
    if (take_part(file, start, length)) return FS_FILE_TURN | FS_FILE_PART;
    pthread_rwlock_unlock(&turn->lock);
    return 0;
}

int fs_file_hold_to_change(int file, int64_t start, int64_t length, int locked)
{
    struct turn *turn = turn_of(file);
    /* Who has the turn may wait for the part. */
    if (locked && pthread_rwlock_trywrlock(&turn->lock) != 0) return 0;
    if (!locked) pthread_rwlock_wrlock(&turn->lock);
    if (turn->claimant == file) give_claim_back(turn);
    if (!locked && !take_part(file, start, length)) {
        pthread_rwlock_unlock(&turn->lock);
        return 0;
    }
    const int held = FS_FILE_TURN | (locked ? 0 : FS_FILE_PART);
    if (!claims_lie_at(start, length)) return held;
    return lock_part(file, CLAIMS + start, length, F_WRLCK, F_OFD_SETLK) == 0 ? held | FS_FILE_WHOLE : held;
}

void fs_file_let_go(int file, int64_t start, int64_t length, int held)
{
    if (held & FS_FILE_WHOLE) lock_part(file, CLAIMS + start, length, F_UNLCK, F_OFD_SETLK);
    if (held & FS_FILE_PART) fs_file_lock(file, start, length, FS_FILE_UNLOCK);
    if (held & FS_FILE_TURN) pthread_rwlock_unlock(&turn_of(file)->lock);
}
