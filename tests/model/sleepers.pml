/* Several threads sleep in one loop, as in one epoll object.  Any of them may be told by the kernel of something else, and
 * leave; the other one sleeps on, and must hear of the bits that come then.
 *
 * The bell wakes all who sleep; whoever is awake stills it.  PASSER: so does one who has not slept.  MUT_...: mistakes. */
#ifndef K
#define K 3                         /* events */
#endif
bool ready, bell, gone;
byte asleep, sleeps, sleepers, sent, heard;

proctype Sender() {
    byte e;
    do
    :: atomic { sent == K -> break }
    :: atomic { sent < K && !ready -> sent++; ready = 1 };
       e = asleep;
       if
       :: e -> bell = 1;
          atomic { if :: asleep == e -> asleep = 0 :: else fi }
       :: else
       fi;
       e = 0
    od
}

/* Under the loop's lock: one step each. */
inline wake() {
#ifdef MUT_FIRSTAWAKE
    atomic { sleepers--; asleep = 0 }
#else
    atomic { sleepers--;
      if
      :: sleepers -> sleeps++; asleep = sleeps
      :: else -> asleep = 0
      fi }
#endif
}

proctype Thread(bool leaves) {
    do
    :: atomic { heard == K -> break }
    :: atomic { ready -> ready = 0; heard++ }
    :: atomic { !ready && heard < K -> sleepers++; sleeps++; asleep = sleeps };
       if
       :: ready -> wake()
       :: else ->
          if
          :: atomic { bell || heard == K -> bell = 0 }
          :: atomic { leaves -> gone = 1; bell = 0 }      /* told of something else, too */
          fi;
          wake();
#ifndef MUT_NOLOOK
          if
          :: atomic { ready -> ready = 0; heard++ }
          :: atomic { else -> skip }
          fi;
#endif
          if
          :: gone && leaves -> break
          :: else
          fi
       fi
    od
}
#ifdef PASSER
/* It asks the kernel and does not sleep, stills the bell, and goes. */
proctype Passer() {
    if
    :: atomic { bell -> bell = 0 };
#ifndef MUT_STILLONLY
       atomic {
          if
          :: sleepers -> sleeps++; asleep = sleeps
          :: else
          fi };
       if
       :: ready -> bell = 1
       :: else
       fi
#endif
    :: atomic { heard == K -> skip }
    fi
}
#endif
init { atomic { run Sender(); run Thread(0); run Thread(1);
#ifdef PASSER
    run Passer()
#endif
} }
