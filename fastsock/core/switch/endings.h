/* How the other end ended, where the kernel says another thing of it than of a connection whose bytes all went by TCP. */
#ifndef FASTSOCK_ENDINGS_H
#define FASTSOCK_ENDINGS_H

#include "connection.h"

/* If it has ended: it died with bytes of ours unread in the ring.  TCP would have reset the connection. */
int fs_ending_is_unreported_reset(const struct fs_record *record, const struct fs_end *end);
/* If a reset has come: it died with a token unread and no byte of ours.  With TCP that is an orderly end. */
int fs_ending_is_of_a_token(const struct fs_record *record, const struct fs_end *end);
/* Whether a reset is owed to whoever asks the kernel next: it has told of it already, to us alone, or never will. */
int fs_ending_owes_reset(const struct fs_record *record, const struct fs_end *end, int descriptor);

#endif
