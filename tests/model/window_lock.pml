/* The lock of one member's part of a window: one owns it, or several share it.  A waiting member never takes a turn that it
 * may not have, and gives back what it was handed while it went away.  Any member may die at any step.
 *
 * M members, each with TURNS turns of any kind.  DEATH: a member dies.  LEAVES: a member that waits may go away, as
 * by a signal.  MUT_...: mistakes. */
#ifndef M
#define M 3
#endif
#ifndef TURNS
#define TURNS 2
#endif
mtype { NONE, SHARES, WANTS_SHARED, WANTS_ALONE, HANDED };
mtype state[M];                     /* CAS by all; the member alone leaves SHARES, and enters all but SHARES and HANDED */
byte owner;                         /* member + 1 */
bool dead[M];
byte alone, sharing;                /* who really is in there: for the assertion */

#define OWNER_DEAD (owner != 0 && dead[owner - 1])

inline dies() {
#ifdef DEATH
    if :: atomic { me == DEATH && !dead[me] -> dead[me] = true; goto gone } :: skip fi
#else
    skip
#endif
}

inline release() {                  /* of the owner: who waits to share may, then the next who wants it alone is handed it */
    i = 0;
    do
    :: i < M -> atomic { if :: state[i] == WANTS_SHARED -> state[i] = SHARES :: else fi }; dies(); i++
    :: else -> break
    od;
    i = 1; next = 0;
    do
    :: i < M && next == 0 ->
       j = (me + i) % M;
#ifdef MUT_PLAINHANDOVER
       if :: state[j] == WANTS_ALONE -> next = j + 1 :: else fi;
#else
       atomic { if :: state[j] == WANTS_ALONE -> state[j] = HANDED; next = j + 1 :: else fi };
#endif
       dies();
       i++
    :: else -> break
    od;
    owner = next
}

proctype member(byte me) {
    byte turn, i, j, next;
    bool late;
    do
    :: turn == TURNS -> break
    :: else ->
       turn++;
       late = false;
       dies();
       if
       :: goto share
       :: goto alone_
       fi;
share:
       state[me] = SHARES;
       dies();
again:
       if
#ifdef MUT_NOLOOK
       :: true -> goto shared
#else
       :: owner == 0 -> goto shared
       :: owner != 0 -> state[me] = WANTS_SHARED
#endif
       fi;
       dies();
       if
       :: state[me] == SHARES -> goto shared
       :: owner == 0 ->
          atomic { if :: state[me] == WANTS_SHARED -> state[me] = SHARES; goto again :: else -> goto shared fi }
#ifndef MUT_NODEAD
       :: OWNER_DEAD -> late = true
#endif
#ifdef LEAVES
       :: me == LEAVES -> late = true
#endif
       fi;
       atomic {
           if
           :: state[me] == WANTS_SHARED -> state[me] = NONE; goto out
           :: else                  /* it was let in meanwhile */
           fi
       };
shared:
       atomic { sharing++; assert(alone == 0) };
#ifdef DEATH
       if :: atomic { me == DEATH -> dead[me] = true; sharing--; goto gone } :: skip fi;
#endif
       atomic { sharing--; };
       state[me] = NONE;
       goto out;

alone_:
       state[me] = WANTS_ALONE;
       dies();
try:
       atomic { if :: owner == 0 -> owner = me + 1; goto owned :: else fi };
       dies();
       if
       :: owner == me + 1 -> goto owned
       :: owner == 0 -> goto try
#ifndef MUT_NODEAD
       :: OWNER_DEAD
#endif
#ifdef LEAVES
       :: me == LEAVES
#endif
       fi;
#ifdef MUT_PLAINLEAVE
       state[me] = NONE; goto out;
#else
       atomic {
           if
           :: state[me] == WANTS_ALONE -> state[me] = NONE; goto out
           :: else
           fi
       };
       late = true;                 /* it was handed: it takes that, and gives it back */
       if
       :: owner == me + 1
       :: OWNER_DEAD -> state[me] = NONE; goto out  /* he died before he had handed it over */
       fi;
#endif
owned:
       state[me] = NONE;
       dies();
       if :: late -> goto leave :: else fi;
#ifndef MUT_NODRAIN
       i = 0;
       do
       :: i < M ->
          if
          :: state[i] != SHARES
#ifndef MUT_NODEAD
          :: dead[i] && state[i] == SHARES    /* it only shared: what it did stands */
#endif
#ifdef LEAVES
          :: me == LEAVES && state[i] == SHARES -> goto leave
#endif
          fi;
          i++
       :: else -> break
       od;
#endif
       atomic { alone++; assert(alone == 1 && sharing == 0) };
       dies();
       alone--;
leave:
       release();
out:
       skip
    od;
gone:
    skip
}

init {
    byte k;
    atomic {
        do :: k < M -> state[k] = NONE; k++ :: else -> break od;
        k = 0;
        do :: k < M -> run member(k); k++ :: else -> break od
    }
}
