/* Two threads, each stores its own word and then loads the other's, on a machine with store buffers: a store lies in its
 * thread's buffer first, and Memory takes it out whenever it likes.  FENCE: the buffer is empty (x86: a locked
 * instruction; C11: both accesses seq_cst).
 *
 * PAIR 1: (tx_busy, out_ring), who names X and who is in the kernel's send.  PAIR 2: (want, head), who sleeps and who
 * publishes; (waits for room, tail) and (asleep, summary) have its shape.  PAIR 3: (rx_in, seq), who is in a recv() that does
 * not know X and who spills.  MUT_NOFENCE: without the fence. */
#ifdef MUT_NOFENCE
#define FENCE(buffer) skip
#else
#define FENCE(buffer) !buffer
#endif

#if PAIR == 1
bool out_ring, tx_busy, b1, b2, named;
byte sent, intcp, X;
proctype Sender() {
    b1 = 1; FENCE(b1);              /* tx_busy = 1 */
    if
    :: !out_ring -> intcp++; atomic { !b1 -> sent++ }
    :: else
    fi;
    atomic { !b1 -> tx_busy = 0 }
}
proctype Namer() {
    b2 = 1; FENCE(b2);              /* out_ring = 1 */
    if
    :: tx_busy == 0 -> X = sent; named = 1
    :: else
    fi
}
proctype Memory() {
    do
    :: b1 -> d_step { tx_busy = 1; b1 = 0 }
    :: b2 -> d_step { out_ring = 1; b2 = 0 }
    :: atomic { timeout -> break }
    od
}
init {
    atomic { run Sender(); run Namer(); run Memory() };
    (_nr_pr == 1);
    assert(!named || X == intcp)
}
#endif

#if PAIR == 2
bool want, head, b1, b2, token, got;
proctype Sender() {
    b1 = 1; FENCE(b1);              /* head */
    if :: want -> token = 1 :: else fi
}
proctype Sleeper() {
    b2 = 1; FENCE(b2);              /* want; look again; sleep */
    if :: head -> got = 1 :: else -> token; got = 1 fi
}
proctype Memory() {
end:
    do
    :: b1 -> d_step { head = 1; b1 = 0 }
    :: b2 -> d_step { want = 1; b2 = 0 }
    od
}
init { atomic { run Sender(); run Sleeper(); run Memory() } }
#endif

#if PAIR == 3
bool rx_in, ring, spilled, taken, b1, b2;
proctype Sender() {                 /* has named X; later its ring is full */
    b1 = 1; FENCE(b1);              /* seq is odd */
    if
    :: !rx_in -> spilled = 1        /* from now on payload lies behind Y on TCP */
    :: else
    fi
}
proctype Reader() {
    b2 = 1; FENCE(b2);              /* rx_in = 1 */
    if
    :: !ring -> taken = spilled     /* recv() up to no limit */
    :: else
    fi
}
proctype Memory() {
end:
    do
    :: b1 -> d_step { ring = 1; b1 = 0 }
    :: b2 -> d_step { rx_in = 1; b2 = 0 }
    od
}
init { atomic { run Memory(); run Sender(); run Reader() }; (_nr_pr == 2); assert(!taken) }
#endif
