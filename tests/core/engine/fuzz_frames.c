/* The bytes are what a peer sends and what it writes into the memory of both, cut into pieces, and between them what the
 * victim does.  Nothing may crash, and when the peer has gone nothing is left pending.  A request and its buffer are freed
 * as soon as the request is done.
 *
 * At the end it says which frames were taken in which states: turns.c decides about them, and is asked on the way. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "fuzz_input.h"
#include "scenes.h"

#define REQUESTS 8
#define SHORT 5000
#define LONG 600000
#define STEPS 300
#define MOST_LEFT 4 /* requests abandoned in a schedule: one whose sender does not answer takes its time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* ---- what was reached ---- */

static unsigned long reached[FS_TURNS][FS_STATES];
int __real_fs_is_in_turn(int turn, int state);
int __wrap_fs_is_in_turn(int turn, int state);
int __wrap_fs_is_in_turn(int turn, int state)
{
    reached[turn][state]++;
    return __real_fs_is_in_turn(turn, state);
}

static void report_reached(void)
{
    int pairs = 0;
    for (int turn = 0; turn < FS_TURNS; turn++)
        for (int state = 0; state < FS_STATES; state++) pairs += reached[turn][state] != 0;
    fprintf(stderr, "reached: %d pairs of frame and state\n", pairs);
    for (int turn = 1; turn < FS_TURNS; turn++) {
        fprintf(stderr, "reached: frame %2d:", turn);
        for (int state = 0; state < FS_STATES; state++)
            if (reached[turn][state]) fprintf(stderr, " %d:%lu", state, reached[turn][state]);
        fprintf(stderr, "\n");
    }
}

/* The victim writes where the peer says; here that is this process, and only the liar's memory may be written. */
ssize_t __real_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                                 unsigned long);
ssize_t __wrap_process_vm_writev(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                                 unsigned long);
static struct liar *liar;
static int lies_in(const struct iovec *part, const void *memory, size_t length)
{
    uintptr_t low = (uintptr_t)memory, at = (uintptr_t)part->iov_base;
    return at >= low && at - low <= length && part->iov_len <= length - (at - low);
}

ssize_t __wrap_process_vm_writev(pid_t process, const struct iovec *from, unsigned long count, const struct iovec *to,
                                 unsigned long parts, unsigned long flags)
{
    for (unsigned long i = 0; i < parts; i++) {
        if (lies_in(&to[i], liar->memory, LIAR_LONG) || lies_in(&to[i], liar, sizeof *liar)) continue;
        errno = EFAULT;
        return -1;
    }
    return __real_process_vm_writev(process, from, count, to, parts, flags);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    when_failing = abort;
    signal(SIGPIPE, SIG_IGN); /* the victim closes on what is wrong */
    atexit(report_reached);
    return 0;
}

/* ---- the victim ---- */

static struct held requests[REQUESTS];

static void settle(void)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct fs_request *request = requests[i].request;
        if (!request || !fs_request_is_done(request)) continue;
        free(request->payload);
        held_settle(&requests[i]);
    }
}

static void start(int which, uint8_t how)
{
    static const size_t sizes[4] = {0, 100, SHORT, LONG};
    struct fs_engine *engine = liar->engine;
    struct held *held = &requests[which];
    if (held->request) {
        if (how & 0x80) fs_engine_cancel(engine, held->request);
        return;
    }
    *held = held_new(how & 0x20 ? FS_SENDING : FS_RECEIVING, sizes[how >> 3 & 3]);
    held->request->allocates = !(how & 0x20) && how & 0x80;
    if (how & 0x20) fs_engine_send(engine, held->request, 1, how & 1, 0, how >> 6 & 1);
    else fs_engine_receive(engine, held->request, how & 0x40 ? FS_ANY : 1, how & 4 ? FS_ANY : how & 1, 0);
}

static int left;

static void leave(int which)
{
    struct held *held = &requests[which];
    if (!held->request || left++ >= MOST_LEFT) return;
    fs_engine_abandon(liar->engine, held->request);
    atomic_store(&held->request->done, 1); /* its owner forgets it */
}

/* ---- the liar ---- */

/* Numbers that the victim told, which an attacker would hear too. */
static struct {
    struct fs_frame frame;
    size_t came;      /* of it */
    uint64_t payload; /* still to come behind it */
    uint32_t sends[4], receives[4], share;
    unsigned sent, received;
} heard;

static void understand(const struct fs_frame *frame)
{
    if (frame->kind == FS_FRAME_GREETING || frame->kind == FS_FRAME_EAGER || frame->kind == FS_FRAME_DATA)
        heard.payload = frame->length;
    if (frame->id && (frame->kind == FS_FRAME_EAGER || frame->kind == FS_FRAME_READY_TO_SEND))
        heard.sends[heard.sent++ & 3] = frame->id;
    if (frame->kind == FS_FRAME_READY_TO_RECEIVE) heard.receives[heard.received++ & 3] = (uint32_t)frame->word;
    if (frame->kind == FS_FRAME_SHARE) {
        heard.receives[heard.received++ & 3] = frame->context;
        heard.share = (uint32_t)frame->tag;
    }
}

static void hear(void)
{
    char drop[4096];
    for (;;) {
        size_t part = heard.payload < sizeof drop ? heard.payload : sizeof drop;
        size_t got = heard.payload
                         ? liar_read(liar, drop, part)
                         : liar_read(liar, (char *)&heard.frame + heard.came, sizeof heard.frame - heard.came);
        if (got == 0) return;
        if (heard.payload) heard.payload -= got;
        else heard.came += got;
        if (heard.came < sizeof heard.frame) continue;
        heard.came = 0;
        understand(&heard.frame);
    }
}

/* Made of a few bytes, so that what is interesting is likely. */
static struct fs_frame make_frame(struct fuzz_input *bytes)
{
    static const uint64_t lengths[8] = {0, 1, 100, 5000, 65536, 70000, LONG, LONG - 1};
    uint8_t how = (uint8_t)fuzz_take(bytes, 1), number = (uint8_t)fuzz_take(bytes, 1),
            kind = (uint8_t)fuzz_take(bytes, 1);
    struct fs_frame frame =
        fs_frame_of(kind % (FS_FRAME_KINDS + 1), number & 15, lengths[how & 7], fuzz_take(bytes, 1));
    int of_a_receive = frame.kind == FS_FRAME_DATA || frame.kind == FS_FRAME_WITHDRAWN || frame.kind == FS_FRAME_SHARED;
    if (number & 0x10) frame.id = (of_a_receive ? heard.receives : heard.sends)[number & 3];
    frame.tag = how >> 3 & 1;
    frame.context = how >> 4 == 15;
    if (how & 0x20) frame.word = (uint64_t)(uintptr_t)liar->memory;
    if (how & 0x40) frame.length = fuzz_take(bytes, 2);
    if (frame.kind == FS_FRAME_SHARE && liar->end) {
        frame.tag = number >> 5;
        if (how & 0x80) atomic_store(&liar->end->in.shared->offer, (uint64_t)(uint32_t)frame.tag << 32);
    }
    if (frame.kind == FS_FRAME_READY_TO_SEND && how & 0x80) liar_stamp(liar, frame.id);
    return frame;
}

static void lie(struct fuzz_input *bytes)
{
    if (!liar->end) return;
    struct fs_segment_header *header = liar->end->header;
    uint8_t which = (uint8_t)fuzz_take(bytes, 1), how = (uint8_t)fuzz_take(bytes, 1);
    struct fs_direction *d = &header->direction[how & 1];
    _Atomic uint64_t *wide[] = {&d->offer, &d->offer, &d->offer, &d->head, &d->tail, &d->grown_at, &d->bell, &d->eaten};
    _Atomic uint32_t *narrow[] = {&d->producer_shut, &d->reader_sleeps, &d->writer_sleeps, &d->notice,
                                  &d->stuffed,       &d->watched,       &d->raw,           &d->costs[how >> 1 & 1].put};
    if (which & 8) atomic_store(narrow[which & 7], (uint32_t)fuzz_take(bytes, 4));
    else if ((which & 7) < 2)
        *wide[0] += fuzz_take(bytes, 1) << (how >> 1 & 0x20) << (how & 0x10); /* a claim, or another copy */
    else if ((which & 7) == 2)
        atomic_store(wide[0], (uint64_t)heard.share << 32 | fuzz_take(bytes, 1)); /* the sender has those */
    else if (how & 2) atomic_store(wide[which & 7], fuzz_take(bytes, 8));
    else *wide[which & 7] += (uint64_t)(int16_t)fuzz_take(bytes, 2);
}

static void step(struct fuzz_input *bytes)
{
    uint8_t what = (uint8_t)fuzz_take(bytes, 1), how = (uint8_t)fuzz_take(bytes, 1);
    switch (what & 7) {
    case 0:
    case 1: start(what >> 3 & (REQUESTS - 1), how); break;
    case 2: leave(how & (REQUESTS - 1)); break;
    case 3: {
        size_t part = how < bytes->left ? how : bytes->left;
        liar_write(liar, bytes->data, part);
        bytes->data += part, bytes->left -= part;
        break;
    }
    case 4: lie(bytes); break;
    default: {
        struct fs_frame frame = make_frame(bytes);
        if (how & 0x80) liar_write(liar, &frame, sizeof frame); /* and no payload: the next frame is it */
        else liar_put(liar, frame);
    }
    }
    if (how & 1) hear();
    if (how & 2) liar_progress(liar);
    settle();
}

static void begin_in(const struct place *place)
{
    struct scene scene = {.liar = liar};
    place->go(&scene);
    requests[0] = scene.held;
    for (int i = 0; i < 4; i++) heard.sends[i] = heard.receives[i] = scene.id;
    heard.share = scene.share;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzz_input bytes = {data, length};
    uint8_t how = (uint8_t)fuzz_take(&bytes, 1);
    const struct place *place = &places[(how >> 2) % place_count]; /* already there, for a schedule to get somewhere */
    liar = (how & 3) == 3 ? liar_over_a_socket() : liar_new();
    memset(&heard, 0, sizeof heard);
    left = 0;
    if (place->greeted) liar_greet(liar);
    if (liar->end) begin_in(place);
    for (int i = 0; i < STEPS && bytes.left > 0; i++) step(&bytes);
    for (int i = 0; i < 20; i++) {
        liar_progress(liar);
        settle();
    }
    liar_free(liar);
    settle();
    for (int i = 0; i < REQUESTS; i++) CHECK(requests[i].request == NULL);
    return 0;
}
