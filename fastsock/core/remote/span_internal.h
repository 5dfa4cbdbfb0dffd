/* What the files of a span share. */
#ifndef FASTSOCK_REMOTE_SPAN_INTERNAL_H
#define FASTSOCK_REMOTE_SPAN_INTERNAL_H

#include "span.h"
#include "system.h"

#define OF_CARRIER_BEFORE UINT32_MAX /* a slot */

/* span.c */
void fs_span_become(struct fs_span *span, uint32_t state);
int fs_span_is_open(const struct fs_span *span);
void fs_span_close(int *descriptor);

/* span_outwards.c: what is said to the other end, and how much it may be */
void fs_span_turn_outwards(struct fs_span *span, short *wants);
int fs_span_keeps(const struct fs_span *span); /* what was posted is kept until it is known to have arrived */
/* Where the program of this end has read to.  What went over the doorbell itself counts as read. */
uint64_t fs_span_read_here(const struct fs_span *span);
uint64_t fs_span_arrived_in_all(const struct fs_span *span); /* position behind all bytes that arrived, placed or not */
/* The counts of the other host are input: a frame cannot be heard that was not sent, nor a byte read.  0 or -EPROTO. */
int fs_span_note_counts(struct fs_span *span, const struct fs_frame *frame);
int64_t fs_span_note_post(struct fs_span *span, int64_t ticket);
int64_t fs_span_say(struct fs_span *span, uint32_t kind, const void *data, size_t length); /* a ticket or -errno */
void fs_span_consume_done(struct fs_span *span);
void fs_span_break_off(struct fs_span *span); /* the program did: the other end hears of a reset */
/* The other end has so much of what was sent.  The rest of it is sent again. */
void fs_span_send_again_from(struct fs_span *span, uint64_t arrived_there);

/* span_inwards.c: what the other end says */
void fs_span_take_arrivals(struct fs_span *span);
void fs_span_turn_inwards(struct fs_span *span, short *wants);
int fs_span_take_offered(struct fs_span *span, const struct fs_arrival *first); /* 1: its bytes lie in the ring */

/* span_resume.c: on to the next carrier */
int fs_span_can_resume(const struct fs_span *span);

#endif
