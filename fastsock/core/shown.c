#define _GNU_SOURCE
#include "shown.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP 4096u      /* memory is asked for in such pieces: a store where none is left would end the process */
#define MOST_REMOVED 16 /* files of dead processes, by one process */
#define FOLDER "/dev/shm/fastsock-%u"

/* Under the process's lock.  A fork holds it. */
static unsigned char *memory; /* it stays at its address */
static int has_file, has_failed;
static size_t reserved;
static uint32_t made, serials, owner; /* owner: the generation of process */
static uint16_t unused[FS_SHOWN_MOST];
static size_t unused_count;
static char own_name[32];
static uid_t own_user;

static struct fs_shown_head *head(void) { return (struct fs_shown_head *)memory; }
static struct fs_shown *place(uint32_t number)
{
    return (struct fs_shown *)(memory + ((size_t)number + 1) * FS_SHOWN_EACH);
}

/* ---- the file ---- */

/* Or -1.  Another user may have made it before: then it is not used. */
static int open_folder(void)
{
    char path[40];
    struct stat seen;
    snprintf(path, sizeof path, FOLDER, (unsigned)own_user);
    if (mkdir(path, 0700) == 0 && chmod(path, 0700) != 0) return -1; /* whatever the program's umask is */
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return -1;
    if (fstat(folder, &seen) == 0 && seen.st_uid == own_user && (seen.st_mode & 077) == 0) return folder;
    close(folder);
    return -1;
}

static uint32_t own_namespace(void)
{
    struct stat seen;
    return stat("/proc/self/ns/pid", &seen) == 0 ? (uint32_t)seen.st_ino : 0;
}

static int read_own_life(struct fs_shown_head *first)
{
    char text[1024];
    unsigned long long started, stack;
    int file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return -1;
    text[got] = 0;
    const char *after = strrchr(text, ')');
    if (after == NULL || sscanf(after + 1,
                                " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                "%llu %*s %*s %*s %*s %*s %llu",
                                &started, &stack) != 2)
        return -1;
    first->started = started;
    first->stack = stack;
    return 0;
}

/* A process that is killed removes nothing.  Which ones are asked about depends on who asks. */
static void remove_dead(int folder, uint32_t namespace)
{
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), removed = 0, asked = 0;
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (list == NULL) {
        if (again >= 0) close(again);
        return;
    }
    for (struct dirent *each; removed < MOST_REMOVED && asked < 4 * MOST_REMOVED && (each = readdir(list)) != NULL;) {
        int process;
        unsigned of;
        if (sscanf(each->d_name, "%d-%u", &process, &of) != 2 || of != namespace || process <= 0) continue;
        if ((process ^ getpid()) & 1 && asked >= MOST_REMOVED) continue;
        asked++;
        if (kill(process, 0) != 0 && errno == ESRCH && unlinkat(folder, each->d_name, 0) == 0) removed++;
    }
    closedir(list);
}

/* Memory for so much of the file, or 0. */
static int reserve(int file, size_t bytes)
{
    size_t wanted = (bytes + STEP - 1) / STEP * STEP;
    if (wanted <= reserved) return 1;
    if (!fs_may_write(FS_SHOWN_BYTES) || fallocate(file, 0, (off_t)reserved, (off_t)(wanted - reserved)) != 0) return 0;
    reserved = wanted;
    return 1;
}

/* What was told before a fork is told of this process, too. */
static int map(int file, const struct fs_shown_head *first)
{
    if (!fs_may_map(FS_SHOWN_BYTES)) return 0;
    unsigned char *fresh = mmap(NULL, FS_SHOWN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (fresh == MAP_FAILED) return 0;
    memcpy(fresh, first, sizeof *first);
    if (memory == NULL) {
        memory = fresh;
    } else {
        memcpy(fresh + FS_SHOWN_EACH, memory + FS_SHOWN_EACH, (size_t)made * FS_SHOWN_EACH);
        if (mremap(fresh, FS_SHOWN_BYTES, FS_SHOWN_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == MAP_FAILED) {
            munmap(fresh, FS_SHOWN_BYTES);
            return 0;
        }
    }
    atomic_store(&head()->made, made);
    atomic_store(&head()->magic, FS_SHOWN_MAGIC);
    return 1;
}

static int make_in(int folder)
{
    struct fs_shown_head first = {
        .bytes_each = FS_SHOWN_EACH, .most = FS_SHOWN_MOST, .process = getpid(), .namespace = own_namespace()};
    if (read_own_life(&first) != 0 || !fs_may_write(FS_SHOWN_BYTES)) return 0;
    snprintf(own_name, sizeof own_name, "%d-%u", getpid(), first.namespace);
    remove_dead(folder, first.namespace);
    unlinkat(folder, own_name, 0); /* of an earlier program of this process, or of another process */
    int file = openat(folder, own_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return 0;
    reserved = 0;
    int done = fchmod(file, 0600) == 0 && ftruncate(file, FS_SHOWN_BYTES) == 0 &&
               reserve(file, ((size_t)made + 1) * FS_SHOWN_EACH) && map(file, &first);
    close(file);
    if (!done) unlinkat(folder, own_name, 0);
    return done;
}

static void make_file(void)
{
    int kept = errno;
    own_user = geteuid();
    int folder = open_folder();
    has_file = folder >= 0 && make_in(folder);
    has_failed = !has_file; /* and it is not tried again */
    owner = fs_generation();
    if (folder >= 0) close(folder);
    errno = kept;
}

static int make_room(void)
{
    size_t bytes = ((size_t)made + 2) * FS_SHOWN_EACH;
    if (made >= FS_SHOWN_MOST) return 0;
    if (bytes <= reserved) return 1;
    int kept = errno, folder = open_folder();
    int file = folder < 0 ? -1 : openat(folder, own_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    int done = file >= 0 && reserve(file, bytes);
    if (file >= 0) close(file);
    if (folder >= 0) close(folder);
    errno = kept;
    return done;
}

/* ---- places ---- */

static void clear(_Atomic uint64_t *count) { atomic_store_explicit(count, 0, memory_order_relaxed); }

/* Who had the place before may still count: each word is stored as a whole. */
static void begin(struct fs_shown *shown, int descriptor, uint32_t role)
{
    atomic_store(&shown->serial, 0);
    atomic_store(&shown->why, 0);
    atomic_store(&shown->state, 0);
    atomic_store(&shown->peer, 0);
    clear(&shown->bytes_out), clear(&shown->calls_out), clear(&shown->wakes), clear(&shown->extra_out);
    clear(&shown->bytes_in), clear(&shown->calls_in), clear(&shown->waits), clear(&shown->extra_in);
    atomic_store(&shown->descriptor, descriptor);
    atomic_store(&shown->role, role);
    if (++serials == 0) serials = 1;
    atomic_store(&shown->serial, serials);
}

struct fs_shown *fs_shown_take(int descriptor, uint32_t role)
{
    struct fs_shown *shown = NULL;
    fs_hold_process();
    if (!has_file && !has_failed) make_file();
    if (has_file && unused_count > 0) {
        shown = place(unused[--unused_count]);
    } else if (has_file && make_room()) {
        shown = place(made++);
        atomic_store(&head()->made, made);
    } else if (has_file) {
        atomic_fetch_add(&head()->missed, 1);
    }
    if (shown != NULL) begin(shown, descriptor, role);
    fs_release_process();
    return shown;
}

/* All that is counted there is 0. */
_Static_assert(offsetof(struct fs_shown_rank, bytes_out) == offsetof(struct fs_shown, bytes_out) &&
                   offsetof(struct fs_shown_rank, messages_in) < offsetof(struct fs_shown, extra_in) &&
                   offsetof(struct fs_shown_daemon, calls) == offsetof(struct fs_shown, bytes_out) &&
                   offsetof(struct fs_shown_daemon, host) == offsetof(struct fs_shown, bytes_in),
               "begin() clears these words");

struct fs_shown_rank *fs_shown_take_rank(int rank, int size)
{
    struct fs_shown_rank *shown = (struct fs_shown_rank *)fs_shown_take(getpid(), FS_SHOWN_RANK);
    if (shown == NULL) return NULL;
    atomic_store(&shown->rank, (uint32_t)rank);
    atomic_store(&shown->size, (uint32_t)size); /* 0 until now: no reader takes it for a rank */
    return shown;
}

struct fs_shown_daemon *fs_shown_take_daemon(const uint64_t host[2], uint32_t port)
{
    struct fs_shown_daemon *shown = (struct fs_shown_daemon *)fs_shown_take(getpid(), FS_SHOWN_DAEMON);
    if (shown == NULL) return NULL;
    atomic_store(&shown->host[0], host[0]);
    atomic_store(&shown->host[1], host[1]);
    atomic_store(&shown->port, port); /* 0 until now: no reader takes it for a daemon */
    return shown;
}

void fs_shown_give(void *given)
{
    struct fs_shown *shown = given;
    if (shown == NULL) return;
    fs_hold_process();
    atomic_store(&shown->serial, 0);
    unused[unused_count++] = (uint16_t)(((unsigned char *)shown - memory) / FS_SHOWN_EACH - 1);
    fs_release_process();
}

/* ---- forks, and the end ---- */

/* The parent's file is the parent's.  What this process counts goes into memory of its own until it makes a file. */
static void begin_anew(void)
{
    has_file = has_failed = 0;
    if (memory == NULL) return;
    void *fresh =
        mmap(NULL, FS_SHOWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh != MAP_FAILED) memcpy(fresh, memory, ((size_t)made + 1) * FS_SHOWN_EACH);
    has_failed = fresh == MAP_FAILED ||
                 mremap(fresh, FS_SHOWN_BYTES, FS_SHOWN_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == MAP_FAILED;
}
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, begin_anew); }

__attribute__((destructor)) static void end(void)
{
    char path[80];
    if (!has_file || owner != fs_generation()) return;
    snprintf(path, sizeof path, FOLDER "/%s", (unsigned)own_user, own_name);
    unlink(path);
}
