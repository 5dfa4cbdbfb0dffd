#define _GNU_SOURCE
#include "seeking.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "attach.h"
#include "identity.h"
#include "refusals.h"
#include "system.h"

#define SHARE_OF_NUMBERS 8u
#define FEWEST_NAMES 4u
#define GUESSES 4u /* so often an end waits for its counters to tell who connected */

static _Atomic uint32_t names; /* that this process listens at */

static void leave_names_to_parent(void) { atomic_store(&names, 0); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, leave_names_to_parent); }

static enum fs_why why_of(int error)
{
    switch (error) {
    case 0: return FS_WHY_ATTACHED; /* nothing is in the way */
    case -EAGAIN: return FS_WHY_BUSY;
    case -ECONNREFUSED: return FS_WHY_NOBODY;
    case -EACCES:
    case -EPERM: return FS_WHY_OTHER_USER;
    case -EADDRINUSE: return FS_WHY_TAKEN;
    case -ENOTCONN: return FS_WHY_ENDED;
    case -EOPNOTSUPP: return FS_WHY_UNCOUNTED;
    case -EINVAL: return FS_WHY_OPTIONS;
    case -EXFULL: return FS_WHY_DECLINED;
    case -EPROTO: return FS_WHY_STRANGE;
    default: return FS_WHY_RESOURCES;
    }
}

/* ---- what is open ---- */

void fs_seeking_clear(struct fs_seeking *seeking)
{
    *seeking =
        (struct fs_seeking){.listener = FS_DESCRIPTOR_NONE, .stream = FS_DESCRIPTOR_NONE, .memory = FS_DESCRIPTOR_NONE};
}

static void close_name(struct fs_seeking *seeking)
{
    fs_descriptor_close(&seeking->listener);
    if (seeking->named_in == fs_generation()) atomic_fetch_sub(&names, 1);
    seeking->named_in = 0;
}

static void drop_segment(struct fs_seeking *seeking)
{
    if (seeking->segment != NULL) fs_segment_drop(seeking->segment);
    seeking->segment = NULL;
}

void fs_seeking_stop(struct fs_seeking *seeking)
{
    close_name(seeking);
    fs_descriptor_close(&seeking->stream);
    fs_descriptor_close(&seeking->memory);
    drop_segment(seeking);
    seeking->stage = FS_RESTING;
}

/* ---- whether it may be ---- */

/* What the kernel counts beside what this end has counted.  A difference says nothing where others are at work meanwhile. */
static enum fs_why compare_counters(struct fs_seeking *seeking, struct fs_record *record, int descriptor)
{
    const uint64_t counted = UINT64_MAX >> FS_TRAFFIC_SHIFT;
    uint64_t sent = atomic_load(&record->sent), received = atomic_load(&record->received);
    if (fs_identity_of(descriptor) != seeking->identity)
        return FS_WHY_LEFT; /* closed unseen: the number is another one's */
    int error = fs_counters_read(descriptor, &seeking->counters);
    if (error != 0) return why_of(error);
    if ((seeking->counters.sent & counted) == fs_traffic_bytes(sent) &&
        (seeking->counters.consumed & counted) == fs_traffic_bytes(received))
        return FS_WHY_ATTACHED;
    int alone = fs_traffic_inside(sent) == 0 && fs_traffic_inside(received) == 0 && atomic_load(&record->sender) == 0 &&
                atomic_load(&record->receiver) == 0 && atomic_load(&record->sent) == sent &&
                atomic_load(&record->received) == received;
    return alone ? FS_WHY_FOREIGN : FS_WHY_BUSY;
}

enum fs_why fs_seeking_know(struct fs_seeking *seeking, int descriptor)
{
    if (seeking->is_local) return FS_WHY_ATTACHED;
    int error = fs_tuple_of(descriptor, &seeking->tuple);
    if (error == -ENOTCONN) return FS_WHY_BUSY; /* it is connecting, perhaps */
    if (error != 0) return error == -EAFNOSUPPORT ? FS_WHY_OTHER_HOST : why_of(error);
    if (fs_tuple_is_own(&seeking->tuple)) return FS_WHY_ITSELF;
    seeking->is_local = fs_tuple_is_local(&seeking->tuple);
    seeking->identity = fs_identity_of(descriptor);
    return seeking->is_local ? FS_WHY_ATTACHED : FS_WHY_OTHER_HOST;
}

static enum fs_why may_seek(struct fs_seeking *seeking, struct fs_record *record, int descriptor)
{
    if (fs_refusals_are_known()) return FS_WHY_REFUSED;
    if (atomic_load(&record->foreign)) return FS_WHY_FOREIGN;
    if (fs_record_state(record) != FS_CANDIDATE) return FS_WHY_ENDED;
    if (!fs_holders_is_alone(&record->holders)) return FS_WHY_SHARED;
    return fs_seeking_know(seeking, descriptor);
}

/* Whether this end looks, or listens.  A socket that was inherited or passed on tells it by its counters.  Where these never
 * do, both ends go by their addresses. */
static enum fs_why choose_part(struct fs_seeking *seeking, struct fs_record *record, int descriptor, int *looks)
{
    uint32_t role = atomic_load(&record->role);
    *looks = role == FS_ROLE_CONNECTED;
    if (role != FS_ROLE_UNKNOWN) return FS_WHY_ATTACHED;
    int error = fs_counters_read(descriptor, &seeking->counters);
    if (error != 0) return why_of(error);
    if (seeking->counters.opened == FS_OPENED_UNKNOWN) {
        *looks = !fs_tuple_is_first(&seeking->tuple);
        return seeking->guesses++ < GUESSES ? FS_WHY_BUSY : FS_WHY_ATTACHED;
    }
    *looks = seeking->counters.opened == FS_OPENED_HERE;
    atomic_store(&record->role, *looks ? FS_ROLE_CONNECTED : FS_ROLE_ACCEPTED);
    return FS_WHY_ATTACHED;
}

/* ---- the end that listens ---- */

static uint32_t most_names(void)
{
    struct rlimit numbers;
    if (getrlimit(RLIMIT_NOFILE, &numbers) != 0) return FEWEST_NAMES;
    rlim_t most = numbers.rlim_cur / SHARE_OF_NUMBERS;
    return most < FEWEST_NAMES ? FEWEST_NAMES : most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

/* An end that waits for this name hears that it is there. */
static void knock(const struct fs_seeking *seeking, enum fs_name_peers peers)
{
    struct fs_descriptor stream = FS_DESCRIPTOR_NONE;
    pid_t process;
    if (fs_name_find(&stream, FS_NAME_WAITS, &seeking->tuple, 0, peers, &process) == 0) fs_descriptor_close(&stream);
}

static enum fs_why open_name(struct fs_seeking *seeking, enum fs_name_peers peers)
{
    if (atomic_fetch_add(&names, 1) >= most_names()) {
        atomic_fetch_sub(&names, 1);
        return FS_WHY_MANY;
    }
    seeking->named_in = fs_generation();
    int error = fs_name_listen(&seeking->listener, FS_NAME_OFFERS, &seeking->tuple, 1);
    if (error != 0) {
        close_name(seeking);
        return why_of(error);
    }
    seeking->stage = FS_LISTENING;
    knock(seeking, peers);
    return FS_WHY_ATTACHED;
}

/* A stranger is sent away, and the name stays for the other end. */
static enum fs_why accept_stream(struct fs_seeking *seeking, enum fs_name_peers peers)
{
    int error = fs_name_accept(&seeking->listener, &seeking->stream, peers, &seeking->process);
    if (error == -EACCES) seeking->met_other_user = 1;
    if (error == -EAGAIN || error == -EACCES) return FS_WHY_LISTENING;
    if (error == 0) seeking->stage = FS_TAKING;
    return why_of(error);
}

static enum fs_why take_offer(struct fs_seeking *seeking)
{
    int error = fs_offer_take(&seeking->stream, &seeking->memory, &seeking->theirs);
    if (error == -EAGAIN) return FS_WHY_LISTENING;
    if (error == -ECONNRESET) { /* it could not offer, and will come again */
        fs_descriptor_close(&seeking->stream);
        seeking->stage = FS_LISTENING;
        return FS_WHY_LISTENING;
    }
    if (error == 0) seeking->segment = fs_segment_map(fs_descriptor_number(&seeking->memory), &error);
    fs_descriptor_close(&seeking->memory);
    if (error == 0) {
        close_name(seeking);
        seeking->stage = FS_JOINING;
    }
    return why_of(error);
}

static struct fs_limits limits_of(const struct fs_seeking *seeking, const struct fs_candidate_settings *settings)
{
    struct fs_limits limits = settings->limits;
    limits.peer = seeking->process;
    return limits;
}

static enum fs_why join(struct fs_seeking *seeking, struct fs_connection *connection, struct fs_record *record,
                        int descriptor, const struct fs_candidate_settings *settings)
{
    enum fs_why why = compare_counters(seeking, record, descriptor);
    if (why != FS_WHY_ATTACHED) return why;
    if (!fs_counters_agree(&seeking->theirs, &seeking->counters)) return FS_WHY_DISAGREE;
    struct fs_limits limits = limits_of(seeking, settings);
    int error = fs_attach_join(connection, descriptor, seeking->segment, &limits);
    return error == -ECONNREFUSED ? FS_WHY_UNANSWERED : why_of(error);
}

static enum fs_why listen_on(struct fs_seeking *seeking, struct fs_connection *connection, struct fs_record *record,
                             int descriptor, const struct fs_candidate_settings *settings)
{
    enum fs_why why = FS_WHY_ATTACHED;
    if (seeking->stage == FS_RESTING) why = compare_counters(seeking, record, descriptor);
    if (seeking->stage == FS_RESTING && why == FS_WHY_ATTACHED) why = open_name(seeking, settings->peers);
    if (seeking->stage == FS_LISTENING && why == FS_WHY_ATTACHED) why = accept_stream(seeking, settings->peers);
    if (seeking->stage == FS_TAKING && why == FS_WHY_ATTACHED) why = take_offer(seeking);
    if (seeking->stage == FS_JOINING && why == FS_WHY_ATTACHED)
        why = join(seeking, connection, record, descriptor, settings);
    return why;
}

/* ---- the end that looks ---- */

static enum fs_why find_stream(struct fs_seeking *seeking, enum fs_name_peers peers)
{
    int error = fs_name_find(&seeking->stream, FS_NAME_OFFERS, &seeking->tuple, 0, peers, &seeking->process);
    if (error == 0) seeking->stage = FS_SENDING;
    if (error == -EACCES) seeking->met_other_user = 1;
    return why_of(error);
}

static enum fs_why make_memory(struct fs_seeking *seeking, uint32_t ring_bytes)
{
    int number;
    fs_hold_process();
    seeking->segment = fs_segment_make(ring_bytes, &number);
    int kept = fs_descriptor_keep(&seeking->memory, number);
    fs_release_process();
    if (kept >= 0) return FS_WHY_ATTACHED;
    drop_segment(seeking);
    return kept == -EPERM || kept == -EACCES || kept == -ENOSYS ? FS_WHY_REFUSED : FS_WHY_RESOURCES;
}

/* The other end may act on the memory as soon as it is sent.  So the offer stands before that. */
static enum fs_why pass_memory(struct fs_seeking *seeking, struct fs_connection *connection, int descriptor,
                               const struct fs_candidate_settings *settings)
{
    struct fs_limits limits = limits_of(seeking, settings);
    int error = fs_attach_offer(connection, descriptor, seeking->segment, &limits);
    if (error != 0) return why_of(error);
    seeking->stage = FS_OFFERING;
    error = fs_offer_send(&seeking->stream, &seeking->counters, fs_descriptor_number(&seeking->memory));
    fs_descriptor_close(&seeking->memory);
    drop_segment(seeking);
    return error == 0 ? FS_WHY_OFFERED : fs_seeking_withdraw(connection, descriptor);
}

static enum fs_why look_on(struct fs_seeking *seeking, struct fs_connection *connection, struct fs_record *record,
                           int descriptor, const struct fs_candidate_settings *settings)
{
    enum fs_why why = FS_WHY_ATTACHED;
    if (seeking->stage == FS_RESTING) why = find_stream(seeking, settings->peers);
    if (seeking->stage != FS_SENDING || why != FS_WHY_ATTACHED) return why;
    why = compare_counters(seeking, record, descriptor);
    if (why == FS_WHY_ATTACHED && seeking->segment == NULL) why = make_memory(seeking, settings->ring_bytes);
    return why == FS_WHY_ATTACHED ? pass_memory(seeking, connection, descriptor, settings) : why;
}

enum fs_why fs_seeking_withdraw(struct fs_connection *connection, int descriptor)
{
    switch (fs_attach_withdraw(connection, descriptor)) {
    case 0: return FS_WHY_ATTACHED;
    case 1: return FS_WHY_UNANSWERED;
    default: return FS_WHY_OFFERED;
    }
}

enum fs_why fs_seek(struct fs_seeking *seeking, struct fs_connection *connection, int descriptor,
                    const struct fs_candidate_settings *settings)
{
    struct fs_record *record = connection->record;
    int looks;
    if (record == NULL) return FS_WHY_LEFT;
    if (fs_record_state(record) == FS_ATTACHED) return FS_WHY_ATTACHED;
    if (fs_record_state(record) == FS_OFFERED) {
        seeking->stage = FS_OFFERING;
        return fs_attach_progress(connection, descriptor) == 1 ? FS_WHY_ATTACHED : FS_WHY_OFFERED;
    }
    if (seeking->stage == FS_OFFERING) return FS_WHY_UNANSWERED; /* somebody has ended it */
    enum fs_why why = may_seek(seeking, record, descriptor);
    if (why == FS_WHY_ATTACHED) why = choose_part(seeking, record, descriptor, &looks);
    if (why != FS_WHY_ATTACHED) return why;
    return looks ? look_on(seeking, connection, record, descriptor, settings)
                 : listen_on(seeking, connection, record, descriptor, settings);
}
