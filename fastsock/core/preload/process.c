#define _GNU_SOURCE
#include "process.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "borrowed.h"
#include "children.h"
#include "rules.h"
#include "switch/candidates.h"

_Atomic int fs_stands_aside;
_Thread_local int fs_is_within;
const char *fs_report_target;
int fs_traces;
enum fs_memory fs_memory_is_off;

/* Called by the core of a Python process, which has the connections from then on (core/beside.c). */
__attribute__((visibility("default"))) void fastsock_preload_stand_aside(void);
void fastsock_preload_stand_aside(void) { atomic_store(&fs_stands_aside, 1); }

/* ---- settings: the command has checked them (fastsock/command/run.py) ---- */

static const char *setting(const char *name)
{
    const char *text = getenv(name);
    return text == NULL || *text == 0 ? NULL : text;
}

static double number_in(const char *text, double otherwise)
{
    char *end;
    double number = text == NULL ? otherwise : strtod(text, &end);
    if (text == NULL) return otherwise;
    if (end == text || !(number >= 0)) return otherwise;
    switch (*end) {
    case 'k':
    case 'K': return number * 1024;
    case 'm':
    case 'M': return number * (1 << 20);
    case 'g':
    case 'G': return number * (1 << 30);
    default: return number;
    }
}

static int is_yes(const char *text)
{
    static const char *const words[] = {"1", "true", "yes", "on"};
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return 1;
    return 0;
}

/* Whether the list of paths has `shm`: "shm,tcp", or "^shm" for all but that.  What stands behind tcp is never reached. */
static int may_use_memory(const char *paths)
{
    if (paths == NULL) return 1;
    paths += strspn(paths, " \t");
    int excludes = *paths == '^', named = 0;
    for (paths += excludes; *paths != 0 && !named;) {
        paths += strspn(paths, " \t,");
        size_t length = strcspn(paths, " \t,");
        named = length == 3 && strncasecmp(paths, "shm", 3) == 0;
        if (length == 3 && strncasecmp(paths, "tcp", 3) == 0) break;
        paths += length;
    }
    return excludes ? !named : named;
}

static void begin(void)
{
    const char *after = setting("FASTSOCK_UPGRADE_AFTER"), *peers = setting("FASTSOCK_PEERS"),
               *installs = setting("FASTSOCK_INSTALL"), *shown = setting("FASTSOCK_SHOWN");
    if (fs_rules_read(setting("FASTSOCK_RESOLVED_RULES"), setting("FASTSOCK_CONFIG")) != 0)
        fs_memory_is_off = FS_MEMORY_LACKS_RULES;
    else if (!may_use_memory(setting("FASTSOCK_TRANSPORTS"))) fs_memory_is_off = FS_MEMORY_IS_LEFT_OUT;
    struct fs_candidate_settings settings = {
        .never = fs_memory_is_off != FS_MEMORY_IS_ON,
        .learns = after == NULL || strcmp(after, "pays") == 0,
        .calls = (uint32_t)number_in(after, 0),
        .bytes = UINT64_MAX,
        .ring_bytes = (uint32_t)number_in(setting("FASTSOCK_RING_BYTES"), 1 << 20),
        .peers = peers != NULL && strcmp(peers, "any") == 0 ? FS_PEERS_ANY : FS_PEERS_OWN,
        .hides = shown != NULL && !is_yes(shown),
        .limits = {.spin_us = number_in(setting("FASTSOCK_SPIN_US"), 50),
                   .direct_min = (size_t)number_in(setting("FASTSOCK_DIRECT_MIN"), 64 << 10)},
    };
    const char *report = setting("FASTSOCK_STATS");
    if (report != NULL) fs_report_target = strdup(report);
    fs_traces = is_yes(setting("FASTSOCK_TRACE"));
    fs_borrowing_is_over();
    pthread_atfork(NULL, NULL, fs_borrowing_is_over);
    fs_candidates_set(&settings);
    int is_unwanted = installs != NULL && strcmp(installs, "0") == 0; /* looked at while it is there */
    if (fs_children_leave_out() || is_unwanted) atomic_store(&fs_stands_aside, 1);
}

/* Another library's constructor may connect before this one's has run. */
void fs_process_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}

__attribute__((constructor)) static void begin_now(void) { fs_process_begin(); }
