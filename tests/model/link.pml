/* A process link: memory that two processes share already, so that their next connection attaches by one line.  The client's
 * process announces a connection in the line and is the only one that hands the ring out.  A thread of the server claims it
 * for a connection that it has accepted.  One line, one ring, two connections one after the other.
 *
 * The line's word is generation and state in one.  A claim goes in two steps.  The ring is used again when both ends have let
 * go, and no thread is inside.
 *
 * KILLC, KILLV: the client's, the server's process is killed at any step.  SAMEPORT: afterwards a process without a link
 * connects from the same port.  MUT_...: mistakes. */
#define OPEN 0
#define JOINED 1
#define GONE 2
#define CLAIMING 3
#define WORD(gen, state) ((gen) * 4 + (state))
#define GEN(word) ((word) / 4)
#define STATE(word) ((word) % 4)
#define CLIENT 0
#define SERVER 1

/* the link's memory */
byte word = WORD(0, GONE), key;
bool released[2] = 1;
byte named;                         /* a word of the ring (X, say): which connection it is for */
/* of the client: of connection c */
byte state[3], mine[3];             /* 0 candidate, 1 offered, 2 up, 3 never; mine: the generation of its line */
/* the world */
bool alive[2] = 1, born[3], closed[3];      /* processes; connections: made, and closed by the client's end */
byte keys[3];                       /* the four-tuple of a connection */
/* of the model */
bool gives[2];                      /* the end has let go, but a thread is inside */
byte owner, inside[2], user[2];     /* who announced this generation; threads within the ring; for which connection */

inline enter(e, c) { d_step { assert(user[1-e] == 0 || user[1-e] == c); assert(owner == c); user[e] = c; inside[e]++ } }
inline leave(e) {
    d_step { inside[e]--; if :: inside[e] == 0 -> user[e] = 0; released[e] = gives[e]; gives[e] = 0 :: else fi }
}
/* the end lets go of the ring: whoever leaves it last gives it back */
inline let_go(e) {
#ifdef MUT_RELEASEINSIDE
    released[e] = 1
#else
    d_step { if :: inside[e] == 0 -> released[e] = 1 :: else -> gives[e] = 1 fi }
#endif
}

inline announce(c) {
    w = word;
    if
    :: (STATE(w) == GONE && released[CLIENT]
#ifdef MUT_ONERELEASE
        || STATE(w) == JOINED && released[CLIENT]) ->
#else
        || STATE(w) == JOINED && released[CLIENT] && released[SERVER]) ->
#endif
#ifndef MUT_NOGENERATION
       w = WORD(GEN(w) + 1, GONE);
#else
       w = WORD(GEN(w), GONE);
#endif
       word = w;                    /* whoever read the old word loses */
       d_step { assert(inside[CLIENT] == 0 && inside[SERVER] == 0); named = 0; released[CLIENT] = 0; released[SERVER] = 0 };
       key = keys[c];
       d_step { mine[c] = GEN(w); state[c] = 1 };
       d_step { owner = c; word = WORD(GEN(w), OPEN) }
    :: else
    fi
}
/* before the close, or because nobody claims */
inline withdraw(c) {
    atomic { if :: word == WORD(mine[c], OPEN) -> word = WORD(mine[c], GONE); w = 1 :: else -> w = 0 fi };
    if :: w -> state[c] = 3; let_go(CLIENT) :: else fi
}
#define IS_JOINED(c) (word == WORD(mine[c], JOINED))

proctype Client() {
    byte c, w;
    {
    c = 1;
    do
    :: atomic { c > 2 -> break }
    :: atomic { c <= 2 -> born[c] = 1; keys[c] = c };
       announce(c);
       do
       :: state[c] == 1 && IS_JOINED(c) -> state[c] = 2
       :: state[c] == 1 -> withdraw(c)
       :: state[c] == 2 -> enter(CLIENT, c); leave(CLIENT); break
       :: state[c] == 0 || state[c] == 3 -> break
       :: state[c] == 1 -> break
       od;
       /* close */
       if
       :: state[c] == 1 ->
          withdraw(c);
          if
          :: state[c] == 1 -> (STATE(word) != CLAIMING || !alive[SERVER]); if :: STATE(word) == JOINED -> state[c] = 2 :: else fi
          :: else
          fi
       :: else
       fi;
       if
       :: state[c] == 2 ->
          let_go(CLIENT)
       :: else
       fi;
       atomic { closed[c] = 1; w = 0; c++ }
    od
    } unless { !alive[CLIENT] }
}
/* A thread of the client that sleeps in the kernel's recv() on connection 1 while others go on.  It is inside from before
 * recv(), with the reader's lock: it looks at the ring when it comes back. */
proctype Sleeper() {
    bool ok;
    {
    if
    :: atomic { closed[1] || state[1] == 3 }
    :: atomic { state[1] == 1 && !closed[1] ->
#ifndef MUT_NOTINSIDE
          inside[CLIENT]++
#endif
       };
       ok = IS_JOINED(1);
       if
       :: ok -> assert(named == 1)
       :: else
       fi;
#ifndef MUT_NOTINSIDE
       leave(CLIENT)
#endif
    fi
    } unless { !alive[CLIENT] }
}

proctype Server(byte c) {           /* the thread of connection c */
    byte w;
    bool ok;
    {
    if
    :: born[c]
    :: atomic { !alive[CLIENT] && !born[c] -> goto over }
    fi;
    do
    :: w = word;
       if
       :: STATE(w) == OPEN && key == keys[c] ->
#ifndef MUT_DEADLINE
          if :: !alive[CLIENT] -> break :: else fi;         /* a dead process's line */
#endif
#ifdef MUT_ONESTEP
          named = c;                /* before the claim: is it still this connection's ring? */
          atomic { if :: word == w -> word = WORD(GEN(w), JOINED); ok = 1 :: else -> ok = 0 fi };
#else
          atomic { if :: word == w -> word = WORD(GEN(w), CLAIMING); assert(owner == c); ok = 1 :: else -> ok = 0 fi };
          if
          :: ok -> named = c; word = WORD(GEN(w), JOINED)
          :: else
          fi;
#endif
          if
          :: ok ->
             enter(SERVER, c);
             run Helper(c);
             leave(SERVER);
             (closed[c]);
             let_go(SERVER);
             break
          :: else
          fi
       :: else
       fi;
       ok = 0; w = 0
    :: break
    od;
over: skip
    } unless { !alive[SERVER] }
}
proctype Helper(byte c) {           /* another thread of the server on that connection */
    {
    if
    :: atomic { user[SERVER] == c && !gives[SERVER] -> inside[SERVER]++ }; assert(owner == c && named == c); leave(SERVER)
    :: skip
    fi
    } unless { !alive[SERVER] }
}
#ifdef KILLC
proctype Kill() {
#ifdef SAMEPORT
    /* What shows a process's life must end before its sockets do: then nobody can have the port before it is seen dead. */
end:
    atomic { born[1] && !born[2] -> closed[1] = 1;
#ifndef MUT_LATEDEATH
      alive[CLIENT] = 0;
#endif
      born[2] = 1; keys[2] = keys[1] };
    alive[CLIENT] = 0
#else
    alive[CLIENT] = 0; closed[1] = 1; closed[2] = 1
#endif
}
#endif
#ifdef KILLV
proctype Kill() { alive[SERVER] = 0 }
#endif
init {
    atomic {
      run Client(); run Sleeper(); run Server(1); run Server(2);
#if defined KILLC || defined KILLV
      run Kill();
#endif
    }
}
