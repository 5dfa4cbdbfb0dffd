"""Which models are checked, and which seeded mistakes must be found in them.

A check is quick (the default test run has it), short (CI has it) or full (a full run has it).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    model: str  # the name of its file, without .pml
    name: str
    defines: tuple[str, ...]
    expected: str  # "holds", or how a seeded mistake shows: "assertion", "standstill", "cycle"
    run: str = "short"
    live: bool = False  # its formula, under weak fairness, instead of its assertions and its ends

    @property
    def title(self) -> str:
        return f"{self.model}: {self.name}"


def holds(model: str, name: str, defines: str = "", run: str = "short") -> Check:
    return Check(model, name, tuple(defines.split()), "holds", run)


def lives(model: str, name: str, defines: str = "", run: str = "short") -> Check:
    return Check(model, name, ("LTL", *defines.split()), "holds", run, live=True)


def endless(model: str, name: str, defines: str = "", run: str = "short") -> Check:
    """A mistake by which somebody turns in circles for ever."""
    return Check(model, name, ("LTL", *defines.split()), "cycle", run, live=True)


def mistake(model: str, name: str, expected: str, defines: str, run: str = "short") -> Check:
    return Check(model, name, tuple(defines.split()), expected, run)


MODELS = (
    holds("choice", "three members, the first one's cell", "", "quick"),
    holds("choice", "three members, all cells", "ALL"),
    holds("choice", "the first member dies", "DEATH=0"),
    holds("choice", "another member dies", "DEATH=1"),
    holds("choice", "a member dies, all cells", "ALL DEATH=2"),
    holds("choice", "four members, five calls, one cell", "M=4 CALLS=5 CELLS=1", "full"),
    holds("switch", "blocking reader, 4 bytes", "N=4"),
    holds("switch", "blocking reader, answered", "N=4 ANSWERED", "quick"),
    holds("switch", "blocking reader, 5 bytes, ring of 2", "N=5 RING=2"),
    holds("switch", "blocking reader, 5 bytes, ring of 2, TCP of 2, answered", "N=5 RING=2 CAP=2 ANSWERED"),
    holds("switch", "blocking reader, 5 bytes, TCP of 2", "N=5 CAP=2"),
    holds("switch", "two writers", "N=4 NW=2"),
    holds("switch", "two writers, answered", "N=4 NW=2 ANSWERED"),
    holds("switch", "two readers", "N=4 NR=2", "full"),
    holds("switch", "two readers, answered", "N=3 NR=2 ANSWERED", "full"),
    holds("switch", "two writers, shutdown at any step", "N=3 NW=2 SHUT"),
    holds("switch", "sender killed at any step", "N=4 KILLS"),
    holds("switch", "reader killed or closed at any step", "N=4 KILLR"),
    holds("switch", "unseen epoll, 4 bytes", "N=4 WATCH"),
    holds("switch", "unseen epoll, 4 bytes, answered", "N=4 WATCH ANSWERED"),
    holds("switch", "unseen epoll, two reads of its own accord, answered", "N=3 WATCH LOOKS=2 ANSWERED"),
    holds("switch", "unseen epoll, 5 bytes, ring of 2, TCP of 2", "N=5 RING=2 CAP=2 WATCH"),
    holds("switch", "unseen epoll, 6 bytes, ring of 3, answered", "N=6 RING=3 WATCH ANSWERED"),
    holds("switch", "unseen epoll, shutdown at any step", "N=4 WATCH SHUT"),
    holds("switch", "unseen epoll, sender killed at any step", "N=4 KILLS WATCH"),
    holds("switch", "unseen edge-triggered epoll, reads until nothing is left", "N=4 WATCH EDGE ANSWERED"),
    holds(
        "switch", "unseen edge-triggered epoll, reads until a short read", "N=4 WATCH EDGE SHORTREAD ANSWERED", "quick"
    ),
    holds("switch", "the same, 5 bytes, ring of 2, FIN at once", "N=5 RING=2 WATCH EDGE SHORTREAD"),
    holds("switch", "unseen epoll for a writer", "N=4 POLLOUT ANSWERED"),
    holds("switch", "unseen edge-triggered epoll that the sender knows of", "N=4 WATCH EDGE EXACT SHORTREAD ANSWERED"),
    holds("switch", "its program may hear and read nothing", "N=5 RING=6 CAP=9 WATCH EDGE EXACT DEAF", "quick"),
    holds("switch", "the same, ring of 2, reads of its own accord", "N=5 RING=2 CAP=9 LOOKS=2 WATCH EDGE EXACT DEAF"),
    holds("switch", "the same, sender killed at any step", "N=4 RING=6 CAP=9 WATCH EDGE EXACT DEAF KILLS"),
    holds("switch", "the same, bytes come later", "N=4 RING=6 CAP=9 NET WATCH EDGE EXACT DEAF"),
    holds("switch", "unseen epoll that the sender knows of", "N=5 RING=3 CAP=5 WATCH EXACT ANSWERED"),
    holds("switch", "unseen edge-triggered epoll for a writer", "N=4 POLLOUT EDGE ANSWERED"),
    holds("switch", "bytes come later, answered", "N=4 NET ANSWERED"),
    holds("switch", "bytes come later, two writers, answered", "N=3 NW=2 NET ANSWERED"),
    holds("switch", "bytes come later, unseen epoll, answered", "N=4 NET WATCH ANSWERED"),
    holds("switch", "bytes come later, unseen epoll, shutdown at any step", "N=4 NET WATCH SHUT", "full"),
    holds("switch", "bytes come later, unseen epoll, sender killed at any step", "N=4 NET WATCH KILLS"),
    holds("switch", "bytes come later, unseen edge-triggered epoll", "N=4 NET WATCH EDGE SHORTREAD ANSWERED"),
    holds("switch", "bytes come later, unseen edge-triggered epoll for a writer", "N=4 NET POLLOUT EDGE ANSWERED"),
    holds("switch", "bytes come later, way out", "N=4 NET RELEASE ANSWERED", "full"),
    holds("switch", "a token that TCP refuses is owed", "N=5 CAP=2 OWED ANSWERED"),
    holds("switch", "bytes come later, a token that TCP refuses is owed", "N=5 CAP=2 NET OWED ANSWERED"),
    holds("switch", "way out", "N=4 RELEASE"),
    holds("switch", "way out, unseen epoll, answered", "N=4 RELEASE WATCH ANSWERED"),
    holds("switch", "way out, sender killed", "N=3 RELEASE KILLS"),
    lives("switch", "read in the end", "N=3 MAXSW=3"),
    lives("switch", "read in the end, unseen epoll", "N=3 MAXSW=3 WATCH"),
    lives("switch", "read in the end, edge-triggered epoll, answered", "N=3 MAXSW=3 WATCH EDGE SHORTREAD ANSWERED"),
    lives("switch", "read in the end, unseen epoll for a writer, answered", "N=3 POLLOUT ANSWERED"),
    lives("switch", "read in the end, two writers, answered", "N=3 NW=2 MAXSW=3 ANSWERED"),
    lives("switch", "read in the end, bytes come later, answered", "N=3 MAXSW=3 NET ANSWERED"),
    lives("switch", "read in the end, way out, answered", "N=3 MAXSW=3 RELEASE ANSWERED"),
    lives("switch", "the end is told, sender killed", "N=3 MAXSW=3 KILLS"),
    lives("switch", "the writer ends, reader killed", "N=3 MAXSW=3 KILLR"),
    holds("attach", "1 byte each way"),
    holds("attach", "1 byte each way, answered", "ANSWERED"),
    holds("attach", "0 bytes and 2, answered", "NA=0 NB=2 ANSWERED"),
    holds("attach", "2 bytes and 0, readers join too", "NA=2 NB=0 PROGR=true", "full"),
    holds("attach", "0 bytes and 2, readers join too", "NA=0 NB=2 PROGR=true", "full"),
    holds("attach", "1 byte each way, joining end killed", "KILL=A", "full"),
    holds("attach", "1 byte each way, offering end killed", "KILL=B", "full"),
    holds("attach", "1 byte each way, offering end closes", "CLOSE=B", "full"),
    holds("attach", "1 byte each way, offering end closes, answered", "CLOSE=B ANSWERED", "full"),
    holds("attach", "1 byte each way, joining end closes, answered", "CLOSE=A ANSWERED", "full"),
    holds("pair", "3 bytes and 2, answered", "ANSWERED"),
    holds("pair", "3 bytes and 2", "", "full"),
    holds("pair", "3 bytes and 2, ring of 2, TCP of 2", "RING=2 CAP=2"),
    holds("pair", "3 bytes and 2, ring of 2, TCP of 2, answered", "RING=2 CAP=2 ANSWERED"),
    holds("pair", "4 bytes and 2, 3 switches", "NA=4 NB=2 MAXSW=3", "full"),
    holds("family", "two sending processes, one killed at any step", "SENDERS"),
    holds("family", "two sending processes, one killed, answered", "SENDERS ANSWERED"),
    holds("family", "two sending processes, one killed, the reader hears by bits", "SENDERS BELL ANSWERED"),
    holds("family", "two reading processes, one killed at any step", "READERS"),
    holds("fork", "a process with a candidate forks at any step", "", "quick"),
    holds("holders", "children that end without a word", "", "quick"),
    holds("holders", "three children, four looks", "CHILDREN=3 LOOKS=4"),
    holds("link", "two connections one after the other"),
    holds("link", "client killed at any step", "KILLC"),
    holds("link", "server killed at any step", "KILLV"),
    holds("link", "client killed, another process connects from its port", "KILLC SAMEPORT"),
    holds("close", "with tokens on their way", "", "quick"),
    holds("close", "the other end killed at any step", "KILLA"),
    holds("loop", "two connections"),
    holds("loop", "a slot given to another connection", "REUSE", "quick"),
    holds("loop", "a sender killed at any step", "KILL K=1"),
    holds("loop", "a sender killed at any step, 2 bytes", "KILL", "full"),
    holds("wayout", "a thread answers", "", "quick"),
    holds("wayout", "a thread answers, which rests for a fork", "FORKS"),
    holds("wayout", "withdrawn at any step, and read by the asking end", "IMPATIENT FORKS"),
    holds("readers", "two threads in recv() when the connection attaches", "", "quick"),
    holds("listeners", "a thread and a loop at one end", "", "quick"),
    holds("bits", "a loop that the sender does not know"),
    holds("bits", "a loop that the sender comes to know", "LEARN", "quick"),
    holds("bits", "the loop is asked for by name", "ASK"),
    holds("bits", "and a thread that waits by tokens", "THREAD LEARN"),
    holds("bits", "and a thread, the loop leaves at any step", "THREAD QUIT LEARN"),
    holds("bits", "the connection moves to another loop", "MOVE LEARN"),
    holds("bits", "it moves to a loop that the sender does not know", "MOVE KNOWN"),
    holds("bits", "it moves, asked for by name, and a thread", "MOVE ASK THREAD"),
    holds("sleepers", "two threads, and one is told of something else", "", "quick"),
    holds("sleepers", "and another one stills the bell without having slept", "PASSER"),
    holds("edges", "a poller, by a bit", "", "quick"),
    holds("edges", "by tokens", "TOKENS"),
    holds("edges", "registered anew at any step", "MODIFY"),
    holds("edges", "by tokens, registered anew", "TOKENS MODIFY"),
    holds("edges", "two threads, one goes", "TWO"),
    holds("edges", "two threads, by tokens", "TWO TOKENS"),
    holds("edges", "two threads, registered anew", "TWO MODIFY"),
    holds("show", "somebody begins to hear by the kernel alone, 2 bytes", "N=2", "quick"),
    holds("show", "somebody begins to hear by the kernel alone"),
    holds("show", "and the sender knows of him", "WATCH"),
    holds("show", "the sender's end takes the way out at any step", "OUT"),
    holds("show", "the process leaves at any step to a silent one, 2 bytes", "EXIT N=2"),
    holds("show", "the process leaves at any step to a silent one", "EXIT", "full"),
    lives("show", "read in the end", "N=2"),
    lives("show", "read in the end, way out", "N=2 OUT", "full"),
    holds("fences", "in the kernel's send, switch word", "PAIR=1", "quick"),
    holds("fences", "head, want", "PAIR=2"),
    holds("fences", "in a recv() without a limit, switch word", "PAIR=3"),
)

MISTAKES = (
    mistake("choice", "members go by what they would take themselves", "assertion", "MUT_OWNGUESS", "quick"),
    mistake("choice", "a cell is filled before all have read it", "assertion", "MUT_NOCLAIM"),
    mistake(
        "choice", "who times a call is done after the others, and they wait for that", "standstill", "MUT_TIMEDFIRST"
    ),
    mistake("switch", "X named without exclusion", "assertion", "N=3 NW=2 MUT_NODEKKER"),
    mistake("switch", "reader sleeps without the second look", "standstill", "N=4 MUT_NOSECONDLOOK", "quick"),
    mistake("switch", "token and last payload in one read, unseen epoll", "standstill", "N=4 WATCH MUT_ONEREAD"),
    mistake("switch", "both tokens taken before want is armed", "standstill", "N=4 WATCH ANSWERED MUT_TAKEBOTH"),
    mistake("switch", "want taken back while no token is on its way", "standstill", "N=4 WATCH ANSWERED MUT_DISARM"),
    mistake(
        "switch", "a call ends at X, edge-triggered", "standstill", "N=4 WATCH EDGE SHORTREAD ANSWERED MUT_SHORTATX"
    ),
    mistake(
        "switch", "a call ends at Y, edge-triggered", "standstill", "N=4 WATCH EDGE SHORTREAD ANSWERED MUT_SHORTATY"
    ),
    mistake(
        "switch",
        "a short read of the ring arms nothing, edge-triggered",
        "standstill",
        "N=4 WATCH EDGE SHORTREAD ANSWERED MUT_SETTLEATEND",
    ),
    mistake(
        "switch",
        "no token tells of a message, a watcher of edges that reads nothing",
        "standstill",
        "N=5 RING=6 CAP=9 WATCH EDGE EXACT DEAF MUT_UNTOLD",
    ),
    mistake("switch", "EAGAIN while TCP is writable, edge-triggered", "standstill", "N=4 POLLOUT EDGE MUT_EDGEAGAIN"),
    endless("switch", "a spill leaves out_ring set", "N=3 MAXSW=3 MUT_SPILLROUTE"),
    mistake("switch", "tokens not counted", "assertion", "N=4 MUT_NOCOUNT", "quick"),
    mistake("switch", "want not armed at each switch to the ring", "standstill", "N=4 MUT_NOREARM"),
    mistake("switch", "reader arms however many tokens are there", "assertion", "N=5 RING=2 CAP=2 MUT_MANYTOKENS"),
    mistake("switch", "two readers in recv, counted after it", "assertion", "N=4 NR=2 MUT_TWOREADERS"),
    mistake("switch", "return when the ring is empty, not acknowledged", "assertion", "N=5 MUT_NOACK"),
    mistake("switch", "spill while a reader sleeps without a limit", "assertion", "N=4 MUT_BLINDSPILL"),
    mistake("switch", "token refused by TCP, count kept", "assertion", "N=5 CAP=2 MUT_NOROOM"),
    mistake("switch", "token refused by TCP, count taken back", "assertion", "N=5 CAP=2 MUT_UNCOUNT"),
    mistake("switch", "spill before a token that is owed", "assertion", "N=5 CAP=2 OWED ANSWERED MUT_SPILLOWED"),
    mistake("switch", "a token is owed, unseen epoll", "standstill", "N=5 CAP=2 RING=2 OWED WATCH ANSWERED"),
    mistake("switch", "sleep beyond X by a read that takes", "assertion", "N=4 MUT_EATSLEEP"),
    mistake("switch", "way out without draining tokens", "assertion", "N=4 RELEASE MUT_RELTOKEN"),
    mistake("switch", "way out granted before the switch is carried out", "assertion", "N=4 RELEASE MUT_RELUNACKED"),
    mistake("switch", "way out granted after shutdown", "assertion", "N=4 RELEASE MUT_RELFIN"),
    mistake("attach", "an offer sent before it is noted", "assertion", "NA=2 MUT_OFFERFIRST", "full"),
    mistake("attach", "an offer declined without deciding it", "assertion", "NA=2 MUT_UNDECIDED"),
    mistake(
        "attach", "shutdown forgets an offer of another thread", "assertion", "NA=2 NB=0 PROGR=true MUT_FORGETOFFER"
    ),
    mistake("attach", "joined read twice", "assertion", "NA=0 NB=2 PROGR=true MUT_READTWICE"),
    mistake("attach", "reader goes by the switch word, not by the join", "assertion", "NA=2 MUT_SWONLY"),
    mistake("pair", "room is told by a token, where the own direction is on the ring", "standstill", "MUT_ROOMTOKEN"),
    mistake("pair", "room is told by a token, wherever the own direction is", "assertion", "MUT_ROOMANYWAY"),
    mistake("pair", "sleep for room without the second look", "standstill", "MUT_NOSECONDLOOK"),
    mistake("family", "X by the family's own count", "assertion", "SENDERS MUT_OWNCOUNT"),
    mistake("family", "a token that a killed holder owes is not sent", "assertion", "SENDERS MUT_NOOWED"),
    mistake("family", "a reader by bits is told only if want is set", "standstill", "SENDERS BELL ANSWERED MUT_IFWANT"),
    mistake("family", "a killed holder's carrier is not set right", "standstill", "SENDERS MUT_NOROUTE"),
    mistake("family", "a killed sender keeps the lock", "standstill", "SENDERS MUT_NOSTEAL"),
    mistake("family", "bytes read by the family's own count", "standstill", "READERS MUT_OWNREAD"),
    mistake("family", "a killed reader keeps the lock", "standstill", "READERS MUT_NOSTEAL"),
    mistake("fork", "a candidate of several processes attaches", "assertion", "MUT_SHAREDCANDIDATE"),
    mistake("fork", "fork without the sender's lock", "assertion", "MUT_FORKUNLOCKED"),
    mistake("holders", "the next process has the bit, and no count", "assertion", "CHILDREN=3 MUT_NOCOUNT", "quick"),
    mistake("holders", "a child that is about to be counts as gone", "assertion", "MUT_COMINGGONE"),
    mistake("link", "a ring is used again when one end has let go", "assertion", "MUT_ONERELEASE"),
    mistake("link", "no generation in a line's word", "assertion", "MUT_NOGENERATION"),
    mistake("link", "a ring is written before it is claimed", "assertion", "MUT_ONESTEP"),
    mistake("link", "a ring goes back while a thread is inside", "assertion", "MUT_RELEASEINSIDE"),
    mistake("link", "a thread in recv() is not inside", "assertion", "MUT_NOTINSIDE"),
    mistake("link", "a dead process's line is claimed", "assertion", "KILLC SAMEPORT MUT_DEADLINE"),
    mistake("link", "a process's sockets close before it is seen dead", "assertion", "KILLC SAMEPORT MUT_LATEDEATH"),
    mistake("wayout", "a name is told after the bytes", "standstill", "MUT_LATENAME", "quick"),
    mistake("wayout", "the thread looks before it takes the datagram", "standstill", "MUT_LOOKFIRST"),
    mistake("wayout", "a thread that rests takes a wish with it", "standstill", "FORKS MUT_EATENWISH"),
    mistake("wayout", "the head is looked at and marked in two steps", "assertion", "IMPATIENT MUT_TWOSTEPS"),
    mistake("wayout", "what comes over TCP is copied first", "assertion", "IMPATIENT MUT_TCPFIRST"),
    mistake("close", "tokens are not taken", "assertion", "MUT_NODRAIN"),
    mistake("close", "want is not taken back", "assertion", "MUT_NODISARM"),
    mistake("close", "a token that is counted is not waited for", "assertion", "MUT_NOWAIT"),
    mistake("loop", "the summary before the bit", "standstill", "MUT_SUMMARYFIRST"),
    mistake("loop", "the ring looked at before it is armed", "standstill", "MUT_LOOKFIRST"),
    mistake("loop", "sleep without a look at the summary", "standstill", "MUT_NOSECONDLOOK", "quick"),
    mistake("loop", "awake stored after the eventfd, whatever it is then", "standstill", "MUT_LATECLEAR"),
    mistake("loop", "awake stored before the eventfd, the sender killed", "standstill", "KILL K=1 MUT_EXCHANGE"),
    mistake("loop", "a slot's next connection is armed without a look", "standstill", "REUSE MUT_COLD"),
    mistake("readers", "offered with a thread inside without the lock", "assertion", "MUT_NOEXTRA"),
    mistake("readers", "looked whether one is inside before the state is stored", "assertion", "MUT_LOOKFIRST"),
    mistake("bits", "no token where the loop is unknown", "standstill", "MUT_NOTOKEN", "quick"),
    mistake("bits", "a token for the wish for one, and one more for the bit", "assertion", "MUT_TWOTOKENS THREAD"),
    mistake("bits", "the token for a bit leaves wishes that came meanwhile", "assertion", "MUT_LEAVEFLAGS THREAD"),
    mistake("bits", "a bit is asked for while two tokens are on their way", "assertion", "MUT_ARMATTWO"),
    mistake("bits", "a loop takes what a thread waits for", "standstill", "MUT_FORGETOTHERS THREAD QUIT KNOWN"),
    mistake("bits", "the next loop begins without a look", "standstill", "MUT_COLD MOVE KNOWN"),
    mistake("sleepers", "the first who wakes says that nobody sleeps", "standstill", "MUT_FIRSTAWAKE"),
    mistake("sleepers", "who wakes leaves without a look", "standstill", "MUT_NOLOOK"),
    mistake("sleepers", "who has not slept stills the bell, and says nothing", "standstill", "PASSER MUT_STILLONLY"),
    mistake("edges", "asks for what comes next only where nothing is unread", "standstill", "MUT_EMPTY"),
    mistake("edges", "the same, by tokens", "standstill", "TOKENS MUT_EMPTY"),
    mistake("edges", "sleeps without a second look", "standstill", "MUT_NOLOOK", "quick"),
    mistake("edges", "remembers the head when the program comes back", "standstill", "MUT_LATE"),
    mistake("edges", "asks for nothing while another thread sleeps", "standstill", "TWO MUT_ALONE"),
    mistake("edges", "who sleeps does not look where it is registered anew", "standstill", "MODIFY MUT_QUIET"),
    mistake("show", "he says that he is there, and no more", "standstill", "N=2 MUT_NOSHOW"),
    mistake("show", "he asks for a token, and tells nobody", "standstill", "N=2 MUT_NOASK", "quick"),
    mistake("show", "looked whether a token is on its way before it is asked for", "standstill", "N=2 MUT_ASKFIRST"),
    mistake("show", "he says that he is there after he was shown", "standstill", "N=2 MUT_LATECOUNT"),
    mistake("show", "a thread that cannot have the lock gives up", "standstill", "MUT_GIVEUP"),
    mistake("show", "a sender goes out without a token", "standstill", "N=2 OUT MUT_SILENTOUT"),
    mistake("show", "a process leaves without a token", "standstill", "N=2 EXIT MUT_SILENTEXIT"),
    mistake("listeners", "one stores its flag over the other's", "standstill", "MUT_STORE"),
    mistake("fences", "in the kernel's send, switch word: no fences", "assertion", "PAIR=1 MUT_NOFENCE", "quick"),
    mistake("fences", "head, want: no fences", "standstill", "PAIR=2 MUT_NOFENCE"),
    mistake("fences", "in a recv() without a limit, switch word: no fences", "assertion", "PAIR=3 MUT_NOFENCE"),
)
