/* What a process shows of itself: a file that tells whose it is, counts of this process alone, and nothing left
 * behind. */
#define _GNU_SOURCE
#include "shown.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define FIRST FS_SHOWN_EACH

static const char *path_of(pid_t process)
{
    static char path[80];
    struct stat seen;
    CHECK_EQUAL(stat("/proc/self/ns/pid", &seen), 0);
    snprintf(path, sizeof path, "/dev/shm/fastsock-%u/%d-%u", (unsigned)geteuid(), (int)process, (unsigned)seen.st_ino);
    return path;
}

static const unsigned char *read_file(pid_t process)
{
    int file = open(path_of(process), O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0);
    const unsigned char *memory = mmap(NULL, FS_SHOWN_BYTES, PROT_READ, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED);
    close(file);
    return memory;
}

static int is_there(pid_t process) { return access(path_of(process), F_OK) == 0; }
static const struct fs_shown *shown_at(const unsigned char *memory, size_t number)
{
    return (const struct fs_shown *)(memory + FIRST + number * FS_SHOWN_EACH);
}

TEST(others_read_what_a_process_shows, 0)
{
    CHECK(!is_there(getpid()));
    struct fs_shown *shown = fs_shown_take(7, 2);
    CHECK(shown != NULL);
    _Atomic uint64_t sent = 1234;
    fs_show_count(&shown->bytes_out, &sent);
    const unsigned char *seen = read_file(getpid());
    const struct fs_shown_head *head = (const struct fs_shown_head *)seen;
    CHECK_EQUAL(head->magic, FS_SHOWN_MAGIC);
    CHECK_EQUAL(head->process, getpid());
    CHECK(head->started > 0);
    CHECK_EQUAL(head->made, 1);
    CHECK_EQUAL(shown_at(seen, 0)->descriptor, 7);
    CHECK_EQUAL(shown_at(seen, 0)->role, 2);
    CHECK_EQUAL(shown_at(seen, 0)->bytes_out, 1234);
    uint32_t serial = shown_at(seen, 0)->serial;
    CHECK(serial != 0);
    fs_shown_give(shown);
    CHECK_EQUAL(shown_at(seen, 0)->serial, 0);
    CHECK(fs_shown_take(8, 1) == shown);
    CHECK(shown_at(seen, 0)->serial != serial);
    CHECK_EQUAL(shown_at(seen, 0)->bytes_out, 0);
}

TEST(a_rank_and_a_daemon_have_places_too, 0)
{
    const uint64_t host[2] = {0, 0x0100007fffff0000ull};
    struct fs_shown *shown = fs_shown_take(7, 2);
    struct fs_shown_rank *rank = fs_shown_take_rank(1, 3);
    struct fs_shown_daemon *daemon = fs_shown_take_daemon(host, 8000);
    CHECK(shown != NULL && rank != NULL && daemon != NULL);
    fs_count(&rank->collectives, 5);
    fs_count(&rank->bytes_in, 6);
    fs_count(&daemon->errors, 7);
    const unsigned char *seen = read_file(getpid());
    const struct fs_shown_rank *seen_rank = (const struct fs_shown_rank *)shown_at(seen, 1);
    const struct fs_shown_daemon *seen_daemon = (const struct fs_shown_daemon *)shown_at(seen, 2);
    CHECK_EQUAL(seen_rank->role, FS_SHOWN_RANK);
    CHECK_EQUAL(seen_rank->process, getpid());
    CHECK_EQUAL(seen_rank->rank, 1);
    CHECK_EQUAL(seen_rank->size, 3);
    CHECK_EQUAL(seen_rank->collectives, 5);
    CHECK_EQUAL(seen_rank->bytes_in, 6);
    CHECK_EQUAL(seen_daemon->role, FS_SHOWN_DAEMON);
    CHECK_EQUAL(seen_daemon->port, 8000);
    CHECK_EQUAL(seen_daemon->host[1], host[1]);
    CHECK_EQUAL(seen_daemon->errors, 7);
    fs_shown_give(rank);
    fs_shown_give(daemon);
    CHECK_EQUAL(seen_rank->serial, 0);
    CHECK(fs_shown_take(9, 1) == (struct fs_shown *)daemon);
    CHECK_EQUAL(shown_at(seen, 2)->bytes_out, 0);
    CHECK_EQUAL(shown_at(seen, 2)->wakes, 0);
}

TEST(no_other_user_may_look, 0)
{
    struct stat seen;
    umask(0);
    CHECK(fs_shown_take(7, 1) != NULL);
    CHECK_EQUAL(stat(path_of(getpid()), &seen), 0);
    CHECK_EQUAL(seen.st_mode & 0777, 0600);
    CHECK_EQUAL(lstat("/dev/shm", &seen), 0);
}

TEST(a_process_without_room_shows_what_it_can, 0)
{
    static struct fs_shown *taken[FS_SHOWN_MOST];
    for (int i = 0; i < FS_SHOWN_MOST; i++) CHECK((taken[i] = fs_shown_take(i, 1)) != NULL);
    const struct fs_shown_head *head = (const struct fs_shown_head *)read_file(getpid());
    CHECK(fs_shown_take(5000, 1) == NULL);
    CHECK_EQUAL(head->made, FS_SHOWN_MOST);
    CHECK_EQUAL(head->missed, 1);
    fs_shown_give(taken[3]);
    CHECK(fs_shown_take(5001, 1) == taken[3]);
    fs_shown_give(NULL);
}

TEST(a_process_that_may_write_no_file_shows_nothing, 0)
{
    struct rlimit limit = {1024, 1024};
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK(fs_shown_take(7, 1) == NULL);
    CHECK(!is_there(getpid()));
}

static int status_of(pid_t child)
{
    int status;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    return status;
}

TEST(a_forked_child_counts_for_itself, NEEDS_PROCESSES)
{
    struct fs_shown *shown = fs_shown_take(7, 1);
    CHECK(shown != NULL);
    atomic_store(&shown->bytes_out, 10);
    pid_t child = fork();
    if (child == 0) {
        atomic_store(&shown->bytes_out, 20);
        CHECK(!is_there(getpid()));
        CHECK(fs_shown_take(9, 2) != NULL);
        const unsigned char *seen = read_file(getpid());
        CHECK_EQUAL(((const struct fs_shown_head *)seen)->process, getpid());
        CHECK_EQUAL(((const struct fs_shown_head *)seen)->made, 2);
        CHECK_EQUAL(shown_at(seen, 0)->bytes_out, 20); /* what it has from its parent is shown, too */
        CHECK_EQUAL(shown_at(seen, 1)->descriptor, 9);
        atomic_store(&shown->bytes_out, 30);
        CHECK_EQUAL(shown_at(seen, 0)->bytes_out, 30);
        exit(0);
    }
    CHECK_EQUAL(status_of(child), 0);
    CHECK_EQUAL(shown_at(read_file(getpid()), 0)->bytes_out, 10);
    CHECK(is_there(getpid()));
    CHECK(!is_there(child));
}

TEST(what_a_killed_process_leaves_is_removed_by_the_next_ones, NEEDS_PROCESSES)
{
    pid_t killed = fork();
    if (killed == 0) {
        CHECK(fs_shown_take(7, 1) != NULL);
        raise(SIGKILL);
    }
    CHECK(WIFSIGNALED(status_of(killed)));
    CHECK(is_there(killed));
    for (int i = 0; i < 200 && is_there(killed); i++) {
        pid_t next = fork();
        if (next == 0) {
            CHECK(fs_shown_take(7, 1) != NULL);
            exit(0);
        }
        CHECK_EQUAL(status_of(next), 0);
    }
    CHECK(!is_there(killed));
}
