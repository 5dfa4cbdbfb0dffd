/* A direction whose end is held by two forked processes, one of which is killed at any step: also while it holds a lock of
 * the end.  The lock says who holds it, and a dead holder is recognised.  Who takes a dead holder's lock repairs what the
 * holder left half done.  For that it asks the kernel how many bytes went through the socket: no count of the family's own
 * is right after a kill.
 *
 * SENDERS or READERS: which end is a family.  BELL: the reader hears by a bit instead of tokens.  ANSWERED: the last process
 * closes when the reader has read all.  N, RING, CAP, MAXSW as in switch.pml.  MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#ifndef RING
#define RING 1
#endif
#ifndef CAP
#define CAP 3
#endif
#ifndef MAXSW
#define MAXSW 4
#endif
#define TOK 0
#define NOBODY 2
#ifdef SENDERS
#define NW 2
#else
#define NW 1
#endif
#ifdef READERS
#define NR 2
#else
#define NR 1
#endif

/* the kernel */
chan tcp = [CAP] of { byte };
bool fin;
byte ksent, kread;                  /* bytes that the socket took, and that were taken out of the other one: TCP_INFO, FIONREAD */
byte open = NW;                     /* who still holds the sending socket */
/* the segment */
byte seq, X, Y, tok, head, tail, rseq;
byte ring[RING];
bool rx_in, want, bell;
/* of the sending family */
byte txlock = NOBODY, sent;
bool out_ring, tx_busy[NW], deadW[NW], gone[NW];
/* of the reading family */
byte rxlock = NOBODY, rcvd;
bool deadR[NR], ended;
/* of the model */
byte nxt = 1, left = N, expect = 1;

#ifdef MUT_OWNCOUNT
#define SENT sent
#define COUNT sent++
#else
#define SENT ksent
#define COUNT skip
#endif

/* Takes a lock.  stolen: its holder is dead. */
#ifdef MUT_NOSTEAL
#define DEAD(who, dead) false
#else
#define DEAD(who, dead) (who != NOBODY && dead[who])
#endif
#define SEIZE(l, dead) atomic { l == NOBODY || DEAD(l, dead) -> stolen = (l != NOBODY); l = me }
inline put_token() { atomic { assert(len(tcp) < CAP); tcp!TOK; ksent++ } }
inline look_up() {
    if
    :: head == tail                 /* read by now: he asks for what comes next */
    :: head != tail && want ->
#ifdef BELL
       d_step { w = want; want = 0 };
       if :: w -> bell = 1; w = 0 :: else fi
#else
       d_step { w = want; want = 0; if :: w -> tok++ :: else fi };
       if :: w -> put_token(); COUNT :: else fi
#endif
    :: else
    fi
}
inline repair_sender() {
    if
    :: stolen ->
       stolen = 0;
#ifndef MUT_NOROUTE
       out_ring = seq % 2;
#endif
       if
       :: seq % 2 == 1 ->
#ifndef MUT_NOOWED
          do                        /* counted, but the holder died before it sent them */
          :: X + tok > ksent -> put_token()
          :: else -> break
          od;
#endif
#if defined BELL && !defined MUT_IFWANT
          bell = 1                  /* bytes published, and nobody told: the dead holder may have taken want */
#else
          look_up()                 /* bytes published, and nobody told */
#endif
       :: else
       fi
    :: else
    fi
}
#ifdef SENDERS
#define IDLE (!(tx_busy[0] && !deadW[0]) && !(tx_busy[1] && !deadW[1]))
#else
#define IDLE !tx_busy[0]
#endif
inline try_switch() {
    if
    :: skip
    :: atomic { seq % 2 == 0 && seq < MAXSW && (txlock == NOBODY || DEAD(txlock, deadW)) -> stolen = (txlock != NOBODY); txlock = me };
       repair_sender();
       if
       :: seq % 2 == 0 && rseq == seq ->
          out_ring = 1;
          if
          :: IDLE && len(tcp) < CAP - 1 -> X = SENT; d_step { tok = 0; want = 1 }; seq++
          :: else -> out_ring = 0
          fi
       :: else
       fi;
       txlock = NOBODY
    fi
}
inline closed(who) { gone[who] = 1; open--; if :: open == 0 -> fin = 1 :: else fi }

proctype Writer(byte me) {
    bool w, stolen;
    {
    do
    :: atomic { left == 0 -> break }
    :: atomic { left > 0 -> left-- };
again: if
       :: out_ring ->
          SEIZE(txlock, deadW);
          repair_sender();
          if
          :: seq % 2 == 0 -> txlock = NOBODY; (seq % 2 == 1 || !out_ring || DEAD(txlock, deadW)); goto again
          :: else
          fi;
          if
          :: head - tail == RING ->
             if
             :: seq < MAXSW && (rseq == seq || !rx_in) -> Y = head; seq++; out_ring = 0; txlock = NOBODY; goto again
             :: txlock = NOBODY; (head - tail < RING || seq % 2 == 0 || DEAD(txlock, deadW)); goto again
             fi
          :: else
          fi;
          d_step { ring[head % RING] = nxt; nxt++; head++ };
          look_up();
          txlock = NOBODY
       :: else ->
          tx_busy[me] = 1;
          if
          :: out_ring -> tx_busy[me] = 0; goto again
          :: else
          fi;
          atomic { len(tcp) < CAP -> tcp!nxt; nxt++; ksent++ };
          COUNT;
          tx_busy[me] = 0;
          try_switch()
       fi
    od;
#ifdef ANSWERED
    (expect == nxt || DEAD(txlock, deadW));          /* answered; or the rest of a killed process's call lies there untold */
#endif
    atomic { closed(me) }
    } unless { deadW[me] }
}

inline repair_reader() {
    if
    :: stolen -> stolen = 0;
#ifndef MUT_OWNREAD
       rcvd = kread;
#endif
       rx_in = 0
    :: else
    fi
}
#ifdef READERS
#define RIGHT(b) (b >= expect)      /* what a killed process took is gone, as with TCP */
#else
#define RIGHT(b) (b == expect)
#endif
inline deliver(b) { d_step { assert(b != TOK && RIGHT(b)); expect = b + 1 } }
inline take(b) { atomic { len(tcp) > 0 -> tcp?b; kread++ } }

proctype Reader(byte me) {
    byte b, c, n, s, t, k;
    bool stolen, e;
    {
    do
    :: atomic { ended -> break }
    :: else ->
       SEIZE(rxlock, deadR);
       repair_reader();
       if :: ended -> goto out :: else fi;
call:  s = seq;
       if
       :: rseq % 2 == 0 && s > rseq && rcvd >= X -> rseq++; goto call
       :: rseq % 2 == 0 && s > rseq && rcvd < X ->
          take(b); rcvd++; deliver(b)
       :: rseq % 2 == 0 && s == rseq ->
          rx_in = 1;
          if :: seq != rseq -> rx_in = 0; goto call :: else fi;
          atomic {
            if
            :: len(tcp) > 0 -> tcp?b; n = 1; if :: len(tcp) > 0 -> tcp?c; n = 2 :: true fi; kread = kread + n
            :: len(tcp) == 0 && fin -> n = 0
#ifdef BELL
            :: len(tcp) == 0 && !fin && bell -> bell = 0; n = 3
#endif
            fi };
#ifdef BELL
          if :: n == 3 -> rx_in = 0; goto call :: else fi;
#endif
          t = rcvd; rcvd = rcvd + n;
          s = seq;
          if
          :: s == rseq && n == 0 -> ended = 1
          :: s == rseq && n > 0 -> deliver(b); if :: n == 2 -> deliver(c) :: else fi
          :: s != rseq ->
             if :: n > 0 && t < X -> deliver(b) :: else fi;
             if :: n == 2 && t + 1 < X -> deliver(c) :: else fi;
             if :: n == 2 && t + 1 >= X -> assert(c == TOK) :: else fi
          fi;
          rx_in = 0;
          if :: !ended && (n == 0 || t >= X) && s != rseq -> goto call :: else fi
       :: rseq % 2 == 1 && head != tail -> d_step { b = ring[tail % RING]; tail++ }; deliver(b)
       :: rseq % 2 == 1 && s > rseq && tail == Y ->
          do
          :: rcvd < X + tok -> take(c); assert(c == TOK); rcvd++
          :: else -> break
          od;
          rseq++; goto call
       :: else ->
          if :: seq != s -> goto call :: else fi;
          k = X + tok - rcvd;
          do
          :: k > 0 && len(tcp) > 0 -> take(c); assert(c == TOK); rcvd++; k--
          :: else -> break
          od;
          atomic { if :: X + tok - rcvd <= 1 -> want = 1 :: else fi };
          if :: head != tail || seq != s -> goto call :: else fi;
#ifdef BELL
          atomic { len(tcp) > 0 || fin || bell -> bell = 0 };
#else
          (len(tcp) > 0 || fin);
#endif
          atomic { e = (len(tcp) == 0 && fin) };
          if :: e && head == tail && seq == s -> ended = 1 :: else fi;
          if :: !ended -> goto call :: else fi
       fi;
out:   rxlock = NOBODY;
       d_step { b = 0; c = 0; n = 0; s = 0; t = 0; k = 0; e = 0 }
    od;
#ifdef READERS
    assert(expect <= nxt)
#else
    assert(expect == nxt)
#endif
    } unless { deadR[me] }
}
init {
    atomic {
      run Writer(0); run Reader(0);
#ifdef SENDERS
      run Writer(1);
#endif
#ifdef READERS
      run Reader(1);
#endif
    };
#ifdef SENDERS
    atomic { if :: !gone[0] -> deadW[0] = 1; closed(0) :: else fi }
#endif
#ifdef READERS
    deadR[0] = 1
#endif
}
