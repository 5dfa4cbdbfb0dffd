/* IBVX: what the message engine needs of verbs, for one process.
 *
 * One device, one protection domain, one completion queue and one shared receive queue serve all peers.  Each peer has
 * a queue pair of a reliable connection.  Short data goes in segments through registered buffers.  A segment is sent
 * only with a credit, and each credit stands for a buffer in the other end's receive queue: a receiver that is not
 * ready does not occur.
 *
 * The calls for a pair belong to one thread at a time, but fs_ibvx_has_input() and fs_ibvx_has_room().
 */
#ifndef FASTSOCK_IBVX_H
#define FASTSOCK_IBVX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fs_ibvx;
struct fs_ibvx_pair;

/* Where a queue pair is.  Travels between the two ends by another way, as it lies in memory. */
struct fs_ibvx_address {
    uint64_t magic; /* also says the byte order */
    uint32_t rank, queue_pair, sequence, credits;
    uint16_t lid, mtu;
    uint32_t global; /* the GID counts, not the LID */
    uint8_t gid[16];
    uint64_t ring; /* where the other end's device may write segments, or 0 */
    uint32_t ring_key;
    uint32_t reads; /* of the other end that may be under way at once; 0: one */
};

struct fs_ibvx_counts {
    uint64_t segments, received, inlined, signalled, credit_segments, stalls;
    uint64_t written;       /* segments, and returns of credits, that this device wrote into the other end's ring */
    uint64_t placed;        /* bytes that this device wrote from where they lay to where they belong */
    uint64_t fetched;       /* bytes that it read so */
    uint64_t refused;       /* long messages, at this end, that went in segments: no more memory may be known */
    uint64_t known_already; /* long messages whose memory the device knew from an earlier one */
    /* of the whole process: bytes of programs' memory that the device knows now, and at most */
    uint64_t registered, most_registered;
};

struct fs_ibvx_options {
    const char *device; /* its name, or NULL: */
    const char *local;  /* the one with this IP address, or else the first that is active */
    size_t memory;      /* bytes of programs' memory that it may know at once */
    int keeps;          /* beyond its message, where the kernel tells when it is unmapped */
    int rings;          /* segments are written into memory that is looked at, where both ends want it */
};

/* NULL with -errno: -ENOSYS fastsock was built without verbs, those of fs_verbs_library(), -ENODEV no port is active. */
struct fs_ibvx *fs_ibvx_open(const struct fs_ibvx_options *options, int *error);
void fs_ibvx_close(struct fs_ibvx *device); /* all its pairs are free */
const char *fs_ibvx_name(const struct fs_ibvx *device);
/* Readable once fs_ibvx_arm() found nothing and something came since. */
int fs_ibvx_descriptor(const struct fs_ibvx *device);
int fs_ibvx_news_descriptor(const struct fs_ibvx *device); /* readable where the device itself failed */
int fs_ibvx_arm(struct fs_ibvx *device);                   /* 1: something came already */

struct fs_ibvx_pair *fs_ibvx_pair_new(struct fs_ibvx *device, int rank, int peer, int *error);
/* Its resources go; what was sent arrives before, for at most `patience_ms`. */
void fs_ibvx_pair_close(struct fs_ibvx_pair *pair, int patience_ms);
/* The memory: nobody looks any more.  A forked child frees what it inherited without closing it. */
void fs_ibvx_pair_free(struct fs_ibvx_pair *pair);
struct fs_ibvx_address fs_ibvx_address_of(const struct fs_ibvx_pair *pair);
int fs_ibvx_connect(struct fs_ibvx_pair *pair, const struct fs_ibvx_address *there); /* 0 or -errno: it can receive */
void fs_ibvx_begin(struct fs_ibvx_pair *pair);                                       /* the other end can receive */

/* As many bytes as can go, or come, now, or -EPIPE. */
ssize_t fs_ibvx_write(struct fs_ibvx_pair *pair, const struct iovec *parts, int count);
ssize_t fs_ibvx_read(struct fs_ibvx_pair *pair, void *target, size_t length); /* NULL: to nowhere */
void fs_ibvx_taken(struct fs_ibvx_pair *pair);                                /* a round of reading ends */
int fs_ibvx_has_input(struct fs_ibvx_pair *pair);
int fs_ibvx_has_room(struct fs_ibvx_pair *pair);
int fs_ibvx_must_be_looked_at(const struct fs_ibvx_pair *pair); /* its descriptor does not tell of input */
/* What memory is known for.  Memory that others may touch serves one message at a time: so it can be taken from them. */
enum fs_ibvx_use { FS_IBVX_SOURCE, FS_IBVX_TARGET, FS_IBVX_WRITTEN_BY_OTHERS, FS_IBVX_READ_BY_OTHERS, FS_IBVX_EXPOSED };
/* Memory that the device knows.  NULL: it takes no more, or may not.  These calls belong to one thread at a time, for
 * all pairs of the device. */
struct fs_ibvx_region *fs_ibvx_know(struct fs_ibvx_pair *pair, void *memory, size_t length, enum fs_ibvx_use use);
void fs_ibvx_forget(struct fs_ibvx_region *region); /* the message is done */
void fs_ibvx_revoke(
    struct fs_ibvx_region *region); /* it is not: what others still do with it fails, and the link with it */
/* The device knows that memory until it is unpinned, and all that is sent from there uses that.  0, or -ENOMEM,
 * -EOPNOTSUPP (the kernel does not tell when it is unmapped), -ENOENT. */
int fs_ibvx_pin(struct fs_ibvx *device, void *memory, size_t length);
int fs_ibvx_unpin(struct fs_ibvx *device, void *memory, size_t length);
uint32_t fs_ibvx_key(const struct fs_ibvx_region *region); /* for the other end */
/* All other ends may write and read that memory, by the key, until it is concealed: 0, or -ENOMEM. */
int fs_ibvx_expose(struct fs_ibvx *device, void *memory, size_t length, uint32_t *key);
int fs_ibvx_conceal(struct fs_ibvx *device, uint32_t key); /* 0, or -ENOENT */
/* The device writes from that memory to `address` over there, or reads from there, in pieces: how many bytes of `length`
 * were begun.  It is done once fs_ibvx_pieces_done() reaches what fs_ibvx_pieces_begun() says now.  What is sent after a
 * write comes after it; of a read that does not hold.  Where `region` is NULL the bytes go through buffers: then what is
 * begun of a write may change, and fs_ibvx_pieces_done() brings what was read.  fs_ibvx_has_buffers() comes first. */
enum fs_ibvx_way { FS_IBVX_WRITE, FS_IBVX_READ };
size_t fs_ibvx_transfer(struct fs_ibvx_pair *pair, enum fs_ibvx_way way, const struct fs_ibvx_region *region,
                        void *memory, size_t length, uint64_t address, uint32_t key);
int fs_ibvx_has_buffers(struct fs_ibvx_pair *pair); /* 0: no memory for them */
uint32_t fs_ibvx_pieces_begun(const struct fs_ibvx_pair *pair);
uint32_t fs_ibvx_pieces_done(struct fs_ibvx_pair *pair);
const char *fs_ibvx_failure(const struct fs_ibvx_pair *pair); /* NULL: none */
struct fs_ibvx_counts fs_ibvx_counts_of(const struct fs_ibvx_pair *pair);

#endif
