/* The bytes are a parcel of the stream, a memo beside it, and what the borrower writes into the ledger. Nothing may
 * crash; what is taken keeps its promises; and the owner believes of a word only what it expects. */
#include <stdlib.h>
#include <string.h>

#include "registered/registered.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fs_parcel parcel;
    struct fs_memo memo;
    unsigned char again[FS_PARCEL_BYTES];
    struct fs_ledger *ledger = aligned_alloc(128, fs_ledger_bytes());
    if (ledger == NULL) return 0;
    memset(ledger, 0, fs_ledger_bytes());
    for (size_t at = 0; length > 0 && at < fs_ledger_bytes(); at += length) {
        size_t part = fs_ledger_bytes() - at < length ? fs_ledger_bytes() - at : length;
        memcpy((unsigned char *)ledger + at, data, part);
    }
    if (length >= FS_PARCEL_BYTES && fs_parcel_take(data, &parcel) == NULL) {
        if (parcel.slot >= FS_LEDGER_SLOTS || parcel.length == 0 || parcel.length > INT64_MAX) abort();
        if (parcel.offset + parcel.length < parcel.offset || parcel.offset + parcel.length > INT64_MAX) abort();
        fs_parcel_put(again, &parcel);
        if (memcmp(again, data, FS_PARCEL_BYTES) != 0) abort();
        int state = fs_ledger_state(ledger, parcel.slot, parcel.serial);
        if (state < -1 || state > FS_LOAN_SPENT) abort();
        if (fs_ledger_take(ledger, parcel.slot, parcel.serial) != (state == FS_LOAN_SENT)) abort();
        if (fs_ledger_return(ledger, parcel.slot, parcel.serial, 0) !=
            (state == FS_LOAN_SENT || state == FS_LOAN_TAKEN))
            abort();
    }
    for (size_t size = 0; size <= length && size <= FS_MEMO_BYTES + 1; size++)
        if (fs_memo_take(data, size, &memo) == NULL && (size != FS_MEMO_BYTES || memo.size > INT64_MAX)) abort();
    if (fs_ledger_decline(ledger, length > 4 ? data[4] : 0) > FS_LEDGER_SLOTS) abort();
    if (fs_ledger_decline(ledger, length > 4 ? data[4] : 0) != 0) abort();
    free(ledger);
    return 0;
}
