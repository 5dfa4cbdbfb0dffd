#define _GNU_SOURCE
#include "ringing.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loop_names.h"

#define PLACES 64
#define PROBES 8
#define ASK_AGAIN_NS 100000000ull /* after a loop could not be asked, or gave no answer that is one */

/* Its fields but for `id` and `users` change under the process's lock, while nobody uses it. */
struct known {
    _Atomic uint64_t id;               /* 0: nobody may begin to use it */
    _Atomic uint32_t users, asking;    /* one of the users asks, or takes the answer */
    struct fs_loop_page *_Atomic page; /* NULL until the answer has come */
    struct fs_descriptor rope, stream;
    pid_t process;
    _Atomic uint64_t rest_until; /* then it may be asked again */
    _Atomic uint64_t used;       /* the last of all askings by then */
};

static struct known places[PLACES] = {[0 ... PLACES - 1] = {.rope = {.number = -1}, .stream = {.number = -1}}};
static _Atomic uint64_t askings;

static struct known *place_of(uint64_t id, int probe) { return &places[((id ^ id >> 32) + (uint64_t)probe) % PLACES]; }

static struct known *enter(uint64_t id)
{
    for (int i = 0; i < PROBES; i++) {
        struct known *known = place_of(id, i);
        if (atomic_load(&known->id) != id) continue;
        atomic_fetch_add(&known->users, 1);
        if (atomic_load(&known->id) == id) return known;
        atomic_fetch_sub(&known->users, 1);
    }
    return NULL;
}

static void leave(struct known *known) { atomic_fetch_sub(&known->users, 1); }

/* ---- under the process's lock ---- */

static void drop(struct fs_descriptor *owned)
{
    int number = fs_descriptor_take(owned);
    if (number >= 0) close(number);
}

/* 1: it is free.  0: somebody uses it; nobody begins to. */
static int retire(struct known *known)
{
    atomic_store(&known->id, 0);
    if (atomic_load(&known->users) != 0) return 0;
    struct fs_loop_page *page = atomic_exchange(&known->page, NULL);
    if (page != NULL) munmap(page, sizeof *page);
    drop(&known->rope);
    drop(&known->stream);
    return 1;
}

static int is_of_no_use(const struct known *known)
{
    const struct fs_loop_page *page = atomic_load(&known->page);
    return atomic_load(&known->id) == 0 || (page != NULL && atomic_load(&page->closed)) ||
           (known->process > 0 && !fs_is_alive(known->process));
}

/* One that serves nobody any more, else the one that rests longest. */
static struct known *find_place(uint64_t id)
{
    struct known *oldest = NULL;
    for (int i = 0; i < PROBES; i++) {
        struct known *known = place_of(id, i);
        if (is_of_no_use(known) && retire(known)) return known;
        if (oldest == NULL || atomic_load(&known->used) < atomic_load(&oldest->used)) oldest = known;
    }
    return retire(oldest) ? oldest : NULL;
}

/* ---- asking ---- */

static void rest(struct known *known) { atomic_store(&known->rest_until, fs_now_ns() + ASK_AGAIN_NS); }

static void meet(uint64_t id)
{
    struct fs_descriptor none = FS_DESCRIPTOR_NONE;
    fs_hold_process();
    struct known *known = enter(id); /* another thread was quicker */
    if (known != NULL) {
        leave(known);
    } else if ((known = find_place(id)) != NULL) {
        known->rope = known->stream = none;
        known->process = 0;
        atomic_store(&known->rest_until, 0);
        atomic_store(&known->used, atomic_fetch_add(&askings, 1) + 1);
        atomic_store(&known->id, id);
    }
    fs_release_process();
}

/* The next step towards the page.  Another one may be at it. */
static struct fs_loop_page *get_page(struct known *known, uint64_t id)
{
    struct fs_loop_page *page = NULL;
    uint32_t nobody = 0;
    if (!atomic_compare_exchange_strong(&known->asking, &nobody, 1)) return NULL;
    int error = 0;
    if (atomic_load(&known->page) != NULL) page = atomic_load(&known->page);
    else if (known->stream.number >= 0) error = fs_loop_take(&known->stream, id, &page, &known->rope);
    else if (fs_now_ns() >= atomic_load(&known->rest_until)) error = fs_loop_ask(&known->stream, id, &known->process);
    if (error != 0 && error != -EAGAIN) rest(known);
    if (page != NULL) atomic_store(&known->page, page);
    atomic_store(&known->asking, 0);
    return page;
}

/* ---- ringing ---- */

static int ring(struct known *known, struct fs_loop_page *page, uint32_t slot)
{
    uint64_t sleep = fs_loop_page_set(page, slot);
    if (sleep == 0) return 1;
    int number = fs_descriptor_number(&known->rope);
    if (number < 0) { /* the program has closed it: another one is asked for */
        atomic_store(&known->id, 0);
        return 0;
    }
    if (write(number, "", 1) < 0 && errno != EAGAIN) return 0; /* EAGAIN: it is full, and so the loop wakes */
    fs_loop_page_rung(page, sleep);
    return 1;
}

int fs_ring_loop(uint64_t loop, uint32_t slot)
{
    if (loop == 0 || slot >= FS_LOOP_SLOTS) return 0;
    struct known *known = enter(loop);
    if (known == NULL) {
        meet(loop);
        if ((known = enter(loop)) == NULL) return 0;
    }
    struct fs_loop_page *page = atomic_load(&known->page);
    if (page == NULL) page = get_page(known, loop);
    uint64_t now = atomic_load_explicit(&askings, memory_order_relaxed);
    if (atomic_load_explicit(&known->used, memory_order_relaxed) != now) atomic_store(&known->used, now);
    int rang = page != NULL && !atomic_load_explicit(&page->closed, memory_order_relaxed) && ring(known, page, slot);
    leave(known);
    return rang;
}

int fs_ring_known(void)
{
    int count = 0;
    for (int i = 0; i < PLACES; i++) count += atomic_load(&places[i].page) != NULL;
    return count;
}

/* ---- forks ---- */

/* The ropes are closed here (descriptor.h), and the threads that used a place are not here: a child asks for itself. */
static void forget_all(void)
{
    for (int i = 0; i < PLACES; i++) {
        struct fs_loop_page *page = atomic_exchange(&places[i].page, NULL);
        if (page != NULL) munmap(page, sizeof *page);
        atomic_store(&places[i].id, 0);
        atomic_store(&places[i].users, 0);
        atomic_store(&places[i].asking, 0);
        places[i].rope = places[i].stream = FS_DESCRIPTOR_NONE;
    }
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_all); }
