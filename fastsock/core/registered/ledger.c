#include <errno.h>
#include <stdatomic.h>

#include "registered.h"
#include "system.h"

#define STATE_BITS 3
#define STATE ((1u << STATE_BITS) - 1)

struct loan {
    _Atomic uint64_t word; /* the serial, above the state */
    _Atomic uint32_t connection;
};

struct fs_ledger {
    _Alignas(FS_LINE) _Atomic uint32_t news; /* futex word: moved by each return */
    _Atomic uint32_t sleepers;
    _Alignas(FS_LINE) struct loan loans[FS_LEDGER_SLOTS];
};

static uint64_t word_of(uint64_t serial, enum fs_loan state) { return serial << STATE_BITS | state; }

static int move(struct loan *loan, uint64_t serial, enum fs_loan from, enum fs_loan to)
{
    uint64_t expected = word_of(serial, from);
    return atomic_compare_exchange_strong(&loan->word, &expected, word_of(serial, to));
}

static void wake(struct fs_ledger *ledger)
{
    atomic_fetch_add(&ledger->news, 1);
    if (atomic_load(&ledger->sleepers) != 0) fs_futex_wake_all(&ledger->news);
}

size_t fs_ledger_bytes(void) { return sizeof(struct fs_ledger); }

void fs_ledger_send(struct fs_ledger *ledger, uint32_t slot, uint64_t serial, uint32_t connection)
{
    struct loan *loan = &ledger->loans[slot];
    atomic_store(&loan->connection, connection);
    atomic_store(&loan->word, word_of(serial, FS_LOAN_SENT));
}

int fs_ledger_cancel(struct fs_ledger *ledger, uint32_t slot, uint64_t serial)
{
    return move(&ledger->loans[slot], serial, FS_LOAN_SENT, FS_LOAN_FREE);
}

int fs_ledger_state(const struct fs_ledger *ledger, uint32_t slot, uint64_t serial)
{
    uint64_t word = atomic_load(&ledger->loans[slot].word);
    unsigned state = (unsigned)word & STATE;
    return word >> STATE_BITS == serial && state <= FS_LOAN_SPENT ? (int)state : -1;
}

uint32_t fs_ledger_news(const struct fs_ledger *ledger) { return atomic_load(&ledger->news); }

int fs_ledger_wait(struct fs_ledger *ledger, uint32_t seen, uint64_t nanoseconds)
{
    atomic_fetch_add(&ledger->sleepers, 1);
    int result = fs_futex_wait(&ledger->news, seen, nanoseconds) == 0 || errno != EINTR ? 0 : -EINTR;
    atomic_fetch_sub(&ledger->sleepers, 1);
    return result;
}

int fs_ledger_take(struct fs_ledger *ledger, uint32_t slot, uint64_t serial)
{
    return move(&ledger->loans[slot], serial, FS_LOAN_SENT, FS_LOAN_TAKEN);
}

int fs_ledger_return(struct fs_ledger *ledger, uint32_t slot, uint64_t serial, int spent)
{
    if (!move(&ledger->loans[slot], serial, FS_LOAN_TAKEN, spent ? FS_LOAN_SPENT : FS_LOAN_RETURNED)) return 0;
    wake(ledger);
    return 1;
}

uint32_t fs_ledger_decline(struct fs_ledger *ledger, uint32_t connection)
{
    uint32_t declined = 0;
    for (uint32_t slot = 0; slot < FS_LEDGER_SLOTS; slot++) {
        struct loan *loan = &ledger->loans[slot];
        uint64_t word = atomic_load(&loan->word);
        if (atomic_load(&loan->connection) == connection && (word & STATE) == FS_LOAN_SENT)
            declined += (uint32_t)move(loan, word >> STATE_BITS, FS_LOAN_SENT, FS_LOAN_RETURNED);
    }
    if (declined) wake(ledger);
    return declined;
}
