/* The bytes are a schedule: calls of the victim between lies of the other end.  Nothing may crash, leave the mapping,
 * return more than was asked for, or take longer than its deadline. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "connection.h"
#include "fuzz_input.h"

#define SLACK_NS 2000000000ull
#define MOST_STEPS 200

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const _Atomic int never_leaving;
static unsigned char block[70000];

/* The victim writes where the peer says; here that is this process, and only this block may be written. */
static unsigned char liars[2 * sizeof block];
ssize_t __real_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                                 unsigned long);
ssize_t __wrap_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                                 unsigned long);

ssize_t __wrap_process_vm_writev(pid_t process, const struct iovec *from, unsigned long parts, const struct iovec *to,
                                 unsigned long places, unsigned long flags)
{
    for (unsigned long i = 0; i < places; i++) {
        uint64_t begin = (uint64_t)(uintptr_t)to[i].iov_base, first = (uint64_t)(uintptr_t)liars;
        if (begin >= first && begin - first <= sizeof liars - to[i].iov_len) continue;
        errno = EFAULT;
        return -1;
    }
    return __real_process_vm_writev(process, from, parts, to, places, flags);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    return 0;
}

static size_t take_size(struct fuzz_input *s)
{
    return (size_t)(fuzz_take(s, 1) << fuzz_take(s, 1) % 9) % sizeof block + 1;
}

static void lie(struct fuzz_input *s, struct fs_segment_header *header)
{
    struct fs_direction *d = &header->direction[fuzz_take(s, 1) & 1];
    _Atomic uint64_t *wide[] = {&d->head,     &d->grown_at,      &d->tail,        &d->bell,          &d->eaten,
                                &d->promised, &d->offer,         &d->offer_from,  &d->offer_address, &d->nonce_address,
                                &d->want,     &d->place_address, &d->place_calls, &d->place_gate};
    _Atomic uint32_t *narrow[] = {&d->producer_shut, &d->reader_sleeps, &d->writer_sleeps, &d->notice,
                                  &d->stuffed,       &d->watched,       &d->raw,           &header->reset[0],
                                  &header->reset[1], &header->cpu[0]};
    uint64_t which = fuzz_take(s, 1), how = fuzz_take(s, 1);
    if (which % 24 < 14) {
        _Atomic uint64_t *word = wide[which % 24];
        if (how & 2) atomic_store(word, (uint64_t)(uintptr_t)liars + fuzz_take(s, 2));
        else atomic_store(word, how & 1 ? fuzz_take(s, 8) : *word + (uint64_t)(int16_t)fuzz_take(s, 2));
    } else {
        _Atomic uint32_t *word = narrow[which % 24 - 14];
        atomic_store(word, how & 1 ? (uint32_t)fuzz_take(s, 4) : *word + (uint32_t)fuzz_take(s, 1));
    }
}

static void call(struct fuzz_input *s, struct connection *c, struct fs_end *end, int bell)
{
    uint64_t start = fs_now_ns(), deadline = start + fuzz_take(s, 1) * 2000;
    size_t size = take_size(s);
    ssize_t result = 0;
    switch (fuzz_take(s, 1) % 15) {
    case 0:
    case 1: result = fs_end_send(end, bell, block, size, FS_PATIENT | FS_NO_SIGNAL); break;
    case 2: result = fs_end_send(end, bell, block, size, FS_NO_SIGNAL); break;
    case 3:
    case 4: result = fs_end_receive(end, bell, block, size, 0, 0); break;
    case 5: result = fs_end_receive(end, bell, block, size, 0, 1); break;
    case 6: result = fs_end_receive(end, bell, block, size, 1, 1); break;
    case 7: fs_end_wait(end, bell, FS_READABLE, deadline, &never_leaving); break;
    case 8: fs_end_wait(end, bell, FS_WRITABLE, deadline, &never_leaving); break;
    case 9: fs_end_watch(end, bell); break;
    case 10: fs_end_settle(end, bell, 0), fs_end_unread(end, bell), fs_end_take_error(end, bell); break;
    case 11: fs_end_release(end, bell); break;
    case 12: fs_end_writable(end, size); break;
    case 13: {
        struct iovec parts[2] = {{block, size / 2}, {block, size - size / 2}};
        struct fs_parts gather = fs_parts_of(parts, 2);
        result = fs_end_send_parts(end, bell, &gather, FS_NO_SIGNAL);
        if (result >= 0 || result == -EAGAIN) CHECK_EQUAL(gather.left, (ssize_t)size - (result > 0 ? result : 0));
        else CHECK(gather.left <= size); /* a liar ended the connection: what had gone counts no more */
        break;
    }
    default:
        if (fuzz_take(s, 1) % 8 == 0) fs_end_shutdown(end, bell, SHUT_WR);
    }
    CHECK(result <= (ssize_t)size);
    CHECK(fs_now_ns() < deadline + SLACK_NS);
    (void)c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input s = {data, length};
    struct connection c = connection_make(4096);
    c.direct_min = 1;
    c.holder[0] = c.holder[1] = getpid();
    int side = (int)(fuzz_take(&s, 1) & 1);
    connection_open(&c, side, 0);
    connection_open(&c, !side, 0);
    for (int step = 0; step < MOST_STEPS && s.left > 0; step++) {
        switch (fuzz_take(&s, 1) % 8) {
        case 0:
        case 1:
        case 2: call(&s, &c, c.end[side], c.bell[side]); break;
        case 3: call(&s, &c, c.end[!side], c.bell[!side]); break; /* an honest moment */
        case 4:
        case 5: lie(&s, c.end[!side]->header); break;
        case 6: send(c.bell[!side], block, take_size(&s), MSG_DONTWAIT | MSG_NOSIGNAL); break;
        default:
            if (fuzz_take(&s, 1) % 8 == 0) shutdown(c.bell[!side], SHUT_WR);
            else recv(c.bell[!side], block, take_size(&s), MSG_DONTWAIT);
        }
    }
    connection_close(&c, 0);
    connection_close(&c, 1);
    return 0;
}
