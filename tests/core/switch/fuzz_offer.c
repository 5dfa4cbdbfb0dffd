/* What comes to a name instead of an offer: any bytes, any descriptors, any memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"
#include "switch/names.h"

#define PREFIX 8
#define MOST_SENT 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static unsigned char right[256];
static size_t right_length;
static int connected;

static void pair(struct fs_descriptor *in, int *out)
{
    int both[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) == 0);
    fs_hold_process();
    CHECK(fs_descriptor_keep(in, both[0]) >= 0);
    fs_release_process();
    *out = both[1];
}

/* The bytes of an offer as it is sent. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const struct fs_counters counters = {.received = 1, .acknowledged = 2};
    struct fs_descriptor sender;
    (void)argc, (void)argv;
    when_failing = abort;
    pair(&sender, &connected);
    CHECK(fs_offer_send(&sender, &counters, connected) == 0);
    ssize_t got = recv(connected, right, sizeof right, 0);
    CHECK(got > 0);
    right_length = (size_t)got;
    fs_descriptor_close(&sender);
    return 0;
}

static int make_memory(uint8_t kind, const uint8_t *data, size_t length)
{
    int ends[2];
    if ((kind & 3) == 3) {
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        close(ends[kind >> 2 & 1]);
        return ends[!(kind >> 2 & 1)];
    }
    if ((kind & 3) == 2) return fs_segment_create(4096u << (kind >> 2 & 3));
    int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && ftruncate(memory, (off_t)(kind >> 2) * 4096) == 0);
    CHECK(pwrite(memory, data, length, 0) >= 0);
    if (kind & 1) fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    return memory;
}

static void say(int to, const void *bytes, size_t length, const int *numbers, size_t count)
{
    union {
        char space[CMSG_SPACE(MOST_SENT * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec one = {(void *)(uintptr_t)bytes, length};
    struct msghdr header = {.msg_iov = &one, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (count > 0) {
        header.msg_control = control.space, header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(rights), numbers, count * sizeof(int));
    }
    CHECK(sendmsg(to, &header, MSG_NOSIGNAL) == (ssize_t)length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < PREFIX + 1) return 0;
    unsigned char bytes[sizeof right];
    struct fs_counters counters;
    struct fs_descriptor in, memory;
    int out, numbers[MOST_SENT], error = 0, descriptors = count_descriptors();
    size_t count = data[0] % (MOST_SENT + 1), said = right_length;
    memcpy(bytes, right, sizeof bytes);
    for (size_t i = PREFIX; i < length && i - PREFIX < right_length; i++) bytes[i - PREFIX] ^= data[i];
    if (data[1] & 1) said = 1 + data[2] % (sizeof bytes - 1);
    for (size_t i = 0; i < count; i++) numbers[i] = make_memory(data[3 + i], data + PREFIX, length - PREFIX);
    pair(&in, &out);
    say(out, bytes, said, numbers, count);
    for (size_t i = 0; i < count; i++) close(numbers[i]);
    if (data[1] & 2) close(out), out = -1;
    while ((error = fs_offer_take(&in, &memory, &counters)) != -EAGAIN && error != -ECONNRESET) {
        if (error != 0) continue;
        CHECK(count == 1 && said >= right_length);
        struct fs_segment *segment = fs_segment_map(fs_descriptor_number(&memory), &error);
        CHECK((segment == NULL) == (error != 0));
        if (segment != NULL) fs_segment_drop(segment);
        fs_descriptor_close(&memory);
    }
    if (out >= 0) close(out);
    fs_descriptor_close(&in);
    CHECK_EQUAL(count_descriptors(), descriptors);
    return 0;
}
