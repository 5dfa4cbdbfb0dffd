/* The agreement of fastsock/mpj/recovery/agreement.py: the members that live agree on a flag and on who has failed, although
 * members die at any step.
 *
 * N members, of which DEATHS may die.  What a dead member has sent may have come, or be lost, to each other one by itself; that
 * it died is heard at any time later.  At the end all that live have decided the same; of the flag, also those that died
 * behind their decision.  MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define ROUNDS (DEATHS * 2 + 4)
#define AT(round, from, to) ((round) * N * N + (from) * N + (to))

mtype { NOTHING, PROPOSAL, DECISION };
mtype kind[ROUNDS * N * N];
bit flag[ROUNDS * N * N];
byte lost[ROUNDS * N * N];          /* a set of members */
bool dead[N], decided[N];
bit flag_of[N];
byte lost_of[N];
byte deaths, over;

inline dies() {
    if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto gone } :: skip fi
}

inline tells(what, theflag, theset, whom) { /* those of the set `whom`, one after the other */
    j = 0;
    do
    :: j < N ->
       if :: j != me && (whom >> j & 1) -> dies();
             atomic { kind[AT(round, me, j)] = what; flag[AT(round, me, j)] = theflag; lost[AT(round, me, j)] = theset }
          :: else
       fi;
       j++
    :: else -> break
    od
}

proctype member(byte me) {
    byte round, j, failed, known, proposals, others;
    bit mine, all, same, answer;
    byte result;
    bool done;
    if :: mine = 0 :: mine = 1 fi;
    do
    :: done -> break
    :: else ->
       others = (1 << N) - 1 & ~failed & ~(1 << me);
       tells(PROPOSAL, mine, failed, others);
       dies();
       known = failed; all = mine; same = 1; proposals = 0; j = 0;
       do
       :: j < N ->
#ifdef MUT_HEARSTHEDEAD
          if :: j != me && !(others >> j & 1) && kind[AT(round, j, me)] == DECISION ->
                done = true; answer = flag[AT(round, j, me)]; result = lost[AT(round, j, me)]
             :: else
          fi;
#endif
          if
          :: !(others >> j & 1)
          :: (others >> j & 1) && kind[AT(round, j, me)] == PROPOSAL -> atomic {
                proposals = proposals | 1 << j;
                if :: flag[AT(round, j, me)] != mine || lost[AT(round, j, me)] != failed -> same = 0 :: else fi;
                all = all & flag[AT(round, j, me)];
                known = known | lost[AT(round, j, me)]
             }
          :: (others >> j & 1) && kind[AT(round, j, me)] == DECISION -> atomic {
                done = true; answer = flag[AT(round, j, me)]; result = lost[AT(round, j, me)]
             }
          :: (others >> j & 1) && dead[j] -> atomic {
                known = known | 1 << j;
#ifndef MUT_EARLY
                same = 0
#endif
             }
          fi;
          j++
       :: else -> break
       od;
       assert(!(known >> me & 1));
       if
#ifdef MUT_FLAGONLY
       :: !done && all == mine && known == failed -> done = true; answer = mine; result = known
       :: !done && all == mine && known != failed && proposals == others -> done = true; answer = mine; result = known
#endif
       :: !done && same && proposals == (others & ~known) -> done = true; answer = mine; result = failed
       :: else
       fi;
       failed = known; mine = all; round++;
       assert(round < ROUNDS)
    od;
#ifdef MUT_UNTOLD
    skip;
#else
#ifdef MUT_NOTPASSEDON
    if :: same && proposals == others -> tells(DECISION, answer, result, proposals) :: else fi;
#else
    tells(DECISION, answer, result, proposals);
#endif
#endif
    atomic { decided[me] = true; flag_of[me] = answer; lost_of[me] = result };
    dies();
gone:
    over++
}

proctype judge() {
    byte i, j;
    over == N;
    atomic {
        i = 0;
        do
        :: i < N ->
           assert(dead[i] || decided[i]);
           j = 0;
           do
           :: j < N ->
              if
              :: decided[i] && decided[j] ->
                 assert(flag_of[i] == flag_of[j]);
                 assert(dead[i] || dead[j] || lost_of[i] == lost_of[j]);
                 assert(!(lost_of[i] >> j & 1) || dead[j])
              :: else
              fi;
              j++
           :: else -> break
           od;
           i++
        :: else -> break
        od
    }
}

init {
    byte i;
    atomic {
        do :: i < N -> run member(i); i++ :: else -> break od;
        run judge()
    }
}
