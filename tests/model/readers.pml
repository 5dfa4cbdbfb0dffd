/* Several threads of an end in the kernel's recv() when the connection attaches.  The first one holds the reader's lock, from
 * before recv() until its bytes are counted, already while the connection is a candidate.  Others, which may not wait then,
 * count themselves in `extra` and go in without it.  No offer is made with one of these inside.
 *
 * MUT_...: mistakes. */
#define TOK 0
#define CAND 0
#define OFFERED 1

chan tcp = [4] of { byte };
bool fin, offer, joined;
byte X, head, tail, tok;            /* the segment */
byte state, extra, rcvd;
bool rxlock, ended;
byte put;                           /* of the model: bytes sent; which ones were read, in whatever order two threads came */
bool got[5];

inline deliver(b) { d_step { assert(b != TOK && !got[b]); got[b] = 1 } }

proctype Peer() {
    byte sent;
    d_step { tcp!1; sent++; put++ };
    if
    :: d_step { tcp!2; sent++; put++ }
    :: skip
    fi;
    if
    :: atomic { offer -> X = sent; joined = 1 };
       d_step { head++; put++ };
       d_step { tok++; tcp!TOK }
    :: d_step { tcp!(sent + 1); sent++; put++ }
    fi;
    fin = 1
}
proctype Offerer() {
    byte tries;
    do
    :: atomic { ended || offer || tries == 3 -> break }
    :: atomic { tries < 3 && !offer && !ended -> tries++ };
#ifdef MUT_LOOKFIRST
       if
       :: extra == 0 -> state = OFFERED; offer = 1
       :: else
       fi
#else
       state = OFFERED;
#ifdef MUT_NOEXTRA
       offer = 1
#else
       if
       :: extra == 0 -> offer = 1
       :: else -> state = CAND      /* nothing was sent: again at a later call */
       fi
#endif
#endif
    od
}
proctype Reader() {
    byte b;
    bool end;
    do
    :: atomic { ended -> break }
    :: atomic { !ended && !rxlock -> rxlock = 1 };
       if
       :: ended
       :: !ended && state == OFFERED && joined && rcvd >= X ->
          if
          :: atomic { head != tail -> tail++; deliver(X + 1) }
          :: atomic { head == tail && rcvd < X + tok && len(tcp) > 0 -> tcp?b; assert(b == TOK); rcvd++ }
          :: atomic { head == tail && len(tcp) == 0 && fin -> ended = 1 }
          fi
       :: else ->
          if                        /* asleep in recv() */
          :: atomic { len(tcp) > 0 -> tcp?b }
          :: atomic { len(tcp) == 0 && fin -> end = 1 }
          fi;
          if
          :: !end -> rcvd++
          :: else
          fi;
          if
          :: state == OFFERED && joined && end                               /* the ring first */
          :: state == OFFERED && joined && !end && rcvd > X -> assert(b == TOK)
          :: else -> if :: end -> ended = 1 :: else -> deliver(b) fi
          fi
       fi;
       atomic { b = 0; end = 0; rxlock = 0 }
    :: atomic { !ended && rxlock && state == CAND };                         /* somebody is in there */
       extra++;
       if
       :: state == CAND ->
          if
          :: atomic { len(tcp) > 0 -> tcp?b };
             rcvd++; deliver(b)
          :: atomic { len(tcp) == 0 && (fin || ended) }
          fi;
          b = 0
       :: else                      /* waits for the lock from now on */
       fi;
       extra--
    od
}
init {
    atomic { run Peer(); run Offerer(); run Reader(); run Reader() };
    (_nr_pr == 1);
    assert(got[1] && (put < 2 || got[2]) && (put < 3 || got[3]))
}
