/* Whatever the other end writes into the shared memory and onto TCP, and whenever: calls end, and stay in their bounds. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const _Atomic int never_leaving;

/* The words of all that may lie there, and the numbers that come near to what is right. */
static void lie(unsigned char *memory, size_t bytes, uint64_t where, uint64_t what)
{
    size_t place = where % (bytes / 4) * 4;
    uint32_t low = (uint32_t)what;
    memcpy(memory + place, &low, sizeof low);
    if (what >> 32 != 0 && place + 8 <= bytes) memcpy(memory + place, &what, sizeof what);
}

static void nudge(unsigned char *memory, size_t bytes, uint64_t where, int by)
{
    uint32_t value;
    size_t place = where % (bytes / 4) * 4;
    memcpy(&value, memory + place, sizeof value);
    value += (uint32_t)by;
    memcpy(memory + place, &value, sizeof value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    static unsigned char block[65536];
    struct pair pair = pair_make(4096);
    int error = 0, offers = size > 0 && data[0] & 1, side = offers ? 1 : 0, released = 0;
    pair_enter(&pair, side);
    struct fs_segment *ours = fs_segment_map(pair.memory[0], &error), *theirs = fs_segment_map(pair.memory[0], &error);
    unsigned char *memory = (unsigned char *)theirs->header;
    const size_t bytes = sizeof *theirs->header;
    int fd = pair.fd[side], other = pair.fd[!side];
    struct fs_connection *c = pair.end[side];
    if (offers) CHECK_EQUAL(fs_attach_offer(c, fd, ours, &pair.limits), 0);
    else CHECK_EQUAL(fs_attach_join(c, fd, ours, &pair.limits), 0);
    if (offers) atomic_store(&theirs->header->joined, FS_JOINED);
    if (size > 0 && data[0] & 2) fs_connection_watch(c, fd);
    fuzz_take(&input, 1);
    for (int steps = 0; input.left > 0 && steps < 200; steps++) {
        uint64_t op = fuzz_take(&input, 1), length = 1;
        switch (op % 16) {
        case 0: lie(memory, bytes, fuzz_take(&input, 2), fuzz_take(&input, 8)); break;
        case 1: lie(memory, bytes, fuzz_take(&input, 2), fuzz_take(&input, 1)); break;
        case 2: nudge(memory, bytes, fuzz_take(&input, 2), (int)fuzz_take(&input, 1) - 2); break;
        case 3: /* a word of the changes of carrier, by a little */
            nudge((unsigned char *)theirs->header->words, sizeof theirs->header->words, fuzz_take(&input, 1),
                  (int)(op / 16) - 4);
            break;
        case 4: nudge((unsigned char *)&theirs->header->direction[!side].head, 8, 0, (int)fuzz_take(&input, 1)); break;
        case 5: nudge((unsigned char *)&theirs->header->direction[side].tail, 8, 0, (int)fuzz_take(&input, 1)); break;
        case 6: send(other, block, op / 16 + 1, MSG_DONTWAIT | MSG_NOSIGNAL); break;
        case 7: recv(other, block, sizeof block, MSG_DONTWAIT); break;
        case 8:
        case 9:
            length = fuzz_take(&input, 2);
            send_now(&pair, side, block, length, op & 64 ? FS_PATIENT : 0);
            break;
        case 10:
        case 11:
            length = fuzz_take(&input, 2);
            receive_now(&pair, side, block, length, op & 64 ? FS_PEEK : op & 128 ? FS_WILL_WAIT : 0);
            break;
        case 12: fs_carry_settle(c, fd, op & 64 ? FS_AT_ONCE : 0); break;
        case 13:
            fs_carry_wait_briefly(c, fd, op & 64 ? FS_READABLE : FS_WRITABLE, fs_now_ns(), &never_leaving);
            fs_carry_wait_long(c, fd, op & 64 ? FS_READABLE : FS_WRITABLE, fs_now_ns() + 1000, &never_leaving);
            break;
        case 14: fs_carry_unread(c, fd); break;
        default:
            if (op / 16 == 0 && !released++) fs_leave_release(c, fd);
            else if (op / 16 == 1) fs_leave_shutdown(c, fd, SHUT_WR);
            else if (op / 16 == 2) fs_leave_shutdown(c, fd, SHUT_RD);
            else if (op / 16 == 3) shutdown(other, SHUT_WR);
            else fs_attach_progress(c, fd);
        }
    }
    pair_close(&pair, side);
    pair_forget(&pair, !side);
    fs_segment_drop(ours);
    fs_segment_drop(theirs);
    pair_done(&pair);
    return 0;
}
