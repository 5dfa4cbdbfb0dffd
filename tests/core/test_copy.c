/* Copies past the caches against memcpy(): any place, any length, nothing beside it. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "copy.h"

#define MOST ((size_t)1 << 21)
#define MANY ((size_t)1 << 30)
#define MARGIN ((size_t)256)

static void copied_as_memcpy_does(struct random *random, size_t bytes, size_t moved)
{
    CHECK(bytes <= MOST);
    size_t room = bytes + 2 * MARGIN, from = random_below(random, MARGIN), to = random_below(random, MARGIN);
    unsigned char *source = malloc(room), *target = malloc(room), *expected = malloc(room);
    CHECK(source != NULL && target != NULL && expected != NULL);
    for (size_t i = 0; i < room; i++) source[i] = (unsigned char)(i * 31 + i / 251);
    memset(target, 0xa5, room);
    memset(expected, 0xa5, room);
    memcpy(expected + to, source + from, bytes);
    fs_copy_beside(target + to, source + from, bytes, moved);
    CHECK(memcmp(target, expected, room) == 0);
    free(source);
    free(target);
    free(expected);
}

TEST(copies_are_those_of_memcpy_wherever_they_lie, 0)
{
    struct random random = random_from(1);
    for (int i = 0; i < 12; i++) {
        copied_as_memcpy_does(&random, MOST / 2 + random_below(&random, MOST / 2), MANY);
        copied_as_memcpy_does(&random, MOST / 2 - 1 + random_below(&random, 3), MANY);
        copied_as_memcpy_does(&random, random_below(&random, 4096), i % 2 ? MANY : 0);
    }
}
