/* How the two ends of a live connection attach, both directions.  End B offers the memory, end A joins by a CAS, B declines
 * by a CAS of the same word.  Each end has a writer and a reader; shutdown, close and kill come at any step.  No spill, and
 * the rings are never full: switch.pml has these.  README.md says what each word means.
 *
 * NA, NB payload bytes from A and from B.  PROGR, PROGW: readers, writers take part in the attach.  KILL, CLOSE: of which
 * end.  ANSWERED: an end sends FIN when the other one has read all, so that no FIN hides a lost wake-up.  MUT_...: mistakes. */
#define LOCK(l)   atomic { !l -> l = 1 }
#define UNLOCK(l) l = 0
#define TOK 0                       /* a token on TCP; payload is numbered 1, 2, ... */

#ifndef NA
#define NA 1                        /* payload bytes from A */
#endif
#ifndef NB
#define NB 1
#endif
#define LEFT(e) (e == A && n < NA || e == B && n < NB)
#ifndef PROGR
#define PROGR false                 /* the readers of that end take part in the attach, too */
#endif
#ifndef PROGW
#define PROGW true
#endif
#define CAP 4
#define CAND 0
#define OFFERED 1
#define UP 2
#define NEVER 3
#define A 0                         /* joins */
#define B 1                         /* offers */
chan tcp[2] = [CAP] of { byte };    /* [e]: what end e sends */
bool fin[2], gone[2];               /* FIN sent by e; e's socket is closed */
bool offered;                       /* the datagram with the memory */
/* the segment */
byte joined;                        /* CAS 0 to 1: joined, 0 to 2: declined */
byte X[2], tok[2], head[2], tail[2];
bool sw[2];
bool want[2] = 1;
/* of each end */
byte st[2], sent[2], rcvd[2], put[2], got[2], tx_busy[2];
bool txlock[2], out_ring[2], ended[2], wfin[2], alive[2] = 1;

inline progress(e) {
    if
    :: skip
    :: atomic { !txlock[e] && st[e] < UP -> txlock[e] = 1 }
       if
       :: st[e] == CAND && e == B && tx_busy[e] == 0 ->
#ifdef MUT_OFFERFIRST
          offered = 1; st[e] = OFFERED
#else
          st[e] = OFFERED; offered = 1
#endif
       :: st[e] == CAND && e == A && offered ->
          out_ring[e] = 1;
          if
          :: tx_busy[e] == 0 ->
             X[e] = sent[e]; sw[e] = 1; st[e] = UP;
             atomic { if :: joined == 0 -> joined = 1; ok = 1 :: else -> ok = 0 fi };
             if :: ok :: else -> st[e] = NEVER; out_ring[e] = 0 fi
          :: else -> out_ring[e] = 0
          fi
#ifdef MUT_READTWICE
       :: st[e] == OFFERED ->
          if :: joined == 1 -> out_ring[e] = 1 :: else fi;
          if
          :: tx_busy[e] > 0 || joined != 1 -> out_ring[e] = 0
          :: else -> X[e] = sent[e]; sw[e] = 1; out_ring[e] = 1; st[e] = UP
          fi
#else
       :: st[e] == OFFERED && joined == 1 -> out_ring[e] = 1;
          if
          :: tx_busy[e] == 0 -> X[e] = sent[e]; sw[e] = 1; st[e] = UP
          :: else -> out_ring[e] = 0
          fi
#endif
       :: else
       fi;
       UNLOCK(txlock[e])
    fi
}
/* before a shutdown or a close: is it decided? */
inline decide(e) {
    do
    :: st[e] == OFFERED ->
#ifdef MUT_UNDECIDED
       st[e] = NEVER
#else
       atomic { if :: joined == 0 -> joined = 2; ok = 1 :: else -> ok = 0 fi };
       if :: ok -> st[e] = NEVER :: else -> progress(e) fi
#endif
    :: st[e] == CAND ->
       LOCK(txlock[e]);
#ifdef MUT_FORGETOFFER
       st[e] = NEVER;
#else
       if :: st[e] == CAND -> st[e] = NEVER :: else fi;     /* another thread may have made an offer meanwhile */
#endif
       UNLOCK(txlock[e])
    :: st[e] >= UP -> break
    od
}
proctype Writer(byte e) {
    byte n; bool ok, w;
    {
    do
    :: break                        /* shutdown at any step */
    :: LEFT(e) ->
again: if
       :: out_ring[e] ->
          LOCK(txlock[e]);
          if :: st[e] == UP && sw[e] && out_ring[e] :: else -> UNLOCK(txlock[e]); goto again fi;
          if :: gone[1-e] -> UNLOCK(txlock[e]); break :: else fi;
          put[e]++; head[e]++;
          if
          :: want[e] ->
             d_step { w = want[e]; want[e] = 0 }
             if
             :: w -> tok[e]++;
                atomic { if :: gone[1-e] :: else -> tcp[e]!TOK; sent[e]++ fi }
             :: else
             fi
          :: else
          fi;
          w = 0; UNLOCK(txlock[e]); n++
       :: else ->
          tx_busy[e]++;
          if
          :: out_ring[e] -> tx_busy[e]--; LOCK(txlock[e]); UNLOCK(txlock[e]); goto again
          :: else
          fi;
          atomic { if :: gone[1-e] -> ok = 0 :: else -> tcp[e]!(put[e] + 1); put[e]++; ok = 1 fi };
          if :: ok -> sent[e]++ :: else fi;
          tx_busy[e]--;
          if :: ok :: else -> break fi;
          n++; ok = 0;
          if :: PROGW -> progress(e); ok = 0 :: else fi
       fi
    od;
#ifdef ANSWERED
    (got[1-e] == put[e] || gone[1-e]);      /* the program closes when the other one has read all: no FIN wakes anybody before */
#endif
    decide(e);
    LOCK(txlock[e]); wfin[e] = 1; UNLOCK(txlock[e]);
    fin[e] = 1
    } unless { !alive[e] }
}
/* is the X of direction d good?  Each word is loaded for itself */
inline valid(e, d) {
    v = 0; s = st[e];
#ifdef MUT_SWONLY
    j = 1;
#else
    j = joined;
#endif
    if :: (s == OFFERED || s == UP) && j == 1 -> v = sw[d] :: else fi;
    d_step { s = 0; j = 0 }
}
inline deliver2(e, x) { d_step { assert(x == got[e] + 1); got[e]++ } }
proctype Reader(byte e) {
    byte b, c, n, t, s, j, k; bool v, ok, z;
    {
    do
    :: atomic { ended[e] -> break }
    :: else ->
       if :: PROGR -> progress(e); ok = 0 :: else fi;
call:  skip; d_step { b = 0; c = 0; n = 0; t = 0; k = 0; z = 0 }
       valid(e, 1-e);
       if
       :: v && rcvd[e] < X[1-e] -> atomic { tcp[1-e]?b }; rcvd[e]++; deliver2(e, b)
       :: v && rcvd[e] >= X[1-e] ->
          if
          :: head[1-e] != tail[1-e] -> tail[1-e]++; got[e]++; assert(got[e] <= put[1-e])
          :: else ->
             t = tok[1-e]; want[1-e] = 1;
             if :: head[1-e] != tail[1-e] -> goto call :: else fi;
             (len(tcp[1-e]) > 0 || fin[1-e]);
             t = tok[1-e];
             k = X[1-e] + t - rcvd[e];
             do
             :: k > 0 && len(tcp[1-e]) > 0 -> atomic { tcp[1-e]?c; assert(c == TOK) }; rcvd[e]++; k--
             :: else -> break
             od;
             atomic { z = (len(tcp[1-e]) == 0 && fin[1-e]) };
             if :: z && head[1-e] == tail[1-e] -> ended[e] = 1 :: else -> goto call fi
          fi
       :: !v ->
          atomic {                  /* asleep in the kernel's recv */
            if
            :: len(tcp[1-e]) > 0 -> tcp[1-e]?b; n = 1; if :: len(tcp[1-e]) > 0 -> tcp[1-e]?c; n = 2 :: true fi
            :: len(tcp[1-e]) == 0 && fin[1-e] -> n = 0
            fi }
          t = rcvd[e]; rcvd[e] = rcvd[e] + n;
          valid(e, 1-e);
          if
          :: !v && n == 0 -> ended[e] = 1
          :: !v && n > 0 -> deliver2(e, b); if :: n == 2 -> deliver2(e, c) :: else fi
          :: v -> if :: n > 0 && t < X[1-e] -> deliver2(e, b) :: else fi;
                  if :: n == 2 && t + 1 < X[1-e] -> deliver2(e, c) :: else fi
          fi
       fi
    od;
    assert(got[e] == put[1-e] || !alive[1-e])
    } unless { !alive[e] }
}
#ifdef KILL
proctype Kill(byte e) { atomic { alive[e] = 0; fin[e] = 1; gone[e] = 1 } }
#endif
#ifdef CLOSE
proctype Close(byte e) {            /* by the end itself; its other threads have stopped where they were */
    bool ok;
    alive[e] = 0;
#ifndef MUT_UNDECIDED
    atomic { if :: st[e] == OFFERED && joined == 0 -> joined = 2 :: else fi }
#endif
    atomic { fin[e] = 1; gone[e] = 1 }
}
#endif
init {
    atomic {
      run Writer(A); run Reader(A); run Writer(B); run Reader(B);
#ifdef KILL
      run Kill(KILL);
#endif
#ifdef CLOSE
      run Close(CLOSE);
#endif
    }
}
#ifdef LTL
ltl live { <> ((ended[A] || !alive[A]) && (ended[B] || !alive[B])) }
#endif
