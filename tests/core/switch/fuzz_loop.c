/* Whatever others write into a loop's page and into the place of a bit, and whenever: the loop and the sender stay in
 * their bounds, and every call ends. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_input.h"
#include "pair.h"
#include "switch/loop.h"
#include "switch/loop_names.h"
#include "switch/ringing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As any process of the same user gets it. */
static struct fs_loop_page *page_of(struct fs_loop *loop, uint64_t id, struct fs_descriptor *rope)
{
    struct fs_descriptor stream;
    struct fs_loop_page *page = NULL;
    pid_t process;
    int numbers[4];
    CHECK_EQUAL(fs_loop_ask(&stream, id, &process), 0);
    fs_loop_look(loop, numbers, 4, 0);
    CHECK_EQUAL(fs_loop_take(&stream, id, &page, rope), 0);
    return page;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    unsigned char block[256] = {0};
    int error, numbers[4];
    struct pair pair = pair_attached(4096);
    struct fs_loop *loop = fs_loop_make(&error);
    CHECK(loop != NULL);
    int slot = fs_loop_join(loop, pair.end[0], pair.fd[0], NULL);
    CHECK(slot >= 0);
    struct fs_switch_words *words = fs_words_in(pair.end[0]->end);
    const uint64_t id = atomic_load(&words->loop);
    struct fs_descriptor rope;
    struct fs_loop_page *page = page_of(loop, id, &rope);
    for (int steps = 0; input.left > 0 && steps < 300; steps++) {
        uint64_t op = fuzz_take(&input, 1), what;
        switch (op % 12) {
        case 0: atomic_store(&page->asleep, fuzz_take(&input, 8)); break;
        case 1: atomic_store(&page->summary[fuzz_take(&input, 1) % FS_LOOP_SUMMARIES], fuzz_take(&input, 8)); break;
        case 2: atomic_store(&page->bits[fuzz_take(&input, 2) % FS_LOOP_WORDS], fuzz_take(&input, 8)); break;
        case 3: atomic_store(&words->slot, (uint32_t)fuzz_take(&input, 4)); break;
        case 4: atomic_store(&words->loop, op & 64 ? id : fuzz_take(&input, 8)); break;
        case 5:
            what = atomic_load(&words->tokens); /* flags alone: counts are fuzz_switch's */
            atomic_store(&words->tokens, (what & ~7ull) | (fuzz_take(&input, 1) & 5));
            break;
        case 6: send_now(&pair, 1, block, op / 12 + 1, 0); break;
        case 7: receive_now(&pair, 0, block, op + 1, 0); break;
        case 8: fs_loop_look(loop, numbers, 4, op & 64 ? FS_AT_ONCE : 0); break;
        case 9:
            if (fs_loop_sleep(loop, numbers, 4, op & 64 ? FS_AT_ONCE : 0) == 0) fs_loop_awake(loop, (int)(op & 128));
            break;
        case 10:
            if (op & 64) fs_loop_heat(loop, (int)fuzz_take(&input, 4), 1);
            else if (op & 128) fs_ring_loop(id, (uint32_t)fuzz_take(&input, 4));
            else atomic_store(&page->closed, (uint32_t)fuzz_take(&input, 1));
            break;
        default:
            fs_loop_leave(loop, op & 64 ? slot : (int)fuzz_take(&input, 4));
            if (op & 64) slot = fs_loop_join(loop, pair.end[0], pair.fd[0], NULL);
        }
    }
    munmap(page, sizeof *page);
    fs_descriptor_close(&rope);
    fs_loop_free(loop);
    const struct linger reset = {1, 0}; /* else so many runs would leave no port */
    for (int side = 0; side < 2; side++) setsockopt(pair.fd[side], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    pair_close(&pair, 0);
    pair_close(&pair, 1);
    pair_done(&pair);
    return 0;
}
