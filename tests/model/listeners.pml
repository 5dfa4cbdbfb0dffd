/* Two who wait at one end for the same ring: a thread that sleeps in poll() on TCP and hears by a token, and a loop that
 * hears by a bit.  want is a set of flags in the word that also counts tokens.  Each adds its own flag; the sender takes all
 * that are set, and tells each.  The thread reads one byte and leaves; the loop reads the rest.
 *
 * MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#define TOKEN 1
#define BIT 2

byte head, tail, want, tokens;      /* want and tokens are one word */
bool token, ready;                   /* on TCP; in the loop's page */

proctype Sender() {
    byte w;
    do
    :: atomic { head == N -> break }
    :: atomic { head < N -> head++ };
       if
       :: want ->
          atomic { w = want; want = 0; if :: w & TOKEN -> tokens++ :: else fi };
          if :: w & TOKEN -> token = 1 :: else fi;
          if :: w & BIT -> ready = 1 :: else fi
       :: else
       fi;
       w = 0
    od
}
#ifdef MUT_STORE
#define ARM(flag) want = flag
#else
#define ARM(flag) atomic { want = want | flag }
#endif
proctype Thread() {
    do
    :: atomic { head != tail -> tail++; break }            /* one recv() */
    :: atomic { tail == N -> break }                                   /* the loop was quicker */
    :: atomic { head == tail && tail < N };
       ARM(TOKEN);
       if
       :: head != tail
       :: else -> atomic { token || tail == N -> token = 0 }
       fi
    od
}
proctype Loop() {
    do
    :: atomic { tail == N -> break }
    :: atomic { head != tail -> tail++ }
    :: atomic { head == tail && tail < N };
       ARM(BIT);
       if
       :: head != tail
       :: else -> atomic { ready || tail == N -> ready = 0 }
       fi
    od
}
init { atomic { run Sender(); run Thread(); run Loop() } }
