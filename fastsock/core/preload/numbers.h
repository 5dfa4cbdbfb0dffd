/* Which number a program means by the word that it registered with an epoll object.  The kernel tells the word alone. */
#ifndef FASTSOCK_PRELOAD_NUMBERS_H
#define FASTSOCK_PRELOAD_NUMBERS_H

#include <stdint.h>

struct fs_number {
    uint64_t word;
    int32_t number; /* FREE, GONE, or it */
};

/* Its owner keeps other threads out. */
struct fs_numbers {
    struct fs_number *places;
    uint32_t room, used; /* a power of two; those that are not free */
};

enum { FS_NUMBER_FREE = 0, FS_NUMBER_GONE = -1, FS_NUMBER_NONE = -2 };

/* 0; -EEXIST: the word stands for another number; -ENOMEM. */
int fs_numbers_put(struct fs_numbers *numbers, uint64_t word, int number);
int fs_numbers_find(const struct fs_numbers *numbers, uint64_t word); /* or FS_NUMBER_NONE */
void fs_numbers_remove(struct fs_numbers *numbers, uint64_t word, int number);
void fs_numbers_clear(struct fs_numbers *numbers);

#endif
