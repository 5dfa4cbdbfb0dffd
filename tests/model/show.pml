/* Somebody begins to hear by the kernel alone, while a loop hears of the same ring by its bit.  A bit has told of what is
 * unread, so no token lies on TCP.  He says that he is there, asks for a token, and where none is on its way tells a thread
 * of the other end's process, whose program makes no call.
 *
 * The loop may leave at any step: the rest is the newcomer's.  WATCH: the sender knows of him, too, and sends tokens that
 * were not asked for.  OUT: at any step the sender's direction goes back to TCP for good, and nothing is sent there.  EXIT: the
 * process that has put the bytes leaves at any step, its thread first; another one holds the connection, and is silent.
 * MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#define TOKEN 1
#define BIT 2
#define MOST 2

byte head, tail;                    /* the ring */
byte want, count;                   /* one word: flags, and the tokens counted */
byte tcp, taken;                    /* tokens on TCP, and taken off it: as the reader tells the sender */
bool heard;                           /* of the loop, which the sender knows */
bool txlock, rxlock;
byte listeners;                     /* who hear by the kernel alone, and have said so */
bool watched, told, out, over;      /* told: a datagram lies there; out: seq has moved; over: no byte comes any more */
bool gone;                          /* the process that has put the bytes */
#define ALL_READ (over && tail == head)
#define ON_THEIR_WAY (count - taken)

inline token() {
    assert(count - taken <= MOST);
    tcp++
}

/* Under the sender's lock. */
inline ring() {
    do
    :: atomic { true -> w = want; c = count };
       t = (w & TOKEN) || (watched && c - taken < MOST);
       if
       :: t || (w & BIT) ->
          if
          :: atomic { want == w && count == c -> want = 0; count = count + t };         /* CAS of the whole word */
             if
             :: t -> token()
             :: else
             fi;
             if
             :: w & BIT -> heard = 1
             :: else
             fi;
             break
          :: atomic { else -> skip }
          fi
       :: else -> break
       fi
    od;
    atomic { w = 0; c = 0; t = 0 }
}
/* Nobody will be there to send one later: what is unread has a token from now on. */
inline leave_token() {
    if
    :: head != tail ->
       do
       :: atomic { true -> w = want; c = count };
          if
          :: c - taken < MOST ->
             if
             :: atomic { want == w && count == c -> want = 0; count++ }; token(); break
             :: atomic { else -> skip }
             fi
          :: else -> break
          fi
       od
    :: else
    fi;
    atomic { w = 0; c = 0 }
}

proctype Sender() {
    byte w, c; bool t;
    do
    :: atomic { head == N || gone -> break }
    :: atomic { head < N && !gone && !txlock -> txlock = 1 };
       if
       :: gone
       :: else -> head++; ring()
       fi;
       txlock = 0
#ifdef OUT
    :: atomic { !txlock -> txlock = 1 };
#ifndef MUT_SILENTOUT
       leave_token();
#endif
       out = 1;
       txlock = 0;
       break
#endif
    od;
#ifdef EXIT
    gone || head == N;
#endif
    over = 1
}
#ifdef EXIT
proctype Exit() {
    byte w, c;
    gone = 1;                       /* the thread, too */
    atomic { !txlock -> txlock = 1 };
#ifndef MUT_SILENTEXIT
    leave_token();
#endif
    txlock = 0
}
#endif

proctype Answerer() {
    byte w, c; bool t;
end:
    do
    :: atomic { gone -> break }
    :: atomic { told && !gone -> told = 0 };
again:
       if
       :: atomic { !txlock -> txlock = 1 };
          if
          :: !out && head != tail && (want & TOKEN) && !gone -> ring()
          :: else
          fi;
          txlock = 0
       :: atomic { txlock -> skip };            /* its patience is at its end */
#ifndef MUT_GIVEUP
          goto again
#endif
       fi
    od
}

/* Under the reader's lock.  `flags`: what the caller arms. */
inline arm(flags) {
    do
    :: atomic { ON_THEIR_WAY == MOST && (want & (flags)) != (flags) ->
          if :: tcp -> tcp--; taken++ :: else -> come = 1; break fi }              /* they come, and wake */
    :: atomic { ON_THEIR_WAY < MOST || (want & (flags)) == (flags) -> want = want | (flags); break }    /* CAS */
    od
}
inline settle(flag) {
    moved = 0;
    if
    :: head != tail -> moved = 1
    :: else ->
       seen = count;
       if
       :: out
       :: else ->
          f = flag;
          if
          :: flag == BIT && (listeners || watched) -> f = BIT | TOKEN
          :: else
          fi;
          come = 0;
          arm(f)
       fi;
       if
       :: come
       :: else ->
          if
          :: head != tail -> moved = 1
          :: else ->
             /* what was counted before, as far as it has come */
             atomic { do :: seen > taken && tcp -> tcp--; taken++ :: else -> break od };
             if
             :: head != tail -> moved = 1
             :: else
             fi
          fi
       fi
    fi;
    atomic { seen = 0; f = 0; come = 0 }
}
#define LOCK atomic { !rxlock -> rxlock = 1 }

proctype Loop() {
    byte seen, f; bool moved, come;
    do
    :: atomic { ALL_READ -> break }
    :: atomic { true -> break }                  /* its program reads no more */
    :: atomic { !rxlock && head != tail -> tail++ }
    :: atomic { head == tail && !ALL_READ };
       LOCK;
       settle(BIT);
       atomic { rxlock = 0;
       if
       :: moved
       :: else -> heard || tcp || ALL_READ -> heard = 0
       fi;
       moved = 0 }
    od
}

proctype Newcomer() {
    byte seen, f; bool moved, come, missing;
#ifndef MUT_LATECOUNT
    listeners++;
#endif
#ifdef WATCH
    watched = 1;
#endif
#ifndef MUT_NOSHOW
    LOCK;
    if
    :: out                                     /* whoever went out has left a token */
    :: else ->
       settle(TOKEN);
       if
       :: moved ->
#ifdef MUT_ASKFIRST
          missing = ON_THEIR_WAY == 0 && (want & TOKEN);
#endif
          arm(TOKEN);
#ifndef MUT_ASKFIRST
          missing = ON_THEIR_WAY == 0
#endif
       :: else
       fi
    fi;
    atomic { rxlock = 0; moved = 0; come = 0 };
#ifndef MUT_NOASK
    if
    :: missing -> told = 1
    :: else
    fi;
#endif
    missing = 0;
#endif
#ifdef MUT_LATECOUNT
    listeners++;
#endif
    do
    :: atomic { ALL_READ -> break }
    :: atomic { tcp && !ALL_READ && !rxlock -> rxlock = 1;       /* the kernel tells him; he reads a byte */
          if :: head != tail -> tail++ :: else fi };
       settle(TOKEN);
       if
       :: moved && !out -> arm(TOKEN)           /* one stays, and the next byte brings another one */
       :: else
       fi;
       atomic { rxlock = 0; moved = 0; come = 0 }
    od
}

#ifdef LTL
ltl read { <> (ALL_READ) }
#endif
init {
    atomic {
        want = TOKEN;
        run Sender(); run Answerer(); run Loop(); run Newcomer();
#ifdef EXIT
        run Exit()
#endif
    }
}
