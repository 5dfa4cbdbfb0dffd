# What core/registered offers.
from libc.stdint cimport uint32_t, uint64_t

cdef extern from "registered/registered.h" nogil:
    enum: FS_LEDGER_SLOTS, FS_PARCEL_BYTES, FS_MEMO_BYTES
    enum: FS_LOAN_FREE, FS_LOAN_SENT, FS_LOAN_TAKEN, FS_LOAN_RETURNED, FS_LOAN_SPENT
    enum: FS_PARCEL_COPY, FS_PARCEL_HAND, FS_PARCEL_LEND
    enum: FS_MEMO_HELLO, FS_MEMO_MEMORY, FS_MEMO_FORGET

    struct fs_ledger:
        pass

    struct fs_parcel:
        uint32_t kind
        uint64_t length, offset
        uint64_t importer, link
        uint32_t number, slot
        uint64_t serial

    struct fs_memo:
        uint32_t kind, number
        uint64_t link, size

    int fs_memory_make(size_t size)
    int fs_memory_check(int memory, uint64_t expected)
    void *fs_memory_map(int memory, size_t size, int *error)
    void fs_memory_unmap(void *start, size_t size)
    int fs_memory_fill(int memory, void *start, size_t size)

    size_t fs_ledger_bytes()
    void fs_ledger_send(fs_ledger *ledger, uint32_t slot, uint64_t serial, uint32_t connection)
    int fs_ledger_cancel(fs_ledger *ledger, uint32_t slot, uint64_t serial)
    int fs_ledger_state(const fs_ledger *ledger, uint32_t slot, uint64_t serial)
    uint32_t fs_ledger_news(const fs_ledger *ledger)
    int fs_ledger_wait(fs_ledger *ledger, uint32_t seen, uint64_t nanoseconds)
    int fs_ledger_take(fs_ledger *ledger, uint32_t slot, uint64_t serial)
    int fs_ledger_return(fs_ledger *ledger, uint32_t slot, uint64_t serial, int spent)
    uint32_t fs_ledger_decline(fs_ledger *ledger, uint32_t connection)

    void fs_parcel_put(unsigned char *bytes, const fs_parcel *parcel)
    const char *fs_parcel_take(const unsigned char *bytes, fs_parcel *parcel)
    int fs_region_is_within(uint64_t size, uint64_t offset, uint64_t length)
    void fs_memo_put(unsigned char *bytes, const fs_memo *memo)
    const char *fs_memo_take(const unsigned char *bytes, size_t length, fs_memo *memo)
