/* How a sender tells a loop of another process: by a bit in the loop's page.
 *
 * A process knows a loop after it has asked for its page once, in its own calls.  Until then, and wherever that fails, the
 * sender sends a token.
 */
#ifndef FASTSOCK_RINGING_H
#define FASTSOCK_RINGING_H

#include <stdint.h>

/* Both as the other end wrote them.  1: the loop was told.  0: it is not known: a token must tell it.  By then it was asked
 * for its page: the token has it look at its name. */
int fs_ring_loop(uint64_t loop, uint32_t slot);
int fs_ring_known(void); /* loops of which this process has the page; for tests */

#endif
