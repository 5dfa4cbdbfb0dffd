/* Buffers between processes: memory that cannot shrink, the book of loans, the bytes that are said. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "registered/registered.h"

TEST(registered_memory_has_its_size_for_ever, 0)
{
    int error = 0, memory = fs_memory_make(5000);
    CHECK(memory >= 0);
    CHECK(ftruncate(memory, 100) < 0 && errno == EPERM);
    CHECK(ftruncate(memory, 100000) < 0 && errno == EPERM);
    CHECK_EQUAL(fs_memory_check(memory, 5000), 0);
    CHECK_EQUAL(fs_memory_check(memory, 4999), -EPROTO);
    CHECK_EQUAL(fs_memory_check(memory, UINT64_MAX), -EPROTO);
    unsigned char *start = fs_memory_map(memory, 5000, &error);
    CHECK(start != NULL);
    CHECK_EQUAL(fs_memory_fill(memory, start, 5000), 0);
    start[4999] = 1;
    fs_memory_unmap(start, 5000);
    close(memory);
}

TEST(registered_memory_of_peers_is_sealed, 0)
{
    int memory = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipe_[2];
    CHECK(ftruncate(memory, 8192) == 0);
    CHECK_EQUAL(fs_memory_check(memory, 8192), -EPROTO);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_GROW) == 0);
    CHECK_EQUAL(fs_memory_check(memory, 8192), -EPROTO);
    CHECK(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    CHECK_EQUAL(fs_memory_check(memory, 8192), 0);
    close(memory);
    CHECK(pipe(pipe_) == 0);
    CHECK_EQUAL(fs_memory_check(pipe_[0], 8192), -EPROTO);
    CHECK_EQUAL(fs_memory_check(-1, 8192), -EPROTO);
}

TEST(registered_large_memory_lies_for_large_pages, 0)
{
    const size_t size = (5u << 20) + 123;
    int error = 0, memory = fs_memory_make(size);
    unsigned char *first = fs_memory_map(memory, size, &error), *second = fs_memory_map(memory, size, &error);
    CHECK(first != NULL && second != NULL);
    CHECK_EQUAL((uintptr_t)first % (2u << 20), 0);
    CHECK_EQUAL(fs_memory_fill(memory, first, size), 0);
    first[0] = first[size - 1] = 7;
    CHECK(second[0] == 7 && second[size - 1] == 7);
    fs_memory_unmap(first, size);
    fs_memory_unmap(second, size);
    close(memory);
}

TEST(registered_sizes_of_memory_that_there_are_not, 0)
{
    int error = 0;
    CHECK_EQUAL(fs_memory_make(0), -EINVAL);
    CHECK_EQUAL(fs_memory_make(SIZE_MAX), -EINVAL);
    int memory = fs_memory_make((size_t)1 << 50);
    if (memory >= 0) CHECK(fs_memory_map(memory, (size_t)1 << 50, &error) == NULL && error == -ENOMEM);
    CHECK(fs_memory_map(memory, SIZE_MAX, &error) == NULL && error == -ENOMEM);
}

static struct fs_ledger *new_ledger(void)
{
    struct fs_ledger *ledger = aligned_alloc(128, fs_ledger_bytes());
    memset(ledger, 0, fs_ledger_bytes());
    return ledger;
}

TEST(registered_a_loan_goes_its_way, 0)
{
    struct fs_ledger *ledger = new_ledger();
    CHECK(!fs_ledger_take(ledger, 3, 1)); /* never sent */
    fs_ledger_send(ledger, 3, 1, 9);
    CHECK_EQUAL(fs_ledger_state(ledger, 3, 1), FS_LOAN_SENT);
    CHECK_EQUAL(fs_ledger_state(ledger, 3, 2), -1);
    CHECK(!fs_ledger_return(ledger, 3, 1, 0)); /* not taken */
    CHECK(!fs_ledger_take(ledger, 3, 2) && fs_ledger_take(ledger, 3, 1) && !fs_ledger_take(ledger, 3, 1));
    CHECK(!fs_ledger_cancel(ledger, 3, 1));
    uint32_t news = fs_ledger_news(ledger);
    CHECK(fs_ledger_return(ledger, 3, 1, 0) && !fs_ledger_return(ledger, 3, 1, 1));
    CHECK(fs_ledger_news(ledger) != news);
    CHECK_EQUAL(fs_ledger_state(ledger, 3, 1), FS_LOAN_RETURNED);
    fs_ledger_send(ledger, 3, 2, 9);
    CHECK(fs_ledger_cancel(ledger, 3, 2) && !fs_ledger_take(ledger, 3, 2));
    CHECK_EQUAL(fs_ledger_state(ledger, 3, 2), FS_LOAN_FREE);
    fs_ledger_send(ledger, 3, 3, 9);
    CHECK(fs_ledger_take(ledger, 3, 3) && fs_ledger_return(ledger, 3, 3, 1));
    CHECK_EQUAL(fs_ledger_state(ledger, 3, 3), FS_LOAN_SPENT);
    free(ledger);
}

TEST(registered_a_closed_connection_declines_what_nobody_took, 0)
{
    struct fs_ledger *ledger = new_ledger();
    for (uint32_t slot = 0; slot < FS_LEDGER_SLOTS; slot++) fs_ledger_send(ledger, slot, slot + 1, slot % 2);
    CHECK(fs_ledger_take(ledger, 0, 1));
    CHECK_EQUAL(fs_ledger_decline(ledger, 0), FS_LEDGER_SLOTS / 2 - 1);
    CHECK_EQUAL(fs_ledger_decline(ledger, 0), 0);
    CHECK_EQUAL(fs_ledger_state(ledger, 0, 1), FS_LOAN_TAKEN);
    CHECK_EQUAL(fs_ledger_state(ledger, 1, 2), FS_LOAN_SENT);
    CHECK_EQUAL(fs_ledger_state(ledger, 2, 3), FS_LOAN_RETURNED);
    free(ledger);
}

enum { LOANS = 20000 };

static struct fs_ledger *contested;
static _Atomic uint64_t newest;
static _Atomic int is_over;

static void *borrower(void *unused)
{
    int taken = 0;
    (void)unused;
    while (!atomic_load(&is_over)) {
        uint64_t serial = atomic_load(&newest);
        if (!fs_ledger_take(contested, 0, serial)) continue;
        CHECK(fs_ledger_return(contested, 0, serial, 0));
        taken++;
    }
    return (void *)(intptr_t)taken;
}

/* Whoever is first has it: the owner that takes back, or the borrower that takes. */
TEST(registered_exactly_one_has_it, 0)
{
    pthread_t thread;
    int returned = 0;
    void *taken;
    contested = new_ledger();
    CHECK(pthread_create(&thread, NULL, borrower, NULL) == 0);
    for (uint64_t serial = 1; serial <= LOANS; serial++) {
        fs_ledger_send(contested, 0, serial, 0);
        atomic_store(&newest, serial);
        if (serial % 2 && fs_ledger_cancel(contested, 0, serial)) continue;
        for (;;) {
            uint32_t news = fs_ledger_news(contested);
            if (fs_ledger_state(contested, 0, serial) == FS_LOAN_RETURNED) break;
            fs_ledger_wait(contested, news, 1000000);
        }
        returned++;
    }
    atomic_store(&is_over, 1);
    CHECK(pthread_join(thread, &taken) == 0);
    CHECK_EQUAL((intptr_t)taken, returned);
    free(contested);
}

TEST(registered_words_come_back_as_they_went, 0)
{
    unsigned char bytes[FS_PARCEL_BYTES];
    struct fs_parcel taken,
        sent = {FS_PARCEL_LEND, 1, INT64_MAX - 1, UINT64_MAX, 5, UINT32_MAX, FS_LEDGER_SLOTS - 1, 7};
    fs_parcel_put(bytes, &sent);
    CHECK(fs_parcel_take(bytes, &taken) == NULL);
    CHECK(memcmp(&taken, &sent, sizeof sent) == 0 || (taken.kind == sent.kind && taken.serial == sent.serial));
    CHECK(taken.length == 1 && taken.offset == INT64_MAX - 1 && taken.importer == UINT64_MAX && taken.link == 5);
    CHECK(taken.number == UINT32_MAX && taken.slot == FS_LEDGER_SLOTS - 1 && taken.serial == 7);
    struct fs_memo memo, said = {FS_MEMO_FORGET, 3, UINT64_MAX, INT64_MAX};
    fs_memo_put(bytes, &said);
    CHECK(fs_memo_take(bytes, FS_MEMO_BYTES, &memo) == NULL);
    CHECK(memo.kind == said.kind && memo.number == 3 && memo.link == UINT64_MAX && memo.size == INT64_MAX);
    CHECK(fs_memo_take(bytes, FS_MEMO_BYTES - 1, &memo) != NULL);
    CHECK(fs_memo_take(bytes, 0, &memo) != NULL);
}

TEST(registered_regions_do_not_wrap, 0)
{
    CHECK(fs_region_is_within(10, 0, 10) && fs_region_is_within(10, 10, 0));
    CHECK(!fs_region_is_within(10, 11, 0) && !fs_region_is_within(10, 1, 10));
    CHECK(!fs_region_is_within(10, UINT64_MAX, 2) && !fs_region_is_within(10, 2, UINT64_MAX));
}
