/* A stranger's memory: any size, seals and header.  What is accepted must be usable without leaving the mapping. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

#define PREFIX 8
#define LARGEST_TRIED (4u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    return 0;
}

static void use(struct fs_end *end)
{
    static unsigned char block[70000];
    int bell[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell) == 0);
    fs_end_unread(end, bell[0]);
    fs_end_receive(end, bell[0], block, sizeof block, 1, 1);
    fs_end_receive(end, bell[0], block, sizeof block, 0, 1);
    for (int i = 0; i < 3; i++) fs_end_send(end, bell[0], block, sizeof block, FS_NO_SIGNAL);
    fs_end_watch(end, bell[0]);
    fs_end_send(end, bell[0], block, 1000, FS_NO_SIGNAL);
    fs_end_receive(end, bell[0], block, sizeof block, 0, 0);
    fs_end_release(end, bell[0]);
    fs_end_shutdown(end, bell[0], SHUT_WR);
    fs_end_closing(end, bell[0], 0);
    close(bell[0]);
    fs_end_closed(end);
    close(bell[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (length < PREFIX) return 0;
    struct fs_limits limits = {0, 1, getpid()};
    struct fs_segment_header header = {.magic = FS_MAGIC, .version = FS_VERSION, .small_bytes = 4096u << (data[1] & 3)};
    uint32_t size;
    int error = 0, seals = data[0] & (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    memcpy(&size, data + 4, 4);
    if (data[2] & 1) size = 4096u + 16u * header.small_bytes; /* the right one, as header bytes fit one page */
    if (data[2] & 2) size += data[3];
    size %= LARGEST_TRIED;
    for (int d = 0; d < 2; d++) header.direction[d].grown_at = FS_NOT_GROWN;
    size_t lies = length - PREFIX < sizeof header ? length - PREFIX : sizeof header;
    for (size_t i = 0; i < lies; i++) ((unsigned char *)&header)[i] ^= data[PREFIX + i];
    int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(memory >= 0 && ftruncate(memory, size) == 0);
    CHECK(pwrite(memory, &header, size < sizeof header ? size : sizeof header, 0) >= 0);
    fcntl(memory, F_ADD_SEALS, seals);
    struct fs_end *end = fs_end_open(memory, data[2] >> 2 & 1, &limits, &error);
    CHECK((end == NULL) == (error != 0));
    if (end != NULL) {
        CHECK((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SHRINK | F_SEAL_GROW));
        use(end);
        fs_end_free(end);
    }
    close(memory);
    return 0;
}
