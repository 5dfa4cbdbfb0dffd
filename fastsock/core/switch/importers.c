#include "importers.h"

#include <errno.h>

#include "table.h"

/* Between enter and exit: the memory that both ends have, or NULL. */
static struct fs_end *shared(const struct fs_connection *connection)
{
    return fs_record_state(connection->record) == FS_ATTACHED ? connection->end : NULL;
}

int fs_importer_show(struct fs_connection *connection, int descriptor, uint64_t importer)
{
    if (!fs_connection_enter(connection, descriptor)) return -EBADF;
    struct fs_end *end = shared(connection);
    if (end != NULL) fs_end_show_importer(end, importer);
    fs_connection_exit(connection);
    return end != NULL ? 0 : -EAGAIN;
}

static uint64_t word_of(struct fs_connection *connection, int descriptor, int own)
{
    uint64_t word = 0;
    if (!fs_connection_enter(connection, descriptor)) return 0;
    struct fs_end *end = shared(connection);
    if (end != NULL) word = atomic_load(&end->header->importer[own ? end->side : !end->side]);
    fs_connection_exit(connection);
    return word;
}

uint64_t fs_importer_own(struct fs_connection *connection, int descriptor)
{
    return word_of(connection, descriptor, 1);
}
uint64_t fs_importer_other(struct fs_connection *connection, int descriptor)
{
    return word_of(connection, descriptor, 0);
}
