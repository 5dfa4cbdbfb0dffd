/* Engines for tests. */
#ifndef FASTSOCK_TEST_ENGINES_H
#define FASTSOCK_TEST_ENGINES_H

#include "connection.h"
#include "engine/internal.h"

static const struct fs_engine_options options = {.eager_limit = 3000, .credit = 100000, .spin_us = 20};

static struct fs_engine *engine_of(int rank, int size)
{
    int error;
    struct fs_engine *engine = fs_engine_new(rank, size, &options, &error);
    CHECK(engine != NULL);
    return engine;
}

#endif
