/* A program that finds something wrong says where, and ends with 1. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                 \
    do                                                                                   \
        if (!(condition)) {                                                              \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
            _exit(1);                                                                    \
        }                                                                                \
    while (0)

#endif
