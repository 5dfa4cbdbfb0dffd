/* What is said of a connection, in the words of Python's reports (connection/carriers.py, reporting/). */
#ifndef FASTSOCK_PRELOAD_DESCRIBING_H
#define FASTSOCK_PRELOAD_DESCRIBING_H

#include "switch/closed.h"

/* A line, in a place of the caller's.  What it has no room for is left out.  Nothing here allocates, or takes a lock. */
struct fs_line {
    char *bytes;
    size_t room, length;
    int escapes; /* for a string of JSON */
};

void fs_line_put(struct fs_line *line, const char *text);
void fs_line_number(struct fs_line *line, uint64_t number);
void fs_line_separated(struct fs_line *line, uint64_t number); /* as 1,234,567 */
void fs_line_quoted(struct fs_line *line, const char *text);   /* as JSON */

const char *fs_describe_role(const struct fs_closed *seen);
const char *fs_describe_path(const struct fs_closed *seen);
const char *fs_describe_reason(const struct fs_closed *seen);
void fs_line_detail(struct fs_line *line, const struct fs_closed *seen); /* nothing: there is none */
void fs_line_reason(struct fs_line *line, const struct fs_closed *seen, const char *opens, const char *closes);

/* "host:port"; as a tuple of Python; as a list of JSON. */
void fs_line_address(struct fs_line *line, const union fs_closed_address *address);
void fs_line_tuple(struct fs_line *line, const union fs_closed_address *address);
void fs_line_list(struct fs_line *line, const union fs_closed_address *address);

/* The line, whole, in one write.  No SIGPIPE or SIGXFSZ comes of it, and errno stays. */
void fs_write_line(int file, struct fs_line *line);
/* To standard error, unless the program has closed that, or its number means another file by now that may hold data. */
void fs_line_print(struct fs_line *line);

#endif
