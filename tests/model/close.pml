/* The close of an end, and what the kernel makes of tokens then.  A socket that is closed with bytes unread, or gets bytes
 * after it was closed, sends RST instead of its own last bytes and FIN.  A token must not do that to a program that has read
 * all that was sent to it.
 *
 * End A puts bytes into its ring, with tokens; end B reads them, has M bytes of its own on their way on TCP, and closes.  KILLA:
 * end A is killed at any step.  MUT_...: mistakes. */
#ifndef K
#define K 3                         /* bytes that A may put */
#endif
#ifndef M
#define M 2
#endif
mtype = { none, end_told, reset_told };

/* the kernel: A to B */
byte queue;                         /* tokens in B's receive queue */
bool finA, closedB;
/* the kernel: B to A, send queue and receive queue */
byte sent = M, moved, taken;
bool fin_queued, fin_moved, reset;
/* the segment, direction A to B; X is 0 */
byte head, tail, tok, rcvd;
bool want = 1, closing;             /* closing: B's end says that it closes */
/* of the model */
mtype told = none;
bool aliveA = 1, unread;

/* B's socket answers with RST: what A's kernel does not have yet is lost */
inline rst() { d_step { if :: !fin_moved -> reset = 1; sent = moved :: else fi } }

proctype Putter() {
    byte n;
    bool w;
    {
    do
    :: n == K || closing -> break
    :: n < K && !closing ->
       n++; head++;
       if
       :: want ->
          d_step { w = want; want = 0; if :: w -> tok++ :: else fi };
          if
          :: w -> atomic { if :: closedB -> rst() :: else -> queue++ fi }
          :: else
          fi;
          w = 0
       :: else
       fi
    :: break
    od
    } unless { !aliveA }
}
proctype Taker() {                  /* A's reader, on TCP */
    {
    do
    :: atomic { taken < moved -> taken++ }
    :: atomic { taken == moved && fin_moved -> told = end_told; break }
    :: atomic { taken == moved && reset && !fin_moved -> told = reset_told; break }
    od
    } unless { !aliveA }
}
proctype Network() {                /* A's receive buffer holds one byte */
end:
    do
    :: atomic { moved < sent && moved - taken < 1 && !reset -> moved++ }
    :: atomic { fin_queued && moved == sent && !reset && !fin_moved -> fin_moved = 1 }
    od
}
proctype Closer() {                 /* B reads as long as it likes, and closes */
    byte t;
    do
    :: head != tail -> tail++;
       /* the ring is empty: arm, look, take */
       if
       :: head == tail ->
          t = tok;
          atomic { if :: tok - rcvd <= 1 -> want = 1 :: else fi };
          if
          :: head == tail ->
             do
             :: atomic { rcvd < t && queue > 0 -> queue--; rcvd++ }
             :: atomic { rcvd == t || queue == 0 -> break }
             od
          :: else
          fi
       :: else
       fi
    :: break
    od;
    closing = 1;
#ifndef MUT_NODISARM
    want = 0;                       /* CAS: from now on no token is sent */
#endif
    if :: head != tail -> unread = 1 :: else fi;
#ifndef MUT_NODRAIN
    t = tok;
    do
    :: atomic { rcvd < t && queue > 0 -> queue--; rcvd++ }
    :: atomic { rcvd == t -> break }
#ifdef MUT_NOWAIT
    :: atomic { rcvd < t && queue == 0 -> break }
#else
    :: atomic { rcvd < t && queue == 0 && finA -> break }          /* or after a bounded time */
#endif
    od;
#endif
    atomic {
      closedB = 1;
      if
      :: queue > 0 || unread -> rst()
      :: else -> fin_queued = 1
      fi }
}
#ifdef KILLA
proctype Kill() { atomic { aliveA = 0; finA = 1 } }
#endif
init {
    atomic {
      run Network(); run Putter(); run Taker(); run Closer();
#ifdef KILLA
      run Kill();
#endif
    };
    (_nr_pr == 2);                  /* Network goes on */
    /* B has read all that was put: then the end, after all of B's bytes */
    assert(!aliveA || head != tail || told == end_told && taken == M)
}
