/* Which processes hold a connection.  Each has a place in a table, and the connection a bit for each place.  A process may
 * end without a word.  Its bit stays until somebody finds that it has ended, and takes the bit away.  Its place then
 * serves the next child, whose bit is the same one.
 *
 * A looks whether it is alone.  B, which holds the connection too, forks children one after the other; all of them end
 * without a word.  MUT_...: mistakes. */
#define FREE 0
#define COMING 1                    /* a child that is about to be */
#define HERE 2
#define GONE 3
#ifndef CHILDREN
#define CHILDREN 2
#endif
#ifndef LOOKS
#define LOOKS 3
#endif

byte place[3];                      /* of A, B, and B's child */
bool there[3];                      /* the kernel's word: that process holds the connection */
bool bits[3];                        /* one word with: */
byte count;                         /* how often a bit was set */

inline ask(i) {                     /* the kernel, and then the place is marked for all */
    atomic {
      if
      :: place[i] == HERE && !there[i] -> place[i] = GONE
#ifdef MUT_COMINGGONE
      :: place[i] == COMING && !there[i] -> place[i] = GONE
#endif
      :: else
      fi }
}
inline set_bit(i) {
#ifdef MUT_NOCOUNT
    bits[i] = 1
#else
    d_step { bits[i] = 1; count++ }
#endif
}
proctype Child() { there[2] = 0 }   /* at any later step, also behind B's end */
proctype B() {
    byte left = CHILDREN;
    do
    :: left == 0 -> break
    :: left > 0 ->
       left--;
       ask(2);
       if
       :: atomic { place[2] == FREE || place[2] == GONE -> place[2] = COMING };
          set_bit(2);
          there[2] = 1;             /* fork() */
          place[2] = HERE;
          run Child()
       :: else
       fi
    od;
    there[1] = 0
}
proctype A() {
    byte left = LOOKS, i, seen;
    bool b[3];
    do
    :: left == 0 -> break
    :: left > 0 ->
       left--;
       d_step { b[1] = bits[1]; b[2] = bits[2]; seen = count };
       i = 1;
       do
       :: i < 3 && b[i] ->
          ask(i);
          if
          :: place[i] == GONE ->
             d_step {               /* compare-and-swap of the whole word */
               if
               :: seen == count && b[1] == bits[1] && b[2] == bits[2] -> bits[i] = 0; b[i] = 0
               :: else -> b[1] = bits[1]; b[2] = bits[2]; seen = count
               fi }
          :: else -> i++
          fi
       :: i < 3 && !b[i] -> i++
       :: i == 3 -> break
       od;
       if
       :: !b[1] && !b[2] -> assert(!there[1] && !there[2])
       :: else
       fi;
       d_step { i = 0; b[1] = 0; b[2] = 0; seen = 0 }
    od
}
init {
    d_step { place[0] = HERE; place[1] = HERE; there[0] = 1; there[1] = 1; bits[0] = 1; bits[1] = 1 };
    atomic { run A(); run B() };
    (_nr_pr == 1);
    assert(bits[0])
}
