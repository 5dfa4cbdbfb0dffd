/* Buffers that go from one process to another without a copy: their memory, the book of who has them, and the bytes that
 * say so.
 *
 * A peer can write everything here but this process's own copies: sizes are asked of the kernel, numbers are checked
 * against limits, and of a word in the book nothing is believed but that it equals what was expected.
 */
#ifndef FASTSOCK_REGISTERED_H
#define FASTSOCK_REGISTERED_H

#include <stddef.h>
#include <stdint.h>

/* ---- memory.c: sealed memory ---- */

int fs_memory_make(size_t size); /* a descriptor of zeroes that neither shrink nor grow, or -errno */
/* The size of memory that a peer passed: 0, or -EPROTO: it could shrink under us, or has another size than `expected`. */
int fs_memory_check(int memory, uint64_t expected);
/* NULL with -errno.  Large memory lies so that large pages fit.  Pages that exist already are mapped at once. */
void *fs_memory_map(int memory, size_t size, int *error);
void fs_memory_unmap(void *start, size_t size);
/* Gives all of it pages now, large ones where the kernel has them.  0 or -errno. */
int fs_memory_fill(int memory, void *start, size_t size);

/* ---- ledger.c: who has what, a word for each loan ---- */

#define FS_LEDGER_SLOTS 1024u

/* The owner moves a slot from FREE to SENT, and back to FREE: while it is SENT that takes the loan back.  The other end
 * moves it from SENT to TAKEN, and from either to RETURNED or SPENT.  SPENT: somebody may have that memory for ever. */
enum fs_loan { FS_LOAN_FREE = 0, FS_LOAN_SENT = 1, FS_LOAN_TAKEN = 2, FS_LOAN_RETURNED = 3, FS_LOAN_SPENT = 4 };

struct fs_ledger; /* as it lies in the memory that both processes map */

size_t fs_ledger_bytes(void);
/* The owner's. */
void fs_ledger_send(struct fs_ledger *ledger, uint32_t slot, uint64_t serial, uint32_t connection);
int fs_ledger_cancel(struct fs_ledger *ledger, uint32_t slot, uint64_t serial); /* 1: nobody took it, nobody will */
/* A state, or -1 where the word is none of those that this loan can have. */
int fs_ledger_state(const struct fs_ledger *ledger, uint32_t slot, uint64_t serial);
uint32_t fs_ledger_news(const struct fs_ledger *ledger);
/* Until fs_ledger_news() is not `seen` any more, or the time is over.  0, or -EINTR. */
int fs_ledger_wait(struct fs_ledger *ledger, uint32_t seen, uint64_t nanoseconds);
/* The other end's.  1, or 0 where the loan is not in such a state. */
int fs_ledger_take(struct fs_ledger *ledger, uint32_t slot, uint64_t serial);
int fs_ledger_return(struct fs_ledger *ledger, uint32_t slot, uint64_t serial, int spent);
/* Gives back all that was sent over that connection and that nobody took; how many. */
uint32_t fs_ledger_decline(struct fs_ledger *ledger, uint32_t connection);

/* ---- words.c: what is said ---- */

#define FS_PARCEL_BYTES 56u
#define FS_MEMO_BYTES 32u

enum fs_parcel_kind { FS_PARCEL_COPY = 1, FS_PARCEL_HAND = 2, FS_PARCEL_LEND = 3 };

/* In the stream: a buffer comes.  COPY: its bytes follow. */
struct fs_parcel {
    uint32_t kind;
    uint64_t length, offset; /* of the region */
    uint64_t importer, link; /* to whom, from whom */
    uint32_t number, slot;   /* of the memory, of the loan */
    uint64_t serial;
};

void fs_parcel_put(unsigned char *bytes, const struct fs_parcel *parcel);
/* NULL, or what is wrong with it. */
const char *fs_parcel_take(const unsigned char *bytes, struct fs_parcel *parcel);
int fs_region_is_within(uint64_t size, uint64_t offset, uint64_t length);

enum fs_memo_kind { FS_MEMO_HELLO = 1, FS_MEMO_MEMORY = 2, FS_MEMO_FORGET = 3 };

/* Beside the stream, from an owner's process to another one.  HELLO and MEMORY come with a descriptor. */
struct fs_memo {
    uint32_t kind, number; /* of the memory */
    uint64_t link, size;
};

void fs_memo_put(unsigned char *bytes, const struct fs_memo *memo);
const char *fs_memo_take(const unsigned char *bytes, size_t length, struct fs_memo *memo);

#endif
