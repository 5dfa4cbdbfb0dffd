/* A poller that tells edges: of bytes that came since it told last, however many are unread.  It remembers where the head was
 * when it told.  Before it sleeps it asks for what comes next, also where bytes are unread.
 *
 * The program reads as much as it likes after it was told, and another thread of it at any step.  MODIFY: the program
 * registers the number anew, which tells what is unread once more.  TOKENS: the poller hears by tokens on TCP, as the kernel
 * tells of each that arrives.  TWO: two threads poll, and the first to be told is gone for good.  MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#define MOST 2
#define NEWS ((head != edge || fresh) && head != tail)
#define UNTOLD (head != knows && head != tail)

byte head, tail;                    /* the ring */
bool want;                          /* of one word with `count`, which is tokens */
byte count, tcp, taken;
bool told;                          /* the sleeper's wake-up: the bit and the bell, or the kernel's edge */
byte edge;                          /* the head, as the poller told last */
bool fresh = 1;                     /* nothing was told since it was registered */
byte tells, registered = 1;
byte knows = 255;                   /* the head when the program was told: what it was not told of must not lie there */
byte sleepers, here;                /* threads that sleep; that poll still */
bool lock, over;

proctype Sender() {
    byte w, c;
    do
    :: atomic { head == N -> break }
    :: atomic { head < N -> head++ };
       do
       :: atomic { !want -> break }
       :: atomic { head == tail -> break }      /* it has it all: the wish is for what comes next */
       :: atomic { want -> w = want; c = count };
          if
          :: atomic { want == w && count == c -> want = 0;      /* CAS of the whole word */
#ifdef TOKENS
             count++ };
             assert(count - taken <= MOST);
             atomic { tcp++; told = 1 };
#else
             told = 1 };
#endif
             break
          :: atomic { else -> skip }
          fi
       od;
       atomic { w = 0; c = 0 }
    od;
    over = 1
}

/* With the poller's lock and the reader's. */
inline settle() {
    moved = 0;
#ifdef MUT_EMPTY
    if
    :: head != tail
    :: else ->
#endif
#ifdef TOKENS
    armed = 0;
    seen = count;
    do
    :: atomic { count - taken == MOST && !want ->
          if :: tcp -> tcp--; taken++ :: else -> armed = 1; break fi }  /* they come, and wake */
    :: atomic { count - taken < MOST || want -> want = 1; break }
    od;
#else
    want = 1;
#endif
#ifndef MUT_NOLOOK
    if
    :: NEWS -> moved = 1
    :: else
    fi;
#endif
#ifdef TOKENS
    if
    :: !moved && !armed && head == tail ->          /* what is unread keeps its token, for others */
       atomic { do :: seen > taken && tcp -> tcp--; taken++ :: else -> break od };
       if
       :: NEWS -> moved = 1
       :: else
       fi
    :: else
    fi;
    atomic { seen = 0; armed = 0 };
#endif
#ifdef MUT_EMPTY
    fi
#endif
}

proctype Poller() {
    bool moved, armed; byte seen, h;
    do
    :: atomic { over && !UNTOLD -> break }
    :: atomic { !lock -> lock = 1 };
look:  h = head;
       if
       :: (h != edge || fresh) && h != tail ->
tell:     atomic {
#ifndef MUT_LATE
          edge = h; fresh = 0;
#else
          fresh = 0;
#endif
          h = 0; knows = head; tells++; assert(tells <= head + registered) };
#ifdef TWO
#ifndef MUT_ALONE
          if
          :: sleepers -> settle()           /* this one may not come back */
          :: else
          fi;
          if
          :: moved -> moved = 0; goto look  /* told in one event */
          :: else
          fi;
#endif
          if
          :: atomic { here == 2 -> here--; lock = 0 }; break
          :: atomic { here == 1 -> skip }
          fi;
#endif
          lock = 0;
          /* the program */
          do
          :: atomic { head != tail -> tail++ }
          :: atomic { true -> break }
          od
#ifdef MUT_LATE
          ; edge = head             /* as it comes back */
#endif
       :: else ->
          h = 0;
          settle();
          if
          :: moved -> atomic { moved = 0; lock = 0 }
          :: else ->
             atomic { sleepers++; lock = 0 };
             atomic { told || (over && !UNTOLD) -> told = 0; sleepers-- }
          fi
       fi
    od
}

/* another thread of the program */
proctype Reader() {
    do
    :: atomic { head != tail -> tail++ }
    :: atomic { true -> break }
    od
}

#ifdef MODIFY
proctype Modify() {
    atomic { !lock -> lock = 1 };
    registered++;
    fresh = 1; knows = 255;
#ifndef MUT_QUIET
    told = 1;                               /* who sleeps looks */
#endif
    lock = 0
}
#endif

init {
    atomic {
        want = 1;
        run Sender(); run Reader();
        here = 1; run Poller();
#ifdef TWO
        here = 2; run Poller();
#endif
#ifdef MODIFY
        run Modify()
#endif
    }
}
