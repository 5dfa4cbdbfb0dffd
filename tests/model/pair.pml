/* Both directions at once, with spill and return: two programs that never wait in a call.  Each sends, reads, and sleeps
 * when it can do neither.  Data are told by tokens (switch.pml), room in the ring by a bell that is no byte on TCP: a futex
 * or a bit of a loop.  One thread an end, so there are no locks and nobody is within the kernel.
 *
 * ANSWERED: an end sends FIN when the other one has read all, so that no FIN hides a lost wake-up.
 * NA, NB bytes from each end; RING, CAP, MAXSW as in switch.pml.  MUT_...: mistakes. */
#ifndef NA
#define NA 3
#endif
#ifndef NB
#define NB 2
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
#ifdef ANSWERED
#define CLOSES(e) (expect[1-e] == nxt[e])
#else
#define CLOSES(e) true
#endif
#define ON_RING(d) (seq[d] % 2 == 1)

typedef bytes { byte at[RING] };
chan tcp[2] = [CAP] of { byte };    /* [d]: from end d */
bool fin[2];
/* the segment; of direction d, which end d fills */
byte seq[2], X[2], Y[2], tok[2], head[2], tail[2], rseq[2];
bytes ring[2];
bool want[2];
bool room[2];                       /* end d waits for room */
/* of the ends */
byte sent[2], left[2], nxt[2] = 1, rcvd[2], expect[2] = 1;
bool bell[2], ended[2];

/* What follows a step and touches only the end's own words is part of that step. */
inline deliver(e) { assert(b == expect[e]); expect[e]++; b = 0; idle = 0 }

/* bytes lie in the ring of direction d: does the reader ask for a token?  TCP never refuses it: X is named only where TCP
 * has room for two */
inline look_up(d) {
    if
    :: want[d] ->
       d_step { want[d] = 0; tok[d]++ };
       atomic { if :: ended[1-d] :: else -> assert(len(tcp[d]) < CAP); tcp[d]!TOK fi; sent[d]++ }
    :: else
    fi
}
#define MAY_RETURN(d) (!ON_RING(d) && left[d] > 0 && seq[d] < MAXSW && rseq[d] == seq[d] && len(tcp[d]) < CAP - 1)

/* the end has taken a byte out of the other end's ring: does the other end wait for room? */
inline tell_room(e) {
    if
    :: room[1-e] ->
#if defined MUT_ROOMTOKEN || defined MUT_ROOMANYWAY
       room[1-e] = 0;
       atomic {
         if
#ifdef MUT_ROOMANYWAY
         :: len(tcp[e]) < CAP -> tok[e]++; tcp[e]!TOK; sent[e]++
#else
         :: ON_RING(e) -> tok[e]++; assert(len(tcp[e]) < CAP); tcp[e]!TOK; sent[e]++
#endif
         :: else -> skip            /* on TCP a token would be payload */
         fi }
#else
       d_step { room[1-e] = 0; bell[1-e] = 1 }
#endif
    :: else
    fi
}

proctype End(byte e) {
    byte b, n, s, t, k;
    bool idle, waits;
    do
    :: atomic { left[e] == 0 && fin[e] && ended[e] -> break }
    :: atomic { !(left[e] == 0 && fin[e] && ended[e]) -> idle = 1; waits = 0 };
       /* send */
       if
       :: d_step { MAY_RETURN(e) -> X[e] = sent[e]; tok[e] = 0; want[e] = 1; seq[e]++; idle = 0 }
       :: d_step { left[e] > 0 && !ON_RING(e) && len(tcp[e]) < CAP -> tcp[e]!nxt[e]; nxt[e]++; left[e]--; sent[e]++; idle = 0 }
       :: d_step { left[e] > 0 && !ON_RING(e) && len(tcp[e]) == CAP -> skip }
       :: atomic { left[e] > 0 && ON_RING(e) && head[e] - tail[e] < RING ->
             ring[e].at[head[e] % RING] = nxt[e]; nxt[e]++; left[e]--; head[e]++; idle = 0 };
          look_up(e)
       :: d_step { left[e] > 0 && ON_RING(e) && head[e] - tail[e] == RING && seq[e] < MAXSW -> Y[e] = head[e]; seq[e]++; idle = 0 }
       :: d_step { left[e] > 0 && ON_RING(e) && head[e] - tail[e] == RING -> waits = 1 }
       :: d_step { left[e] == 0 && !fin[e] && CLOSES(e) -> fin[e] = 1; idle = 0 }
       :: d_step { left[e] == 0 && (fin[e] || !CLOSES(e)) -> skip }
       fi;
       /* receive */
       s = seq[1-e];
       if
       :: ended[e]
       :: d_step { !ended[e] && rseq[1-e] % 2 == 0 && s > rseq[1-e] && rcvd[e] >= X[1-e] -> rseq[1-e]++; idle = 0 }
       :: d_step { !ended[e] && rseq[1-e] % 2 == 0 && s > rseq[1-e] && rcvd[e] < X[1-e] -> tcp[1-e]?b; rcvd[e]++; deliver(e) }
       :: atomic { !ended[e] && rseq[1-e] % 2 == 0 && s == rseq[1-e] -> n = len(tcp[1-e]); k = fin[1-e] };      /* MSG_PEEK */
          if
          :: atomic { seq[1-e] != s -> idle = 0 }
          :: atomic { seq[1-e] == s && n == 0 && k -> ended[e] = 1; idle = 0 }
          :: atomic { seq[1-e] == s && n == 0 && !k -> skip }
          :: atomic { seq[1-e] == s && n > 0 } ; d_step { tcp[1-e]?b; rcvd[e]++; deliver(e) }
          fi
       :: d_step { !ended[e] && rseq[1-e] % 2 == 1 && head[1-e] != tail[1-e] ->
             b = ring[1-e].at[tail[1-e] % RING]; tail[1-e]++; deliver(e) };
          tell_room(e)
       :: atomic { !ended[e] && rseq[1-e] % 2 == 1 && head[1-e] == tail[1-e] && s > rseq[1-e] && tail[1-e] == Y[1-e] ->
             k = X[1-e] + tok[1-e] - rcvd[e] };
          do
          :: d_step { k > 0 -> tcp[1-e]?b; assert(b == TOK); rcvd[e]++; k-- }
          :: atomic { k == 0 -> break }
          od;
          atomic { rseq[1-e]++; idle = 0 }
       :: atomic { !ended[e] && rseq[1-e] % 2 == 1 && head[1-e] == tail[1-e] && (s == rseq[1-e] || tail[1-e] != Y[1-e]) ->
             k = X[1-e] + tok[1-e] - rcvd[e] };                         /* the ring is empty */
          do
          :: d_step { k > 0 && len(tcp[1-e]) > 0 -> tcp[1-e]?b; assert(b == TOK); rcvd[e]++; k-- }
          :: atomic { k == 0 || len(tcp[1-e]) == 0 -> break }
          od;
          atomic { if :: X[1-e] + tok[1-e] - rcvd[e] <= 1 -> want[1-e] = 1 :: else fi };
          atomic { k = (len(tcp[1-e]) == 0 && fin[1-e]) };
          d_step { if
                   :: head[1-e] != tail[1-e] || seq[1-e] != s -> idle = 0
                   :: else -> if :: k -> ended[e] = 1; idle = 0 :: else fi
                   fi }
       fi;
       /* sleep */
       if
       :: atomic { !(idle && waits) }
       :: atomic { idle && waits -> room[e] = 1 };
#ifndef MUT_NOSECONDLOOK
          d_step { if :: head[e] - tail[e] < RING -> room[e] = 0; idle = 0 :: else fi }
#else
          skip
#endif
       fi;
       d_step { b = 0; n = 0; s = 0; t = 0; k = 0; waits = 0 };
       if
       :: atomic { !idle }
       :: atomic { idle ->
             (len(tcp[1-e]) > 0 || fin[1-e] && !ended[e] || bell[e] || !fin[e] && left[e] == 0 && CLOSES(e) ||
              left[e] > 0 && !ON_RING(e) && len(tcp[e]) < CAP);
             bell[e] = 0 }
       fi
    od;
    assert(expect[e] == nxt[1-e])
}
init { atomic { left[0] = NA; left[1] = NB; run End(0); run End(1) } }
