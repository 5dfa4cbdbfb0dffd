/* What a fuzzer is given, taken from the front; behind its end everything is 0. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

static inline uint64_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint64_t value = 0;
    if (bytes > input->left) bytes = input->left;
    if (bytes > 0) memcpy(&value, input->data, bytes);
    input->data += bytes, input->left -= bytes;
    return value;
}

#endif
