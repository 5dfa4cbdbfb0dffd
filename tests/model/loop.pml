/* How a loop of our selectors hears: a bitmap of ready connections with a summary over its words, a word that says that the
 * loop sleeps, one eventfd.  Several senders; the loop looks at no ring that no bit names.  A slot of the bitmap is given to
 * another connection while a late sender still rings for the first one.
 *
 * Connections 0 and 1.  REUSE: 1 comes when 0 is closed, and gets its slot.  KILL: the sender of 1 is killed at any
 * step, and no FIN tells, for a forked process holds the socket, too.  MUT_...: mistakes. */
#ifndef K
#define K 2                         /* bytes on each connection */
#endif
#define CONNECTIONS 2
#ifdef REUSE
#define SLOTS 1
#else
#define SLOTS 2
#endif
#define NONE 9

/* the rings, and who asks to be told */
byte head[CONNECTIONS], tail[CONNECTIONS];
bool want[CONNECTIONS];
byte slot[CONNECTIONS];             /* written by the loop's end before it arms */
/* the loop's page: one word a slot here, so that the summary has something to sum up */
bool bits[SLOTS], summary[SLOTS];
byte asleep;                        /* 0, or the number of this sleep */
bool eventfd;
/* of the loop */
byte owner[SLOTS], sleeps;
bool hot[CONNECTIONS], closed, dead, began = 1;
#define SOME_HOT (hot[0] || hot[1])
#ifdef REUSE
#define SOME_BIT summary[0]
#else
#define SOME_BIT (summary[0] || summary[1])
#endif

proctype Sender(byte c) {
    byte n, s, e;
    {
    if :: c == 1 -> began :: else fi;
    do
    :: atomic { n == K -> break }
    :: n < K ->
       d_step { n++; head[c]++ };
       if
       :: want[c] ->
          atomic { want[c] -> want[c] = 0 };              /* CAS; nobody else takes it back */
          s = slot[c];
#ifdef MUT_SUMMARYFIRST
          summary[s] = 1;
          bits[s] = 1;
#else
          bits[s] = 1;
          summary[s] = 1;
#endif
#ifdef MUT_EXCHANGE
          atomic { e = asleep; asleep = 0 };
          if :: e -> eventfd = 1 :: else fi
#else
          e = asleep;
          if
          :: e ->
             eventfd = 1;
#ifdef MUT_LATECLEAR
             asleep = 0
#else
             atomic { if :: asleep == e -> asleep = 0 :: else fi }      /* CAS: the loop may sleep anew meanwhile */
#endif
          :: else
          fi
#endif
       :: else
       fi;
       d_step { s = 0; e = 0 }
    od
    } unless { c == 1 && dead }
}

inline collect_slot(i) {
    if
    :: atomic { s[i] -> x = bits[i]; bits[i] = 0;
          if :: x && owner[i] != NONE -> hot[owner[i]] = 1 :: else fi }
    :: atomic { else -> skip }
    fi
}
/* one look at a hot connection: an event is told and its program reads a byte, or it is armed and cools */
inline look(c) {
    if
    :: atomic { !hot[c] }
    :: atomic { hot[c] && head[c] != tail[c] -> tail[c]++ }
    :: atomic { hot[c] && head[c] == tail[c] ->
#ifdef MUT_LOOKFIRST
          hot[c] = 0 };
       want[c] = 1
#else
          want[c] = 1 };
       atomic { if :: head[c] == tail[c] -> hot[c] = 0 :: else fi }
#endif
    fi
}
#ifdef REUSE
#define ALL_READ (closed && tail[1] == K)
#else
#define ALL_READ (tail[0] == K && (tail[1] == K || dead))
#endif

proctype Loop() {
    bool s[SLOTS], x;
    do
    :: atomic { ALL_READ -> break }
    :: atomic { !ALL_READ };
       d_step { s[0] = summary[0]; summary[0] = 0;        /* exchange of one word */
#ifndef REUSE
                s[1] = summary[1]; summary[1] = 0
#endif
              };
       collect_slot(0);
#ifndef REUSE
       collect_slot(1);
#endif
       d_step { s[0] = 0; x = 0;
#ifndef REUSE
                s[1] = 0
#endif
              };
       look(0); look(1);
#ifdef REUSE
       if
       :: atomic { closed || tail[0] == 0 }
       :: atomic { !closed && tail[0] > 0 ->              /* the program closes 0 and accepts 1, which gets its slot */
             closed = 1; hot[0] = 0; owner[0] = NONE };
          began = 1;
          atomic { slot[1] = 0; owner[0] = 1;
#ifndef MUT_COLD
                   hot[1] = 1                             /* looked at, and armed, before the next sleep */
#endif
                 };
#ifdef MUT_COLD
          want[1] = 1
#endif
       fi;
#endif
       if
       :: atomic { SOME_HOT }
       :: atomic { !SOME_HOT -> sleeps++; asleep = sleeps };
#ifndef MUT_NOSECONDLOOK
          if
          :: atomic { SOME_BIT -> asleep = 0 }
          :: atomic { !SOME_BIT };
#endif
             atomic { eventfd || ALL_READ -> eventfd = 0 };
             asleep = 0
#ifndef MUT_NOSECONDLOOK
          fi
#endif
       fi
    od
}
#ifdef KILL
proctype Kill() { dead = 1 }
#endif
init {
    atomic {
#ifdef REUSE
      began = 0; slot[1] = NONE; owner[0] = 0; hot[0] = 1;
#else
      slot[1] = 1; owner[0] = 0; owner[1] = 1; hot[0] = 1; hot[1] = 1;
#endif
      run Sender(0); run Sender(1); run Loop();
#ifdef KILL
      run Kill();
#endif
    }
}
