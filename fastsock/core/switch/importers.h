/* Where each end takes buffers (core/registered), as the two tell each other in the memory that they share. */
#ifndef FASTSOCK_IMPORTERS_H
#define FASTSOCK_IMPORTERS_H

#include "connection.h"

/* 0; -EAGAIN: the connection has no memory; -EBADF: the number is not its any more. */
int fs_importer_show(struct fs_connection *connection, int descriptor, uint64_t importer);
/* 0: nowhere. */
uint64_t fs_importer_own(struct fs_connection *connection, int descriptor); /* as it was shown last */
uint64_t fs_importer_other(struct fs_connection *connection, int descriptor);
/* Whether the close of this number is the connection's last one in this process. */
static inline int fs_importer_closes(const struct fs_connection *connection)
{
    return atomic_load(&connection->descriptors) == 1;
}

#endif
