#define _GNU_SOURCE
#include "rsocket_bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent.h"
#include "system.h"

#define UNSETTLED_MS 1

enum { EVENTS, TIMER, OWN };

static struct {
    const struct fs_rsocket_library *library;
    pthread_mutex_t lock; /* of the list alone */
    struct fs_rsocket_polled *first;
    int timer;
    /* Of the agent's thread alone. */
    struct pollfd *asked;
    size_t room;
} bridge = {.lock = PTHREAD_MUTEX_INITIALIZER, .timer = -1};

/* ---- what the agent's thread does in place of sleeping ---- */

static int make_room(size_t wanted)
{
    if (wanted <= bridge.room) return 1;
    struct pollfd *larger = realloc(bridge.asked, 2 * wanted * sizeof *larger);
    if (larger == NULL) return 0;
    bridge.asked = larger;
    bridge.room = 2 * wanted;
    return 1;
}

/* How many there are to ask for; *unsettled: one of them may change without a word. */
static size_t collect(int *unsettled)
{
    size_t count = OWN;
    pthread_mutex_lock(&bridge.lock);
    for (struct fs_rsocket_polled *each = bridge.first; each != NULL; each = each->next) {
        *unsettled |= each->is_unsettled;
        if (each->events == 0 || !make_room(count + 1)) continue;
        bridge.asked[count++] = (struct pollfd){each->number, each->events, 0};
    }
    pthread_mutex_unlock(&bridge.lock);
    return count;
}

static int sooner(int one, int other) { return one < 0 || other < one ? other : one; }

static void set_timer(int timeout_ms)
{
    struct itimerspec when = {.it_value = {0, 0}};
    if (timeout_ms > 0) when.it_value = (struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    timerfd_settime(bridge.timer, 0, &when, NULL);
}

static void sleep_by_rpoll(int events, int timeout_ms)
{
    int unsettled = 0;
    if (!make_room(OWN)) return;
    size_t count = collect(&unsettled);
    if (unsettled) timeout_ms = sooner(timeout_ms, UNSETTLED_MS);
    set_timer(timeout_ms);
    bridge.asked[EVENTS] = (struct pollfd){events, POLLIN, 0};
    bridge.asked[TIMER] = (struct pollfd){bridge.timer, POLLIN, 0};
    if (bridge.library->rpoll(bridge.asked, count, timeout_ms == 0 ? 0 : -1) < 0)
        poll(bridge.asked, OWN, sooner(timeout_ms, UNSETTLED_MS));
}

/* ---- what others ask for ---- */

static int start_locked(const struct fs_rsocket_library *library)
{
    if (bridge.library != NULL) return 0;
    bridge.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (bridge.timer < 0) return -errno;
    bridge.library = library;
    return 0;
}

int fs_rsocket_bridge_start(const struct fs_rsocket_library *library)
{
    pthread_mutex_lock(&bridge.lock);
    int error = start_locked(library);
    pthread_mutex_unlock(&bridge.lock);
    if (error == 0) error = fs_agent_start();
    if (error == 0) fs_agent_sleep_by(sleep_by_rpoll);
    return error;
}

void fs_rsocket_bridge_add(struct fs_rsocket_polled *polled)
{
    pthread_mutex_lock(&bridge.lock);
    polled->next = bridge.first;
    bridge.first = polled;
    pthread_mutex_unlock(&bridge.lock);
}

void fs_rsocket_bridge_remove(struct fs_rsocket_polled *polled)
{
    pthread_mutex_lock(&bridge.lock);
    struct fs_rsocket_polled **place = &bridge.first;
    while (*place != NULL && *place != polled) place = &(*place)->next;
    if (*place != NULL) *place = polled->next;
    pthread_mutex_unlock(&bridge.lock);
}

struct closed {
    const struct fs_rsocket_library *library;
    int number;
};

static void *close_one(void *of)
{
    struct closed closed = *(struct closed *)of;
    free(of);
    closed.library->rclose(closed.number);
    return NULL;
}

void fs_rsocket_close(const struct fs_rsocket_library *library, int number)
{
    pthread_t thread;
    struct closed *closed = malloc(sizeof *closed);
    if (closed != NULL) *closed = (struct closed){library, number};
    if (closed != NULL && fs_start_thread(&thread, close_one, closed) == 0) {
        pthread_detach(thread);
        return;
    }
    free(closed);
    library->rclose(number);
}
