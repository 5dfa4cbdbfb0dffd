/* How a communicator whose members belong to two jobs is revoked (fastsock/mpj/recovery/revocation.py): if one member that
 * lives has heard of it, all that live do, although members die at any step.
 *
 * N members, half of them in each job, of which DEATHS may die.  Member 0 revokes.  Whoever hears it first tells each member of
 * the other job by a message, and then the server of its own job, which tells all there, or none.  A message of a member that
 * died may be lost.  MUT_...: mistakes. */
#ifndef N
#define N 4
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define JOB(i) ((i) / (N / 2))
#define AT(from, to) ((from) * N + (to))

bool told[N * N], server[2];
bool heard[N], dead[N];
byte deaths;

inline dies() {
    if
    :: atomic {
          deaths < DEATHS -> deaths++; dead[me] = true; j = 0;
          do
          :: j < N -> if :: told[AT(me, j)] = false :: skip fi; j++
          :: else -> break
          od;
          goto gone
       }
    :: skip
    fi
}

proctype member(byte me) {
    byte j;
    dies();
end:
    if
    :: me == 0
    :: me != 0 && (server[JOB(me)] || told[AT(0, me)] || told[AT(1, me)] || told[AT(2, me)] || told[AT(3, me)])
    fi;
    dies();
    j = 0;
    do
    :: j < N ->
#ifdef MUT_NOTPASSEDON
       if :: me == 0 && JOB(j) != JOB(me) -> told[AT(me, j)] = true :: else fi;
#else
       if :: JOB(j) != JOB(me) -> told[AT(me, j)] = true :: else fi;
#endif
       j++;
       if :: atomic { deaths < DEATHS -> deaths++; dead[me] = true; goto gone } :: skip fi
    :: else -> break
    od;
#ifdef MUT_NOSERVER
    if :: me == 0 -> server[JOB(me)] = true :: else fi;
#else
    server[JOB(me)] = true;
#endif
    dies();
    heard[me] = true;
gone:
    skip
}

proctype judge() {
    byte i, j;
    timeout;
    atomic {
        i = 0;
        do
        :: i < N ->
           j = 0;
           do
           :: j < N -> assert(dead[i] || dead[j] || heard[i] == heard[j]); j++
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
