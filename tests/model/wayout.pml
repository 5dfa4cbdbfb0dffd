/* The way out with bytes unread: who answers for a program that makes no call, and what happens if nobody does.
 *
 * The sender's program puts N bytes into the ring and then makes no more calls.  Its process has a thread that sleeps on
 * a datagram socket.  The reader's end gives its descriptor to foreign code at any moment.  It asks that what is unread
 * be sent again, and wakes the thread.  If that does not answer in time it reads the bytes itself, and a process copies:
 * first these, then what comes over TCP.  Tokens are switch.pml's matter.
 *
 * IMPATIENT: the reader withdraws at any step.  FORKS: the sender's process forks at any step, for which the thread rests.
 * MUT_...: mistakes. */
#ifndef N
#define N 3
#endif
#ifdef IMPATIENT
#define WITHDRAWS true
#else
#define WITHDRAWS false
#endif

/* the kernel */
chan tcp = [N] of { byte };
bool datagram;                      /* in the queue of the thread's socket: one more says nothing new */
/* the segment */
byte head, tail, seq;               /* seq 1: the direction is on TCP */
bool raw;                           /* one word with head: nothing more can be published */
byte rel;                           /* 1 asked, 2 granted, 3 withdrawn or refused */
bool named;                         /* there is somebody who can be asked */
byte ring[N];
/* the sender's end */
bool txlock, on_tcp, resting, runs = 1;
byte nxt = 1;
/* the reader's */
byte expect = 1, kept, first[N];
bool over;

#define LOCK atomic { !txlock -> txlock = 1 }
#define UNLOCK txlock = 0

proctype Program() {
    byte left = N;
    bool put;
    do
    :: left == 0 -> break
    :: left > 0 ->
       left--;
       LOCK;
       if
       :: !on_tcp && seq == 0 ->
#ifndef MUT_LATENAME
          named = 1;
#endif
          ring[head % N] = nxt;
          atomic {                  /* compare-and-swap of the head */
            if
            :: !raw -> head++; nxt++; put = 1
            :: raw -> on_tcp = 1; put = 0
            fi };
#ifdef MUT_LATENAME
          named = 1;
#endif
          if
          :: put
          :: else -> atomic { tcp!nxt; nxt++ }
          fi
       :: else -> atomic { tcp!nxt; nxt++ }
       fi;
       UNLOCK
    od
}
inline answer() {
    if
    :: rel == 1 ->
       LOCK;
       atomic { if :: rel == 1 -> rel = 2; ok = 1 :: else -> ok = 0 fi };
       if
       :: ok ->
          i = tail;
          do
          :: i < head -> tcp!ring[i % N]; i++
          :: else -> break
          od;
          on_tcp = 1;
          seq = 1
       :: else
       fi;
       UNLOCK
    :: else
    fi
}
proctype Thread() {
    byte i;
    bool ok;
end:
    do
#ifdef MUT_LOOKFIRST
    :: !resting -> answer(); (datagram || resting); datagram = 0
#else
    :: atomic { datagram -> datagram = 0 };
       if
       :: resting -> runs = 0; goto rests     /* what was told may have been a wish */
       :: else -> answer()
       fi
#endif
    :: atomic { over -> break }
    od;
    goto out;
rests:
    (runs || over);
    if :: runs -> goto end :: else fi;
out: skip
}
#ifdef FORKS
proctype Fork() {
    resting = 1;
    datagram = 1;
    (!runs || over);
    resting = 0;
    runs = 1;
#ifndef MUT_EATENWISH
    datagram = 1
#endif
}
#endif
proctype Asker() {
    byte b, i;
    bool done;
    if
    :: atomic { head == tail -> raw = 1 }                  /* nothing is unread */
    :: head != tail ->
       rel = 1;
#ifndef MUT_LATENAME
       assert(named);
#endif
       if :: named -> datagram = 1 :: else fi;
       if
       :: rel >= 2
       :: atomic { WITHDRAWS && rel == 1 -> rel = 3 }
       fi;
       if
       :: rel == 2 -> (seq == 1)
       :: rel == 3 ->
          do                                               /* reads what there is */
          :: head != tail -> first[kept] = ring[tail % N]; kept++; tail++
          :: else ->
#ifdef MUT_TWOSTEPS
             raw = 1; break
#else
             atomic { if :: head == tail -> raw = 1; done = 1 :: else fi };
             if :: done -> break :: else fi
#endif
          od
       fi
    fi;
    /* foreign code reads: of the pair where there is a process that copies, else of TCP */
#ifdef MUT_TCPFIRST
    if :: tcp?b -> assert(b == expect); expect++ :: empty(tcp) fi;
#endif
    do
    :: i < kept -> b = first[i]; assert(b == expect); expect++; i++
    :: else -> break
    od;
    do
    :: expect <= N -> tcp?b; assert(b == expect); expect++
    :: else -> break
    od;
    over = 1
}
init {
    atomic {
      run Program(); run Thread(); run Asker();
#ifdef FORKS
      run Fork();
#endif
    }
}
