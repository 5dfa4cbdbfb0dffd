/* A loop that hears by its bit, and the tokens of the same direction.  A sender that does not know the loop makes a token of
 * the wish for a bit.  The loop watches TCP too, and takes the tokens that lie there before it sleeps.
 *
 * THREAD: a thread waits at the same end by tokens.  It is there before it arms, and a loop that takes a token while it
 * is there arms for it.  MOVE: after a byte the connection moves to another loop, in another slot.  Words of the place of
 * the bit are two.  LEARN: the sender comes to know a loop at any step.  ASK: the loop's name is answered when a token has
 * come, and the sender asks before it sends one.  MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#define TOKEN 1
#define BIT 2
#define MOST 2

byte head, tail;                    /* the ring */
byte want, count;                   /* one word: flags, and the tokens counted */
byte tcp, taken;                    /* tokens on TCP, and taken off it */
byte loop, slot;                    /* where the bit is, by the reader */
bool bits[4];                       /* of loop 0: 0 and 1; of loop 1: 2 and 3 */
bool known[2], began[2], asked, lock;
byte waiting;                       /* threads that wait by tokens */

inline token() {
    assert(count - taken <= MOST);
    tcp++
}

proctype Sender() {
    byte w, c, l, s; bool t;
    do
    :: atomic { head == N -> break }
    :: atomic { head < N -> head++ };
       do
       :: atomic { !want -> break }
       :: atomic { want -> w = want; c = count };
          t = (w & TOKEN);
          if
          :: atomic { want == w && count == c -> want = 0; count = count + t };         /* CAS of the whole word */
             if
             :: t -> token()
             :: else
             fi;
             if
             :: w & BIT ->
                l = loop; s = slot;
                if
                :: known[l] -> bits[l * 2 + s] = 1
                :: else ->
#ifdef ASK
                   asked = 1;                   /* before the token: it has the loop look at its name */
#endif
#ifndef MUT_NOTOKEN
                   if
#ifndef MUT_TWOTOKENS
                   :: t                         /* it tells the loop, too */
#endif
                   :: else ->
#ifdef MUT_LEAVEFLAGS
                      count++;
#else
                      atomic { count++; want = 0 };     /* CAS: it takes all that was set meanwhile */
#endif
                      token()
                   fi
#else
                   skip
#endif
                fi
             :: else
             fi;
             break
          :: atomic { else -> skip }
          fi
       od;
       atomic { w = 0; c = 0; l = 0; s = 0; t = 0 }
    od
}

/* under the reader's lock; `flag` is what the caller arms */
inline settle(flag) {
    atomic { !lock -> lock = 1 };
    moved = 0;
    if
    :: head != tail -> moved = 1
    :: else ->
       seen = count;
       f = flag;
#ifndef MUT_FORGETOTHERS
       if
       :: flag == BIT && waiting -> f = BIT | TOKEN
       :: else
       fi;
#endif
       armed = 0;
       do
#ifndef MUT_ARMATTWO
       :: atomic { count - taken == MOST && (want & f) != f ->
             if :: tcp -> tcp--; taken++; came = 1 :: else -> armed = 1; break fi }    /* they come, and wake */
       :: atomic { count - taken < MOST || (want & f) == f -> want = want | f; break }     /* CAS of the whole word */
#else
       :: atomic { true -> want = want | f; break }
#endif
       od;
       if
       :: armed
       :: else ->
          if
          :: head != tail -> moved = 1
          :: else ->
             /* what was counted before, as far as it has come */
             atomic { do :: seen > taken && tcp -> tcp--; taken++; came = 1 :: else -> break od };
             if
             :: head != tail -> moved = 1
             :: else
             fi
          fi
       fi
    fi;
    atomic { lock = 0; seen = 0; f = 0; armed = 0 }
}

/* who reads has the lock, too */
inline read() {
    atomic { !lock && head != tail -> tail++ }
}

proctype Loop(byte me) {
    byte seen, f; bool moved, armed, came;
    atomic { began[me] || tail == N };
    do
    :: atomic { tail == N -> break }
    :: read();
#ifdef QUIT
       if
       :: atomic { true -> began[1] = 1; break }        /* the rest is the thread's */
       :: atomic { true -> skip }
       fi
#endif
#ifdef MOVE
       if
       :: atomic { me == 0 && !began[1] -> skip };
          loop = 1; slot = 1;
#ifdef MUT_COLD
          atomic { !lock && count - taken < MOST -> want = want | BIT; began[1] = 1 };
          bits[3] || tcp || tail == N;
#else
          began[1] = 1;             /* it begins with a look */
#endif
          break
       :: atomic { true -> skip }
       fi
#endif
    :: atomic { head == tail && tail < N };
       settle(BIT);
#ifdef ASK
       if
       :: asked && came -> asked = 0; known[me] = 1
       :: else
       fi;
#endif
       atomic { came = 0;
       if
       :: moved
       :: else -> bits[me * 3] || tcp || tail == N -> bits[me * 3] = 0
       fi;
       moved = 0 }
    od
}

#ifdef THREAD
proctype Thread() {
    byte seen, f; bool moved, armed, came;
    do
#ifdef QUIT
    :: read()
#else
    :: read(); break                /* one recv(), and it leaves */
#endif
    :: atomic { tail == N -> break }
    :: atomic { head == tail && tail < N };
       waiting++;
       settle(TOKEN);
       atomic {
       if
       :: moved
       :: else -> tcp || tail == N
       fi;
       moved = 0; came = 0; waiting-- }
    od
}
#endif
#ifdef LEARN
proctype Learn() {
    known[0] = 1;
    known[1] = 1
}
#endif
init {
    atomic {
        began[0] = 1; want = TOKEN;
#ifdef KNOWN
        known[0] = 1;
#endif
        run Sender(); run Loop(0);
#ifdef MOVE
        run Loop(1);
#endif
#ifdef THREAD
        run Thread();
#endif
#ifdef LEARN
        run Learn()
#endif
    }
}
