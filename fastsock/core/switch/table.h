/* Which connection a descriptor is: the one owner of that knowledge.
 *
 * Threads may call all of this at once, and need no lock of an interpreter.  A program that closes a number while another
 * thread uses it may mix up two of its own connections, as it may with the kernel; it can break nothing here.
 */
#ifndef FASTSOCK_TABLE_H
#define FASTSOCK_TABLE_H

#include "connection.h"

/* A TCP stream that is connected, or is connecting.  0, or -errno: it stays outside.  An older entry is forgotten: that
 * number was closed without a word. */
int fs_table_enter(int descriptor, enum fs_role role);

/* Chunks of the numbers, made as they are needed. */
enum { FS_TABLE_CHUNK_BITS = 10, FS_TABLE_CHUNKS = 1 << 11 };
typedef struct fs_connection *_Atomic fs_table_entry;
typedef fs_table_entry *_Atomic fs_table_chunk;
extern fs_table_chunk fs_table_chunks[FS_TABLE_CHUNKS];

/* `chunks` is fs_table_chunks: for other modules, which know where it is and not its name.  NULL: such a number was never
 * in the table. */
static inline fs_table_entry *fs_table_place_in(fs_table_chunk *chunks, int descriptor)
{
    unsigned number = (unsigned)descriptor;
    if (number >> FS_TABLE_CHUNK_BITS >= FS_TABLE_CHUNKS) return NULL;
    fs_table_entry *chunk = atomic_load_explicit(&chunks[number >> FS_TABLE_CHUNK_BITS], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[number & ((1u << FS_TABLE_CHUNK_BITS) - 1)];
}
static inline fs_table_entry *fs_table_place(int descriptor) { return fs_table_place_in(fs_table_chunks, descriptor); }

/* NULL: no connection of the table. */
static inline struct fs_connection *fs_table_find_in(fs_table_chunk *chunks, int descriptor)
{
    fs_table_entry *place = fs_table_place_in(chunks, descriptor);
    return place == NULL ? NULL : atomic_load(place);
}
static inline struct fs_connection *fs_table_find(int descriptor)
{
    return fs_table_find_in(fs_table_chunks, descriptor);
}

/* Whether the number is still this connection's, and the record this one's: asked after a lock was taken, or a mark set. */
static inline int fs_table_is(struct fs_connection *connection, int descriptor, const struct fs_record *record)
{
    return fs_table_find(descriptor) == connection && atomic_load(&connection->record) == record;
}
/* After dup(), dup2(): `as` is the same connection.  Before dup2() fs_leave_descriptor(as) is called.  0, -ENOENT: the
 * first one is not in the table. */
int fs_table_duplicate(int descriptor, int as);
/* Takes the number out.  The connection, if that was its last number here and something is to be said of it: the caller
 * says that, and then calls fs_table_forget().  Else NULL; one of which nothing is to be said is forgotten already. */
struct fs_connection *fs_table_remove(int descriptor);
void fs_table_forget(struct fs_connection *connection);
void fs_table_abandon(void);        /* of a fresh child that uses none: it is not counted any more */
void fs_table_lose(int descriptor); /* the number was closed without a word, and may be another file's by now */
int fs_table_next(int descriptor);  /* the first number from there on that is in the table, or -1 */

/* While it is held this process does not fork, and nothing is offered, joined or withdrawn but by the holder.  Nobody waits
 * while he holds it. */
void fs_table_hold(void);
void fs_table_release(void);

/* Between the two `end` stays where it is, also when the connection leaves: for who looks at it without a lock.  0: the
 * number is another connection's, or none: nothing was entered. */
int fs_connection_enter(struct fs_connection *connection, int descriptor);
void fs_connection_exit(struct fs_connection *connection);

#endif
