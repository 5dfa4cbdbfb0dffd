#include "numbers.h"

#include <errno.h>
#include <stdlib.h>

#define FEWEST 64u

static uint32_t begin_of(uint64_t word, uint32_t room)
{
    word ^= word >> 32;
    return (uint32_t)((word * 0x9e3779b97f4a7c15ull) >> 32) & (room - 1);
}

/* Numbers are kept as one more than they are. */
static struct fs_number *place_of(const struct fs_numbers *numbers, uint64_t word)
{
    if (numbers->room == 0) return NULL;
    for (uint32_t i = begin_of(word, numbers->room);; i = (i + 1) & (numbers->room - 1)) {
        struct fs_number *place = &numbers->places[i];
        if (place->number == FS_NUMBER_FREE) return NULL;
        if (place->number > 0 && place->word == word) return place;
    }
}

int fs_numbers_find(const struct fs_numbers *numbers, uint64_t word)
{
    const struct fs_number *place = place_of(numbers, word);
    return place == NULL ? FS_NUMBER_NONE : place->number - 1;
}

static void put_new(struct fs_numbers *numbers, uint64_t word, int32_t kept)
{
    uint32_t i = begin_of(word, numbers->room);
    while (numbers->places[i].number > 0) i = (i + 1) & (numbers->room - 1);
    if (numbers->places[i].number == FS_NUMBER_FREE) numbers->used++;
    numbers->places[i] = (struct fs_number){word, kept};
}

/* With none of those that are gone. */
static int make_room(struct fs_numbers *numbers)
{
    if ((numbers->used + 1) * 2 <= numbers->room) return 0;
    struct fs_numbers fresh = {.room = numbers->room == 0 ? FEWEST : numbers->room};
    uint32_t live = 0;
    for (uint32_t i = 0; i < numbers->room; i++) live += numbers->places[i].number > 0;
    if ((live + 1) * 4 > fresh.room) fresh.room *= 2;
    fresh.places = calloc(fresh.room, sizeof *fresh.places);
    if (fresh.places == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < numbers->room; i++)
        if (numbers->places[i].number > 0) put_new(&fresh, numbers->places[i].word, numbers->places[i].number);
    free(numbers->places);
    *numbers = fresh;
    return 0;
}

int fs_numbers_put(struct fs_numbers *numbers, uint64_t word, int number)
{
    const struct fs_number *place = place_of(numbers, word);
    if (place != NULL) return place->number == number + 1 ? 0 : -EEXIST;
    int error = make_room(numbers);
    if (error == 0) put_new(numbers, word, number + 1);
    return error;
}

void fs_numbers_remove(struct fs_numbers *numbers, uint64_t word, int number)
{
    struct fs_number *place = place_of(numbers, word);
    if (place != NULL && place->number == number + 1) place->number = FS_NUMBER_GONE;
}

void fs_numbers_clear(struct fs_numbers *numbers)
{
    free(numbers->places);
    *numbers = (struct fs_numbers){NULL, 0, 0};
}
