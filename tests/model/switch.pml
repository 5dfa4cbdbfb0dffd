/* One direction of a live TCP connection that has gained memory.  It changes carrier at an exact byte: TCP to ring at X,
 * ring to TCP at Y, any number of times.  README.md says what each word means and which rules this model holds.
 *
 * N payload bytes, a ring of RING bytes, CAP bytes in TCP's two buffers, NW writers, NR readers, MAXSW switches.
 * NET: what send() took comes later, byte by byte.  OWED: TCP may refuse a token.
 * ANSWERED: the program sends FIN when the other one has read all, so that no FIN hides a lost wake-up.
 * WATCH: a level-triggered epoll that nobody sees sleeps for the reader; with EDGE, an edge-triggered one.  POLLOUT: such an
 * epoll sleeps for a writer that never waits.
 * EXACT: the sender knows of the watcher, and tells it of each message.  DEAF: an edge-triggered watcher whose program may
 * hear and read nothing; each byte is a message, and the next one is sent once it has heard of this one.
 * SHUT, KILLS, KILLR, RELEASE: what else happens.  MUT_...: mistakes. */
#define LOCK(l)   atomic { !l -> l = 1 }
#define UNLOCK(l) l = 0
#define TOK 0                       /* a token on TCP; payload is numbered 1, 2, ... */

#ifndef N
#define N 4                         /* payload bytes */
#endif
#ifndef RING
#define RING 1
#endif
#ifndef CAP
#define CAP 3                       /* what TCP holds, both buffers together */
#endif
#ifndef NW
#define NW 1
#endif
#ifndef NR
#define NR 1
#endif
#ifndef MAXSW
#define MAXSW 4                     /* switches: 4 is ring, TCP, ring, TCP */
#endif
#ifndef LOOKS
#define LOOKS 1                     /* reads that no watcher asked for */
#endif
#ifdef MUT_NOACK
#define ACKED head == tail
#else
#define ACKED rseq == seq           /* the reader is done with the record of the last segment */
#endif
#ifdef MUT_NODEKKER
#define IDLE true
#else
#define IDLE tx_busy == 0           /* nobody of this end is within the kernel's send */
#endif
#if defined OWED || defined MUT_NOROOM || defined MUT_UNCOUNT
#define ROOM true
#else
#define ROOM FITS(2)                /* room for the tokens of this segment: nothing else will fill it */
#endif
#ifdef MUT_RELUNACKED
#define RESENDABLE true
#else
#define RESENDABLE rseq == seq      /* else payload before X, or after Y, lies on TCP around what would be sent again */
#endif
#ifdef MUT_NOREARM
#define REARM skip
#else
#define REARM want = 1
#endif
/* the kernel */
chan tcp = [CAP] of { byte };       /* what has come */
bool fin, rgone;                    /* no more from the sender's end; the reader's end is gone */
#ifdef NET                          /* what send() took comes later */
chan net = [CAP] of { byte };
bool fin_here;
byte moved;
#define PUT(b) net!b
#define FITS(n) (len(net) + len(tcp) + n <= CAP)
#define FIN fin_here
#define SENT_SOMETHING skip
#else
#define PUT(b) tcp!b
#define FITS(n) (len(tcp) + n <= CAP)
#define FIN fin
#define SENT_SOMETHING ARRIVES
#endif
#if defined EDGE && defined WATCH
bool edge;                          /* something has arrived since the watcher was told last */
#define ARRIVES edge = 1
#else
#define ARRIVES skip
#endif
#ifdef POLLOUT                      /* a watcher that nobody sees asks whether TCP is writable */
bool nospace;                       /* send() has said EAGAIN: the kernel will say when there is room */
#ifdef EDGE
#define WRITABLE (nospace && FITS(1) || fin || rgone) -> nospace = 0
#else
#define WRITABLE (FITS(1) || fin || rgone) -> nospace = 0
#endif
#endif
/* the segment; w: by whom it is written */
byte seq, X, Y, tok, head;          /* w: sender.  seq odd: payload goes into the ring */
byte ring[RING];
byte tail, rseq;                    /* w: reader.  rseq: the last switch that he has carried out */
bool rx_in;                         /* w: reader.  he may be within a recv that takes bytes and knows no X */
bool want;                          /* armed by the sender at each switch to the ring, then by the reader */
byte rel;                           /* 1 the reader's end asks for the way out, 2 granted (CAS from 1), 3 withdrawn (CAS from 1) */
/* the sender's end */
byte sent, nxt = 1, left = N, tx_busy, wdone;
#ifdef OWED
byte owed;                          /* tokens counted that TCP has refused */
#endif
bool out_ring, txlock, wshut, aliveS = 1;
/* the reader's end */
byte rcvd, expect = 1;
#ifdef EXACT
byte drained;                       /* rcvd, as it was when tokens were taken last; in the segment */
#define DRAINED drained = rcvd
#define TELLABLE (want || X + tok - drained < 2)
#else
#define DRAINED skip
#define TELLABLE want
#endif
#ifdef DEAF
bool heard = 1;                     /* of what was sent last */
#define HEARD heard = 1
#else
#define HEARD skip
#endif
#ifdef WATCH
byte looks = LOOKS;
#endif
bool rxlock, ended, aliveR = 1;

inline deliver(b) { d_step { assert(b == expect); expect++ } }

/* sender: bytes into the ring have been stored, the reader may have asked for a token.  txlock is held.  Where he has read
 * them all by now, he asks for what comes next: a token would tell of nothing */
inline ring_bell() {
    if
    :: head == tail
    :: head != tail && TELLABLE ->
       d_step { w = TELLABLE; want = 0;           /* want and tok are one word, changed by CAS: counted before it can be taken */
#ifndef MUT_NOCOUNT
                if :: w -> tok++ :: else fi
#endif
              }
       if
       :: w ->
          atomic {
            if
            :: fin || rgone -> w = 0
            :: !fin && !rgone && FITS(1) -> PUT(TOK); SENT_SOMETHING
            :: !fin && !rgone && !FITS(1) -> w = 0;    /* refused */
#ifdef OWED
               owed++
#elif !defined MUT_NOROOM && !defined MUT_UNCOUNT
               assert(false)
#endif
            fi }
          if
          :: w -> sent++
#ifdef MUT_UNCOUNT
          :: else -> tok--
#else
          :: else
#endif
          fi
       :: else
       fi
    :: else
    fi
}
#ifdef OWED
inline pay() {                      /* refused tokens go before anything else; the count stays */
    do
    :: atomic { owed > 0 && !fin && !rgone && FITS(1) -> PUT(TOK); SENT_SOMETHING; sent++; owed-- }
    :: atomic { owed == 0 || fin || rgone || !FITS(1) -> break }
    od
}
#ifdef MUT_SPILLOWED
#define PAID true
#else
#define PAID owed == 0
#endif
#else
#define pay() skip
#define PAID true
#endif
inline try_switch() {               /* TCP to ring */
    if
    :: skip
    :: atomic { !txlock && seq % 2 == 0 && seq < MAXSW -> txlock = 1 }
       if
       :: (!wshut && rel == 0 && ACKED) ->
          out_ring = 1;
          if
          :: (IDLE && ROOM) ->
             X = sent;
             d_step { tok = 0; REARM }        /* one word; armed, for a reader may sleep in the kernel */
             seq++
          :: else -> out_ring = 0
          fi
       :: else
       fi;
       UNLOCK(txlock)
    fi
}
proctype Writer() {
    bool w; bool ok;
    {
    do
    :: atomic { left == 0 -> break }
    :: atomic { left > 0 -> left-- }
#ifdef DEAF
       atomic { heard || expect == nxt -> heard = 0 };
#endif
again: if
       :: out_ring ->
          LOCK(txlock);
          if
          :: wshut || rgone -> UNLOCK(txlock); left = 0; goto again2
          :: else
          fi;
          if
          :: seq % 2 == 0 -> UNLOCK(txlock); goto again
          :: else
          fi;
          pay();
#if defined EXACT && !defined MUT_UNTOLD
          if                        /* a message of which no token could tell goes over TCP */
          :: !TELLABLE && seq < MAXSW && PAID && (rseq == seq || !rx_in) ->
             Y = head; seq++; out_ring = 0; UNLOCK(txlock); goto again
          :: else
          fi;
#endif
          if
          :: head - tail == RING ->
             if
#ifndef NOSPILL
#ifdef MUT_BLINDSPILL
             :: seq < MAXSW ->
#else
             :: seq < MAXSW && PAID && (rseq == seq || !rx_in) ->
#endif
                Y = head; seq++;
#ifndef MUT_SPILLROUTE
                out_ring = 0;
#endif
                UNLOCK(txlock); goto again
#endif
#ifdef POLLOUT
#if defined EDGE && !defined MUT_EDGEAGAIN
             :: seq < MAXSW && !(rseq == seq || !rx_in) -> UNLOCK(txlock); (rseq == seq || !rx_in || fin || rgone || wshut); goto again
#else
             :: seq < MAXSW && !(rseq == seq || !rx_in) -> UNLOCK(txlock); WRITABLE; goto again      /* EAGAIN */
#endif
#else
             :: UNLOCK(txlock);     /* no lock is held while one waits for room */
                (head - tail < RING || rgone || wshut || seq % 2 == 0); goto again
#endif
             fi
          :: else
          fi;
          d_step { ring[head % RING] = nxt; nxt++ }
          head++;
          ring_bell();
          UNLOCK(txlock)
       :: else ->
          tx_busy++;
          if
#ifndef MUT_NODEKKER
          :: out_ring -> tx_busy--; LOCK(txlock); UNLOCK(txlock); goto again
#endif
          :: else
          fi;
          atomic {                  /* send(): one system call */
            if
            :: fin || rgone -> ok = 0
            :: !fin && !rgone && FITS(1) -> PUT(nxt); nxt++; ok = 1; SENT_SOMETHING
#ifdef POLLOUT
            :: !fin && !rgone && !FITS(1) -> nospace = 1
#endif
            fi }
#ifdef POLLOUT
          if :: nospace -> tx_busy--; WRITABLE; goto again :: else fi;
#endif
          if :: ok -> sent++ :: else -> left = 0 fi;
          tx_busy--;
          try_switch()
       fi;
again2: skip
    od;
    atomic { wdone++;
      if :: wdone == NW :: else -> goto fini fi };
#ifdef DEAF
    (heard || expect == nxt);
#endif
#ifdef ANSWERED
    (expect == nxt || rgone || wshut || rel >= 2);  /* the program closes when the other one has had it all: no FIN wakes anybody before */
#endif
    LOCK(txlock); wshut = 1; UNLOCK(txlock);
    fin = 1; SENT_SOMETHING
    } unless { !aliveS };
fini: skip
}
#ifdef SHUT
proctype Shut() {                   /* shutdown(SHUT_WR) or close by another thread, at any step */
    { LOCK(txlock); wshut = 1; UNLOCK(txlock); fin = 1; SENT_SOMETHING } unless { !aliveS }
}
#endif
#ifdef RELEASE
proctype Native() {                 /* the sender's end answers: its native thread, or its program's next call */
    byte i; bool ok;
    {
    do
    :: atomic { ended || rgone || !aliveR -> break }
    :: rel == 1 ->
       LOCK(txlock);
       atomic {                     /* CAS; after our FIN nothing can be sent again: refused */
         if
#ifdef MUT_RELFIN
         :: rel == 1 -> rel = 2; ok = 1
#else
         :: rel == 1 && !wshut && RESENDABLE -> rel = 2; ok = 1
         :: rel == 1 && !(!wshut && RESENDABLE) -> rel = 3; ok = 0
#endif
         :: else -> ok = 0
         fi };
       if
       :: ok && seq % 2 == 1 ->
          i = tail; Y = tail; seq++;
          do
          :: i < head ->
             atomic {
               if
               :: fin || rgone -> i = head
               :: !fin && !rgone && FITS(1) -> PUT(ring[i % RING]); SENT_SOMETHING; sent++; i++
               fi }
          :: else -> break
          od;
          out_ring = 0
       :: else
       fi;
       UNLOCK(txlock); break
    od
    } unless { !aliveS }
}
#endif
#ifdef NET
proctype Network() {
end:
    do
    :: atomic { len(net) > 0 -> net?moved; tcp!moved; moved = 0; ARRIVES }
    :: atomic { fin && empty(net) && !fin_here -> fin_here = 1; ARRIVES }
    od
}
#endif
#ifdef KILLS
proctype KillS() { atomic { aliveS = 0; fin = 1; SENT_SOMETHING } }
#endif
#ifdef KILLR
proctype KillR() { atomic { aliveR = 0; rgone = 1 } }   /* or closes: the same for the sender */
#endif

/* the reader asks for a token: only while at most one is on its way, so there are never more than two */
#ifdef MUT_MANYTOKENS
#define ARM ok = 1; want = 1
#else
#define ARM atomic { if :: X + tok - rcvd <= 1 -> want = 1; ok = 1 :: else -> ok = 0 fi }
#endif
inline drain(upto) {                /* takes the tokens that are there, up to a count that was loaded before */
    k = X + upto - rcvd;
    do
    :: k > 0 -> atomic { if :: tcp?c; assert(c == TOK); n = 1 :: empty(tcp) -> n = 0 fi };
       if :: n -> rcvd++; k-- :: else -> break fi
    :: else -> break
    od;
    DRAINED
}
/* For a watcher: while the ring has bytes, a token is there or on its way, or want is armed.  So the last token is taken only
 * while want is armed, and want is taken back only while a token is on its way. */
inline settle() {
    if
    :: head != tail
    :: else ->
       t = tok;
       k = X + t - rcvd;
#ifdef MUT_TAKEBOTH
       if :: k == 2 -> drain(t) :: else fi;
#else
       if :: k == 2 -> atomic { if :: tcp?c; assert(c == TOK); rcvd++; DRAINED :: empty(tcp) fi } :: else fi;
#endif
       ARM;
       if
       :: head != tail ->
#ifdef EXACT
          skip
#elif defined MUT_DISARM
          atomic { if :: ok && want -> want = 0 :: else fi }
#else
          atomic { if :: ok && want && X + tok - rcvd > 0 -> want = 0 :: else fi }
#endif
       :: else -> if :: ok -> drain(t) :: else fi
       fi
    fi
}
/* For a watcher of edges, behind a call that has got all it asked for: one token stays while the ring has bytes, and
 * another one is asked for. */
inline show_what_is_left() {
    if
    :: rseq % 2 == 1 && seq == rseq ->
       settle();
       if
       :: head != tail ->
          t = tok;
          k = X + t - rcvd;
          if :: k == 2 -> atomic { if :: tcp?c; assert(c == TOK); rcvd++; DRAINED :: empty(tcp) fi } :: else fi;
          ARM
       :: else
       fi
    :: else
    fi
}
#if defined WATCH && defined EDGE
/* An edge-triggered epoll that nobody sees: it tells of each arrival on TCP once.  The program then reads two bytes a call,
 * until a call has nothing, or fewer and the event did not tell the end (SHORTREAD).  So a call that gives fewer than asked
 * has left nothing behind of which no arrival will tell: it goes on over X and Y. */
#if defined DEAF
#define SLEEPS !hup                /* it may also stop with bytes unread: what comes then is told */
#elif defined SHORTREAD
#define SLEEPS (got == 0 || got < 2 && !hup)
#else
#define SLEEPS got == 0
#endif
proctype Reader() {
    byte b, c, n, s, t, k, got;
    bool e, ok, hup;
    {
    do
    :: atomic { ended -> break }
    :: else ->
       if
       :: SLEEPS ->
          do
          :: atomic { edge -> edge = 0; hup = FIN; HEARD };
             break
#ifdef DEAF
          :: atomic { edge && !FIN -> edge = 0; HEARD }    /* and reads nothing */
#endif
          :: atomic { looks > 0 -> looks--; break }
          od
       :: else
       fi;
       got = 0;
call:  s = seq;
       if
       :: got == 2 ->
#ifdef EXACT
          show_what_is_left()
#endif
          skip
       :: got < 2 && rseq % 2 == 0 && s > rseq && rcvd >= X ->
          rseq++;
#ifndef MUT_SHORTATX
          goto call
#else
          if :: got == 0 -> goto call :: else fi
#endif
       :: got < 2 && rseq % 2 == 0 && s > rseq && rcvd < X ->
          if
          :: atomic { len(tcp) > 0 -> tcp?b; rcvd++; deliver(b); got++ }; goto call
          :: empty(tcp)                                    /* EAGAIN, or what there is: its arrival will tell */
          fi
       :: got < 2 && rseq % 2 == 0 && s == rseq ->
          atomic { n = len(tcp); e = FIN };                /* MSG_PEEK */
          if :: n > 2 - got -> n = 2 - got :: else fi;
          if
          :: seq != rseq -> goto call
          :: else
          fi;
          if
          :: n == 0 && e && got == 0 -> ended = 1
          :: n == 0 && !(e && got == 0)                    /* EAGAIN, or what there is */
          :: n > 0 ->
             d_step { tcp?b; rcvd++; got++; if :: n > 1 -> tcp?c; rcvd++; got++ :: else fi };
             deliver(b);
             if :: n > 1 -> deliver(c) :: else fi;
             goto call
          fi
       :: got < 2 && rseq % 2 == 1 && head != tail -> b = ring[tail % RING]; tail++; deliver(b); got++; goto call
       :: got < 2 && rseq % 2 == 1 && s > rseq && tail == Y ->
          do
          :: atomic { rcvd < X + tok && len(tcp) > 0 -> tcp?c; assert(c == TOK); rcvd++; DRAINED }
          :: atomic { rcvd < X + tok && empty(tcp) && FIN -> rcvd = X + tok }
          :: atomic { rcvd < X + tok && empty(tcp) && !FIN -> goto last }      /* EAGAIN, or what there is */
          :: atomic { rcvd >= X + tok -> break }
          od;
          rseq++;
#ifndef MUT_SHORTATY
          goto call
#else
          if :: got == 0 -> goto call :: else fi
#endif
       :: else ->                                          /* the ring is empty */
          if :: seq != s -> goto call :: else fi;
#ifdef MUT_SETTLEATEND
          if :: got > 0 -> goto last :: else fi;
#endif
          settle();
          if :: head != tail || seq != s -> goto call :: else fi;
          atomic { e = (empty(tcp) && FIN) };
          if :: e && head == tail && seq == s && got == 0 -> ended = 1 :: else fi;
last:     skip
       fi;
       d_step { b = 0; c = 0; n = 0; s = 0; t = 0; k = 0; e = 0; ok = 0 }
    od;
    assert(!ended || aliveS == 0 || expect == nxt)
    } unless { !aliveR }
}
#else
proctype Reader() {
    byte b, c, n, s, t, k;
    bool e, ok;
    {
    do
    :: atomic { ended -> break }
    :: else ->
#ifdef WATCH
       if
       :: (len(tcp) > 0 || FIN || ended)     /* an epoll that we do not see, level-triggered */
       :: atomic { looks > 0 -> looks-- }    /* or the program reads of its own accord */
       fi;
#endif
#ifndef MUT_TWOREADERS
       LOCK(rxlock);                         /* from before the kernel until what came is counted */
#endif
       if :: ended -> goto out :: else fi;
call:  s = seq;
       if
       :: rseq % 2 == 0 && s > rseq && rcvd >= X -> rseq++; goto call
       :: rseq % 2 == 0 && s > rseq && rcvd < X ->        /* TCP, up to X */
#ifdef WATCH
          if :: empty(tcp) -> goto out :: nempty(tcp) fi;   /* EAGAIN */
#endif
          atomic { tcp?b; n = 1 };
          rcvd++; deliver(b)
#ifdef MUT_TWOREADERS
       :: rseq % 2 == 0 && s == rseq ->
          atomic { if :: tcp?b; n = 1 :: empty(tcp) && FIN -> n = 0 fi };
          if :: n -> d_step { c = rcvd; rcvd++ } :: else fi;
          if
          :: n == 0 && seq == rseq -> ended = 1
          :: n == 0 && seq != rseq -> goto call
          :: n && seq != rseq && c >= X -> goto call
          :: n && !(seq != rseq && c >= X) -> deliver(b)
          fi
#else
#if defined WATCH && !defined MUT_ONEREAD
       :: rseq % 2 == 0 && s == rseq ->                    /* TCP: look first, then take what was seen */
          atomic { n = len(tcp); e = FIN };
          if :: n > 2 -> n = 2 :: else fi;
          if
          :: seq != rseq -> goto call
          :: else
          fi;
          if
          :: n == 0 && e -> ended = 1
          :: n == 0 && !e -> skip                          /* EAGAIN */
          :: n > 0 ->
             d_step { tcp?b; rcvd++; if :: n > 1 -> tcp?c; rcvd++ :: else fi };
             deliver(b);
             if :: n > 1 -> deliver(c) :: else fi
          fi
#else
       :: rseq % 2 == 0 && s == rseq ->                    /* TCP: recv that sleeps in the kernel and takes 1 or 2 bytes */
          rx_in = 1;
          if
#ifndef MUT_BLINDSPILL
          :: seq != rseq -> rx_in = 0; goto call
#endif
          :: else
          fi;
          atomic {
            if
            :: nempty(tcp) -> tcp?b; n = 1;
               if :: nempty(tcp) -> tcp?c; n = 2 :: true fi
            :: empty(tcp) && FIN -> n = 0
#ifdef WATCH
            :: empty(tcp) && !FIN -> n = 3                 /* EAGAIN */
#endif
            fi }
          if
          :: n == 3 -> rx_in = 0; goto out
          :: else
          fi;
          t = rcvd; rcvd = rcvd + n;
          s = seq;
          if
          :: s == rseq && n == 0 -> ended = 1
          :: s == rseq && n > 0 -> deliver(b); if :: n == 2 -> deliver(c) :: else fi
          :: s != rseq ->                                  /* what lies beyond X is tokens */
             if :: n > 0 && t < X -> deliver(b) :: else fi;
             if :: n == 2 && t + 1 < X -> deliver(c) :: else fi;
             if :: n == 2 && t + 1 >= X -> assert(c == TOK) :: else fi
          fi;
          rx_in = 0;
#ifndef WATCH
          if :: !ended && (n == 0 || t >= X) && s != rseq -> goto call :: else fi
#else
          if :: n == 0 && !ended -> goto call :: else fi
#endif
#endif
#endif
       :: rseq % 2 == 1 && head != tail && rel != 2 ->
          b = ring[tail % RING]; tail++; deliver(b);
#ifdef WATCH
          /* settle: one token stays while the ring has bytes */
          settle()
#endif
       :: rseq % 2 == 1 && s > rseq && tail == Y ->        /* the ring ends here: tokens, then payload on TCP */
          do
          :: rcvd < X + tok ->
#ifdef WATCH
             if :: empty(tcp) && !FIN -> goto out :: nempty(tcp) || FIN fi;    /* EAGAIN */
#endif
             atomic { if :: tcp?c; n = 1; assert(c == TOK) :: empty(tcp) && FIN -> n = 0 fi };
             if :: n -> rcvd++ :: else -> rcvd = X + tok fi
          :: else -> break
          od;
          rseq++; goto call
       :: else ->                                          /* the ring is empty */
          if :: seq != s -> goto call :: else fi;
#ifdef WATCH
          settle();
          if :: head != tail -> goto call :: else fi;
#else
#ifndef MUT_EATSLEEP
          drain(tok);
#endif
          ARM;
#ifndef MUT_NOSECONDLOOK
          if :: head != tail || seq != s -> goto call :: else fi;
#endif
#ifdef MUT_EATSLEEP
          atomic { if :: tcp?c; n = 1 :: empty(tcp) && FIN -> n = 0 fi };
          if :: n -> rcvd++; assert(c == TOK); goto call :: else fi;
#else
          (len(tcp) > 0 || FIN);                           /* poll(): takes nothing */
#endif
#endif
          atomic { e = (empty(tcp) && FIN) };
          if :: e && head == tail && seq == s -> ended = 1 :: else fi
#ifndef WATCH
          ; if :: !ended -> goto call :: else fi
#endif
       fi;
out:
#ifndef MUT_TWOREADERS
       UNLOCK(rxlock);
#endif
#ifdef RELEASE
       if
       :: skip
       :: rel == 0 && !ended ->              /* foreign code takes the descriptor */
          LOCK(rxlock);
             rel = 1;
             if
             :: rel >= 2
             :: atomic { rel == 1 -> rel = 3 }        /* not in time: the bridge, which reads as ever */
             fi;
             if :: rel == 2 -> (seq % 2 == 0 || FIN) :: else fi;
             if :: rel == 2 && seq % 2 == 1 -> rel = 3 :: else fi;      /* killed meanwhile */
             if
             :: rel == 2 ->
#ifndef MUT_RELTOKEN
                if
                :: rseq < seq ->              /* tokens are not for foreign code */
                   do
                   :: rcvd < X + tok -> atomic { if :: tcp?c; assert(c == TOK); n = 1 :: empty(tcp) && FIN -> n = 0 fi };
                      if :: n -> rcvd++ :: else -> rcvd = X + tok fi
                   :: else -> break
                   od;
                   rseq = seq
                :: else
                fi;
#endif
                do                            /* foreign code reads raw */
                :: atomic { if :: tcp?b; n = 1 :: empty(tcp) && FIN -> n = 0 fi };
                   if :: n -> deliver(b) :: else -> break fi
                od;
                ended = 1
             :: else
             fi;
          UNLOCK(rxlock)
       fi
#endif
       skip
    od;
#if !defined KILLS
    assert(!ended || expect == nxt);         /* all of it before the end */
#else
    assert(!ended || aliveS == 0 || expect == nxt);
#endif
    } unless { !aliveR }
}
#endif
init {
    byte i;
    atomic {
#ifdef NET
      run Network();
#endif
      i = 0; do :: i < NW -> run Writer(); i++ :: else -> break od;
      i = 0; do :: i < NR -> run Reader(); i++ :: else -> break od;
#ifdef SHUT
      run Shut();
#endif
#ifdef RELEASE
      run Native();
#endif
#ifdef KILLS
      run KillS();
#endif
#ifdef KILLR
      run KillR();
#endif
    }
}
#ifdef LTL
#ifdef KILLR
ltl live { <> (wdone == NW || !aliveS) }
#else
ltl live { <> (ended || !aliveR) }
#endif
#endif
