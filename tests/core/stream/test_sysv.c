/* Ends over System V memory, and memory that is no segment. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

#define SMALL 4096u
#define BYTES 200000
#define TOKEN 77u

static int made(size_t size, int mode)
{
    int id = shmget(IPC_PRIVATE, size, IPC_CREAT | mode);
    CHECK(id >= 0);
    return id;
}

static void remove_segment(int id) { CHECK(shmctl(id, IPC_RMID, NULL) == 0); }

static long attached(int id)
{
    struct shmid_ds status;
    return shmctl(id, IPC_STAT, &status) == 0 ? (long)status.shm_nattch : -1;
}

TEST(ends_over_system_v_memory_carry_a_stream, 0)
{
    int id = made(fs_segment_bytes(SMALL), 0600), bell[2], error = 0;
    struct fs_limits limits = {.spin_us = 5.0};
    struct fs_segment *segment[2];
    struct fs_end *end[2];
    CHECK_EQUAL(fs_sysv_format(id, SMALL, TOKEN), 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bell) == 0);
    segment[0] = fs_sysv_attach(id, TOKEN, &error);
    remove_segment(id); /* the other end attaches what is marked for removal already */
    segment[1] = map_same_memory_once ? fs_segment_hold(segment[0]) : fs_sysv_attach(id, TOKEN, &error);
    CHECK(segment[0] != NULL && segment[1] != NULL);
    for (int side = 0; side < 2; side++) {
        end[side] = fs_end_open_on(segment[side], side, &limits, &error);
        CHECK(end[side] != NULL && fs_doorbell_prepare(bell[side]) == 0);
        fs_segment_drop(segment[side]);
    }
    struct flow out = {.end = end[0], .bell = bell[0], .stream = 1, .total = BYTES, .salt = 1, .largest = 30000};
    struct flow in = {.end = end[1], .bell = bell[1], .stream = 1, .total = BYTES, .salt = 2, .largest = 30000};
    pthread_t sender = start_thread(flow_send, &out);
    flow_receive(&in);
    join_thread(sender);
    for (int side = 0; side < 2; side++) {
        fs_end_closing(end[side], bell[side], 0);
        close(bell[side]);
        fs_end_closed(end[side]);
        fs_end_free(end[side]);
    }
    CHECK_EQUAL(attached(id), -1); /* gone with its last user */
}

TEST(system_v_memory_that_is_no_segment_is_refused, 0)
{
    int error = 0;
    int wrong[] = {made(fs_segment_bytes(SMALL), 0600), made(100, 0600), made(fs_segment_bytes(SMALL), 0666)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(fs_sysv_attach(wrong[i], TOKEN, &error) == NULL);
        CHECK_EQUAL(error, -EPROTO);
        CHECK_EQUAL(attached(wrong[i]), 0);
    }
    CHECK_EQUAL(fs_sysv_format(wrong[0], 2 * SMALL, TOKEN), -EINVAL);
    CHECK_EQUAL(fs_sysv_format(wrong[1], SMALL, TOKEN), -EINVAL);
    CHECK_EQUAL(fs_sysv_format(wrong[0], 12345, TOKEN), -EINVAL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) remove_segment(wrong[i]);
    CHECK(fs_sysv_attach(wrong[0], TOKEN, &error) == NULL);
    CHECK(error == -EINVAL || error == -EIDRM);
}

TEST(system_v_header_that_lies_is_refused, 0)
{
    int id = made(fs_segment_bytes(SMALL), 0600), error = 0;
    CHECK_EQUAL(fs_sysv_format(id, SMALL, TOKEN), 0);
    struct fs_segment_header *header = shmat(id, NULL, 0);
    const uint32_t lies[] = {0, 1, SMALL - 1, 2 * SMALL, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        header->small_bytes = lies[i];
        CHECK(fs_sysv_attach(id, TOKEN, &error) == NULL);
        CHECK_EQUAL(error, -EPROTO);
    }
    header->small_bytes = SMALL;
    CHECK(fs_sysv_attach(id, TOKEN + 1, &error) == NULL);
    CHECK_EQUAL(error, -ESTALE);
    CHECK_EQUAL(attached(id), 1); /* ours */
    shmdt(header);
    remove_segment(id);
}

static int unmapped;
static int note(void *memory, size_t size)
{
    unmapped++;
    return munmap(memory, size);
}

TEST(adopted_memory_is_given_back_once, 0)
{
    int error = 0;
    size_t size = fs_segment_bytes(SMALL);
    for (int sound = 0; sound < 2; sound++) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(memory != MAP_FAILED);
        CHECK_EQUAL(fs_segment_format(memory, size, SMALL), 0);
        CHECK_EQUAL(fs_segment_format(memory, size, 3 * SMALL), -EINVAL);
        CHECK_EQUAL(fs_segment_format(memory, size - 1, SMALL), -EINVAL);
        struct fs_segment *segment = fs_segment_adopt(memory, sound ? size : size - 4096, note, &error);
        CHECK((segment != NULL) == sound);
        if (sound) fs_segment_drop(fs_segment_hold(segment)), fs_segment_drop(segment);
        CHECK_EQUAL(unmapped, sound + 1);
    }
}
