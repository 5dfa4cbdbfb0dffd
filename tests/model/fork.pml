/* A process forks while its connection may still attach.  State and lock of the end are shared with the child; whether the
 * memory is mapped is each process's own.  Only a connection that one process holds is offered; fork takes the sender's lock
 * and counts the child before there is one.  A child that knows no memory would read tokens as payload.
 *
 * MUT_...: mistakes. */
#define TOK 0
#define NOBODY 2
#define FORKS 3
#define CAND 0
#define OFFERED 1
#define FREE (txlock == NOBODY)
mtype = { absent, runs, over };

/* of the connection */
chan tcp = [4] of { byte };
bool fin, offer;                    /* the offer is on its way */
/* the segment */
bool joined;
byte X, head, tail, tok;
/* of the end, shared by the family */
byte state, holders = 1, txlock = NOBODY, rxlock = NOBODY, rcvd, expect = 1;
bool ended;
/* of each process of the end */
mtype life[2] = absent;
bool mapped[2];

proctype Peer() {                   /* the other end: a byte, and one more by what is there then */
    byte sent;
    tcp!1; sent++;
    if
    :: atomic { offer -> X = sent; joined = 1 };
       head++;
       d_step { tok++; tcp!TOK }
    :: tcp!2
    fi;
    fin = 1
}

/* The threads of a process of the end: one takes part in the attach, one reads, one forks. */
proctype Attacher(byte me) {
    bool may;
    {
    do
    :: atomic { state != CAND || ended -> break }
    :: atomic { FREE && state == CAND -> txlock = me };
#ifdef MUT_SHAREDCANDIDATE
       may = 1;
#else
       may = (holders == 1);
#endif
       if
       :: may && state == CAND -> mapped[me] = 1; state = OFFERED; offer = 1
       :: else
       fi;
       atomic { may = 0; txlock = NOBODY; (state != CAND || ended || holders == 1) }
    od
    } unless { life[me] == over }
}
proctype Reader(byte me) {
    byte b;
    {
    do
    :: atomic { ended -> break }
    :: atomic { rxlock == NOBODY && (len(tcp) > 0 || fin || head != tail) -> rxlock = me };
       if
       :: ended
       :: atomic { !ended && mapped[me] && state == OFFERED && joined && rcvd >= X ->
             if
             :: head != tail -> tail++; assert(expect == 2); expect++
             :: head == tail && rcvd < X + tok && len(tcp) > 0 -> tcp?b; assert(b == TOK); rcvd++
             :: head == tail && len(tcp) == 0 && fin -> ended = 1
             :: else
             fi }
       :: atomic { !ended && !(mapped[me] && state == OFFERED && joined && rcvd >= X) ->
             if
             :: len(tcp) > 0 -> tcp?b; rcvd++; assert(b == expect); expect++
             :: len(tcp) == 0 && fin -> ended = 1
             :: else
             fi }
       fi;
       atomic { b = 0; rxlock = NOBODY }
    od
    } unless { life[me] == over }
}
proctype Forker() {
    if
    :: skip
    :: true ->
#ifndef MUT_FORKUNLOCKED
       atomic { FREE -> txlock = FORKS };
#endif
       holders++;
       atomic { mapped[1] = mapped[0]; life[1] = runs; run Attacher(1); run Reader(1) };
#ifndef MUT_FORKUNLOCKED
       txlock = NOBODY;
#endif
       if                           /* either of the two may end first, or none */
       :: skip
       :: atomic { FREE && rxlock != 0 -> life[0] = over; holders-- }
       :: atomic { FREE && rxlock != 1 -> life[1] = over; holders-- }
       fi
    fi
}
init {
    atomic { life[0] = runs; run Peer(); run Attacher(0); run Reader(0); run Forker() };
    (_nr_pr == 1);
    assert(ended && expect == 3)
}
