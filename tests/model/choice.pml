/* How the members of a team agree on the way that a call's data go, while one of them measures.  The first member decides,
 * and says so in the cell that all await anyway.  Of a call that it times, it waits until everybody is done.  Cells are few,
 * so they are filled again.  Any member may die at any step.
 *
 * M members, CALLS calls, CELLS cells a member.  DEATH: a member dies.  MUT_...: mistakes. */
#ifndef M
#define M 3
#endif
#ifndef CALLS
#define CALLS 3
#endif
#ifndef CELLS
#define CELLS 2
#endif
#define BUFFERS 0                   /* ways */
#define DIRECT 1

typedef Cell { byte number; bit way };
typedef Cells { Cell at[CELLS] };
Cells cells[M];                     /* numbers: 0 is none, calls count from 1 */
byte ready[M], done[M];             /* the last call of which its data are shown; that it is done with */
bool dead[M];
byte wrong;                         /* calls in which two members went different ways */
bit went[CALLS + 1];                /* the way of the first one that chose */
bool known[CALLS + 1];
bit guess;                          /* what the first member would take next, by what it measured: anything */

#define C cells[me].at[n % CELLS]
#define HIS(i) cells[i].at[n % CELLS]

/* Waits for a member, and gives up where it died before it came so far. */
inline await(i, come) {
    if
    :: come
    :: dead[i] && !(come) -> goto lost
    fi
}

inline dies() {
#ifdef DEATH
    if :: atomic { me == DEATH -> dead[me] = true; goto gone } :: skip fi
#else
    skip
#endif
}

/* A cell is free when all are done with the call that filled it. */
inline claim() {
#ifndef MUT_NOCLAIM
    if
    :: n > CELLS ->
       i = 0;
       do
       :: i < M -> if :: i != me -> await(i, done[i] >= n - CELLS) :: else fi; i++
       :: else -> break
       od
    :: else
    fi
#else
    skip
#endif
}

proctype member(byte me) {
    byte n = 1, i;
    bit way, timed;
    do
    :: n > CALLS -> break
    :: else ->
       dies();
       claim();
       if
       :: me == 0 -> if :: guess = BUFFERS :: guess = DIRECT fi; C.way = guess
       :: else
       fi;
       if :: me == 0 -> if :: timed = 0 :: timed = 1 fi :: else -> timed = 0 fi;
       C.number = n;
       dies();
#ifdef MUT_OWNGUESS
       way = guess;
#endif
#ifdef ALL
       i = 0;
       do
       :: i < M -> if :: i != me -> await(i, HIS(i).number >= n) :: else fi; i++
       :: else -> break
       od;
#else
       if :: me != 0 -> await(0, HIS(0).number >= n) :: else fi;
#endif
#ifndef MUT_OWNGUESS
       way = HIS(0).way;
#endif
       d_step { /* all members of a call go one way */
           if
           :: !known[n] -> known[n] = true; went[n] = way
           :: known[n] && went[n] != way -> wrong++
           :: else
           fi
       };
       assert(wrong == 0);
       ready[me] = n;
       if
       :: way == DIRECT ->          /* whose memory is read stays until all have read it */
          i = 0;
          do
          :: i < M -> if :: i != me -> await(i, ready[i] >= n) :: else fi; i++
          :: else -> break
          od
       :: else
       fi;
       dies();
#ifdef MUT_TIMEDFIRST
       if :: timed -> i = 1; do :: i < M -> await(i, done[i] >= n); i++ :: else -> break od :: else fi;
       i = 0;                       /* and who is not the first waits for it */
       if :: me != 0 -> await(0, done[0] >= n) :: else fi;
#endif
       done[me] = n;
#ifndef MUT_TIMEDFIRST
       if                           /* until everybody is done; nobody waits for who waits here */
       :: timed ->
          i = 1;
          do
          :: i < M -> if :: done[i] >= n :: dead[i] && done[i] < n fi; i++
          :: else -> break
          od
       :: else
       fi;
#endif
       n++
    od;
    assert(done[me] == CALLS);
    goto gone;
lost:                               /* the call fails here and says so: the others hear of it */
    atomic { dead[me] = true }
gone:
    skip
}

init {
    atomic {
        byte j = 0;
        do :: j < M -> run member(j); j++ :: else -> break od
    }
}
