#define _GNU_SOURCE
#include "registrations.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST_LINE 256

struct registration {
    struct registration *next;
    int poller;
    uint32_t events;
    uint64_t data;
};

static int is_poller(int directory, const char *name)
{
    static const char kind[] = "anon_inode:[eventpoll]";
    char target[sizeof kind];
    return readlinkat(directory, name, target, sizeof target) == (ssize_t)sizeof kind - 1 &&
           memcmp(target, kind, sizeof kind - 1) == 0;
}

/* What the kernel tells of a poller's descriptor: a line for each registration. */
static struct registration *find_in(int poller, int number, ino_t file)
{
    char path[64], line[LONGEST_LINE];
    struct registration *found = NULL;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", poller);
    FILE *lines = fopen(path, "re");
    while (lines != NULL && found == NULL && fgets(line, sizeof line, lines) != NULL) {
        int registered;
        unsigned events;
        uint64_t data, inode;
        if (sscanf(line, "tfd: %d events: %x data: %" SCNx64 " pos:%*d ino:%" SCNx64, &registered, &events, &data,
                   &inode) != 4)
            continue;
        if (registered != number || inode != file) continue; /* or a number that was used before */
        found = malloc(sizeof *found);
        if (found == NULL) break;
        *found = (struct registration){NULL, poller, events, data};
    }
    if (lines != NULL) fclose(lines);
    return found;
}

static struct registration *take_out(int number)
{
    struct registration *list = NULL;
    struct stat status;
    DIR *numbers = fstat(number, &status) == 0 ? opendir("/proc/self/fd") : NULL;
    if (numbers == NULL) return NULL;
    for (struct dirent *each; (each = readdir(numbers)) != NULL;) {
        if (!is_poller(dirfd(numbers), each->d_name)) continue;
        struct registration *found = find_in(atoi(each->d_name), number, status.st_ino);
        if (found != NULL && epoll_ctl(found->poller, EPOLL_CTL_DEL, number, NULL) == 0) {
            found->next = list;
            list = found;
        } else {
            free(found); /* another number of a poller that we had already */
        }
    }
    closedir(numbers);
    return list;
}

static void make_again(int number, struct registration *list)
{
    while (list != NULL) {
        struct registration *next = list->next;
        struct epoll_event event = {.events = list->events, .data.u64 = list->data};
        epoll_ctl(list->poller, EPOLL_CTL_ADD, number,
                  &event); /* closed by another thread meanwhile: nobody waits there */
        free(list);
        list = next;
    }
}

int fs_replace_watched(int source, int number, int flags)
{
    struct registration *list = take_out(number);
    int error = dup3(source, number, flags) < 0 ? -errno : 0;
    make_again(number, list);
    return error;
}
