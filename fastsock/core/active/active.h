/* The header path of active messages: frames, credits, and who may send what. It does no input or output itself.
 *
 * A connection joins an end that asks (its entry of a translation table) and one that answers. The asking end sends
 * requests, the answering end exactly one answer to each: a reply, or FS_AM_DONE, or FS_AM_RETURNED. The number of a
 * request names a slot, and both ends have as many slots as the answering end granted: so credit is a free slot, and no
 * queue at either end grows beyond it. Slots are of two kinds, for short and for bulk requests.
 *
 * A frame: 16 bytes, little-endian, then a word of 8 bytes for each argument, then the offset where the kind has one,
 * then the payload.
 *
 *     offset bytes
 *     0      1     kind
 *     1      1     number of words, at most 16
 *     2      2     handler, or the reason of FS_AM_RETURNED
 *     4      4     number of the request
 *     8      8     bytes of the payload; of FS_AM_GET: bytes wanted
 *
 * All that comes in is hostile: fs_am_take() answers -EPROTO, with the reason in `wrong`, for what no honest end sends.
 */
#ifndef FASTSOCK_ACTIVE_H
#define FASTSOCK_ACTIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define fs_am_little_32(word) __builtin_bswap32(word)
#define fs_am_little_64(word) __builtin_bswap64(word)
enum { FS_AM_IS_LITTLE = 0 };
#else
#define fs_am_little_32(word) (word)
#define fs_am_little_64(word) (word)
enum { FS_AM_IS_LITTLE = 1 };
#endif

enum {
    FS_AM_HEADER = 16,
    FS_AM_WORDS = 16,
    FS_AM_WORD = 8,
    FS_AM_MEDIUM = 8192, /* most bytes of a payload that is no bulk */
    FS_AM_HEAD = FS_AM_HEADER + FS_AM_WORDS * FS_AM_WORD + FS_AM_WORD,
    FS_AM_ROOM = 16384, /* to receive into: more than the longest frame without its bulk */
    FS_AM_MOST_SLOTS = 1024
};

enum { FS_AM_ASKS = 0, FS_AM_ANSWERS = 1 };
enum { FS_AM_SHORT = 0, FS_AM_LONG = 1 }; /* kinds of slots */

enum fs_am_kind {
    FS_AM_REQUEST = 1, /* a payload of FS_AM_MEDIUM bytes at most */
    FS_AM_BULK,        /* the answering end chooses the memory */
    FS_AM_PUT,         /* to an offset in the answering end's segment */
    FS_AM_GET,         /* from an offset there; the answer is a FS_AM_BULK_REPLY with that handler */
    FS_AM_REPLY,
    FS_AM_BULK_REPLY,
    FS_AM_PUT_REPLY, /* to an offset in the asking end's segment */
    FS_AM_DONE,      /* there is no reply */
    FS_AM_RETURNED,  /* the request could not be delivered */
    FS_AM_KINDS
};

/* Why a request comes back. */
enum fs_am_reason {
    FS_AM_NO_HANDLER = 1, /* none has that number */
    FS_AM_OUTSIDE,        /* of the segment */
    FS_AM_TOO_LONG,       /* for the answering end's limit, or its memory */
    FS_AM_RAISED,         /* the handler ran and failed */
    FS_AM_REASONS
};

static inline int fs_am_has_offset(int kind)
{
    return kind == FS_AM_PUT || kind == FS_AM_GET || kind == FS_AM_PUT_REPLY;
}

static inline int fs_am_has_bulk(int kind)
{
    return kind == FS_AM_BULK || kind == FS_AM_PUT || kind == FS_AM_BULK_REPLY || kind == FS_AM_PUT_REPLY;
}

struct fs_am_frame {
    int kind, words, handler;
    uint32_t number;
    uint64_t length, offset;
    const unsigned char *body;    /* the words, then the offset */
    const unsigned char *payload; /* of a frame that is no bulk; valid until fs_am_space() */
};

/* A message without a bulk, which is written where it is sent from: behind its words comes its payload. */
struct fs_am_short {
    unsigned char header[FS_AM_HEADER];
    int64_t words[FS_AM_WORDS];
    unsigned char rest[FS_AM_MEDIUM];
};

struct fs_am_slot {
    uint16_t turn; /* counts the slot's uses; 0 never */
    uint16_t next; /* of the free ones */
    uint8_t kind;  /* of the request under way, or 0 */
};

struct fs_am {
    int side;
    uint32_t limits[2], credits[2]; /* slots by their kind, and those of them that are free */
    uint16_t first[2];
    uint64_t most_bulk; /* bytes that one frame may bring to this end */
    struct fs_am_slot *slots;
    unsigned char *room;
    size_t from, filled; /* bytes there that are still to be taken */
    size_t hint;         /* bytes to receive at first, where a bulk is likely to follow; 0: as many as there are */
    uint64_t bulk_left;  /* of the payload of the frame that was taken last */
    const char *wrong;
};

/* credits.c */
int fs_am_open(struct fs_am *am, int side, uint32_t shorts, uint32_t longs, uint64_t most_bulk); /* 0 or -errno */
void fs_am_close(struct fs_am *am);
int fs_am_slot_kind(int kind);                                      /* of requests of that kind */
uint32_t fs_am_ask(struct fs_am *am, int kind);                     /* the number of a new request, 0: no credit */
int fs_am_answer(struct fs_am *am, uint32_t of);                    /* as the answering end: 0, -EALREADY, -EINVAL */
int fs_am_asked(struct fs_am *am, const struct fs_am_frame *frame); /* a request has come: 0, or -EPROTO */
int fs_am_replied(struct fs_am *am, const struct fs_am_frame *frame);
static inline uint32_t fs_am_index(uint32_t number) { return number & 0xFFFF; }
uint32_t fs_am_under_way(const struct fs_am *am);

/* frames.c */
/* Bytes that were written to `out`, which has FS_AM_HEAD bytes. `offset` counts where the kind has one. The words may
 * lie behind the header already, where they belong. */
size_t fs_am_put(unsigned char *out, int kind, int handler, uint32_t number, const int64_t *words, int count,
                 uint64_t length, uint64_t offset);
void fs_am_words(const struct fs_am_frame *frame, int64_t *words); /* as many as it has */
static inline int64_t fs_am_word(const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return (int64_t)fs_am_little_64(word);
}
/* Where to receive, and how many bytes at most. It is called only after all that was received has been taken. */
unsigned char *fs_am_space(struct fs_am *am, size_t *length);
void fs_am_received(struct fs_am *am, size_t length);
/* 1: `frame` is filled in. Its bulk follows: fs_am_spill() gives what of it has come, fs_am_spilled() says what was
 * received elsewhere. 0: more must be received. */
int fs_am_take(struct fs_am *am, struct fs_am_frame *frame);
size_t fs_am_spill(struct fs_am *am, void *target, size_t room); /* NULL: those bytes are dropped */
void fs_am_spilled(struct fs_am *am, uint64_t length);

#endif
