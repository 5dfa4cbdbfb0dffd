/* The rules of FASTSOCK_CONFIG, as the command has checked and resolved them (launching/preloading.py). */
#ifndef FASTSOCK_PRELOAD_RULES_H
#define FASTSOCK_PRELOAD_RULES_H

#include <stdint.h>
#include <sys/socket.h>

#include "switch/record.h"

struct fs_rule {
    enum fs_role role;
    int family; /* AF_UNSPEC: each address */
    unsigned char address[16];
    unsigned bits; /* of the address, that count */
    uint16_t first_port, last_port;
    int has_memory;
    unsigned line; /* of the file */
    const char *host, *paths;
};

/* Before threads may ask.  `text`: the resolved rules or NULL, `file`: what FASTSOCK_CONFIG names.  -1: they cannot be used,
 * because they are not whole, or another file's: then all connections stay on TCP. */
int fs_rules_read(const char *text, const char *file);
const char *fs_rules_file(void);
int fs_rules_has(enum fs_role role);
/* The first rule that matches: `listener` is the address connected to, or the one that was listened at.  NULL: none. */
const struct fs_rule *fs_rules_find(enum fs_role role, const struct sockaddr *listener);

#endif
