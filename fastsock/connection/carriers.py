"""What carries the bytes of a connection that stays TCP: TCP itself, or memory that it gained.

The core's table knows each connection by its number (core/switch). This is what the socket class asks of it.
"""

from __future__ import annotations

import _socket
import errno
import os
import sys
import weakref

from .. import chain
from ..config import in_force
from ..system.originals import originals
from ..transport import Reason, Refused
from . import foreign, watchers

try:
    from ..core.binding import _table as table
    from ..core.binding._calls import SocketCalls
    from ..core.binding._carrier import carrier_of as native_carrier_of
    from ..core.binding._connections import (
        attach_memory,
        closed_attached,
        closed_connections,
        connection_seen,
        go_on_answering,
        is_in_memory,
        keep_closed,
        keep_on_tcp,
        python_reports,
        rest_answering,
        set_candidates,
    )
    from ..core.binding._core import configure
    from ..core.binding._watching import show_to_c
except ImportError:  # then no connection gains memory
    table = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

_Base: Any = _socket.socket
AGREED_WITHIN = 0.25  # seconds that two ends look for each other which have agreed to do so


def gains_memory(kind: type) -> bool:
    """Whether the connections of that socket class stay TCP and gain memory."""
    return table is not None and issubclass(kind, SocketCalls)


def transport(sock: Any) -> str:
    """As the socket class's property."""
    found = seen_of(sock)
    if found is not None and found.transport == "shm":
        return "shm"
    return "tcp" if table.is_tcp(sock) else "plain"


# By the core's number (candidates.h): what was found when the connection last looked for its other end.
_WHY = (
    (Reason.NOT_YET, "it has not carried as much yet"),
    (Reason.NOT_YET, "this end listens, and the other one has not come yet"),
    (Reason.NOT_YET, "this end has offered memory, and the other one has not taken it yet"),
    (Reason.JOINED, ""),
    (Reason.PEER_DID_NOT_JOIN, "nobody was found at the other end"),
    (Reason.PEER_DID_NOT_JOIN, "nobody took the memory that was offered"),
    (Reason.NOT_YET, "several threads were within calls"),
    (Reason.NOT_YET, "several processes hold this end"),
    (Reason.DESCRIPTOR_WATCHED, "somebody polls the number whom fastsock does not see"),
    (Reason.NO_DESCRIPTORS, "too many connections looked for their other ends at once"),
    (Reason.NO_MEMORY, "there was no memory, or no number was free"),
    (Reason.PEER_DECLINED, "another process has the connection's name"),
    (Reason.PEER_VERSION, "what came was no offer, or one of another version"),
    (Reason.PEER_DECLINED, "the counters of both ends are not those of one connection"),
    (Reason.OTHER_USER, ""),
    (Reason.PEER_NOT_LOCAL, ""),
    (Reason.PEER_NOT_LOCAL, "the socket is connected to itself"),
    (Reason.PEER_DID_NOT_JOIN, "nobody took the memory that was offered again and again"),
    (Reason.NOT_YET, "an end has shut down a direction"),
    (Reason.DESCRIPTOR_TAKEN, "other code has sent or received, or something went over it that only TCP carries"),
    (Reason.DESCRIPTOR_TAKEN, "it has options that only TCP serves"),
    (Reason.SYSTEM_ERROR, "the kernel does not tell how many bytes went over it"),
    (
        Reason.SYSTEM_ERROR,
        "the kernel refuses calls that memory needs (seccomp), or code calls past fastsock (RTLD_DEEPBIND, dlmopen)",
    ),
    (Reason.NOT_YET, ""),
)


def why(number: int) -> tuple[Reason, str]:
    """What the core's number says, and the same in words. A number that is not known says nothing."""
    return _WHY[number] if 0 <= number < len(_WHY) else _WHY[-1]


# By the core's number (lives.h): what it goes by that a connection looks from so many calls on.
_LESSON = (
    "",
    "as suits the lives of its listener's last connections",
    "as nobody came to most of its listener's last connections that looked",
)


class Seen:
    """What is known of one connection of the table, for reports."""

    def __init__(self, found: dict[str, Any], state: str) -> None:
        self.found = found
        self.state = state
        self.pid = originals.getpid()

    @property
    def transport(self) -> str:
        return "shm" if self.found["attached"] else "tcp"

    @property
    def reason(self) -> Reason:
        """Why it has memory, or has none."""
        if self.found["attached"]:
            return Reason.JOINED
        ruled_out = _excluded(self.found)
        if ruled_out is not None:
            return ruled_out.reason
        return Reason.DESCRIPTOR_TAKEN if self.found["released"] or self.found["never"] else _WHY[self.found["why"]][0]

    @property
    def detail(self) -> str:
        """The same in words for people."""
        found, lesson = self.found, _LESSON[self.found["lesson"]]
        ruled_out = None if found["attached"] else _excluded(found)
        if found["attached"] or ruled_out is not None:
            return "" if ruled_out is None else ruled_out.detail
        text = _WHY[found["why"]][1]
        if not found["calls"] or self.reason not in (Reason.NOT_YET, Reason.PEER_DID_NOT_JOIN):
            return text
        many = "its first call" if found["calls"] == 1 else f"{found['calls']:,} calls"
        return f"{text}; it looks from {many} on" + (lesson and f", {lesson}")


def _excluded(found: dict[str, Any], address: Any = None) -> Refused | None:
    """Why settings and rules keep a connection on TCP. address: connect()'s, while that is under way."""
    asked = []
    if found["role"] != "connect":
        asked.append(("listen", found["local"]))
    if found["role"] != "accept":
        asked.append(("connect", found["peer"] or address))
    for direction, listener in asked:
        why = None if listener is None else chain.stays_on_tcp(direction, listener[0], listener[1])
        if why is not None:
            return why
    return None


def seen(descriptor: int) -> Seen | None:
    """What is known of the number's connection, or None."""
    found = None if table is None else connection_seen(descriptor)
    return None if found is None else Seen(found, "open")


def seen_of(sock: Any) -> Seen | None:
    """The same of a socket of any class."""
    if table is None or not isinstance(sock, SocketCalls):
        return None
    return seen(_Base.fileno(sock)) or _given.get(sock)


_given: weakref.WeakKeyDictionary[Any, Seen] = weakref.WeakKeyDictionary()  # an engine has their numbers


def given_away(sock: Any) -> None:
    """An engine is about to get the socket's number. What is known by now is told of the socket until given_back()."""
    found = seen(_Base.fileno(sock))
    if found is not None:
        _given[sock] = found


def given_back(sock: Any) -> None:
    """The engine has closed it."""
    _given.pop(sock, None)


def all_seen() -> list[Seen]:
    """The open connections of the table, then the last that were closed: those that had memory, and with FASTSOCK_STATS
    all."""
    if table is None:
        return []
    found = [one for one in map(seen, descriptors()) if one is not None]
    return found + [Seen(one, "closed") for one in closed_connections()]


def totals() -> dict[str, int]:
    """How many connections came into the table, by what they have or had at their end."""
    if table is None:
        return {}
    own = (number for number in descriptors() if not _inherited or table.name_of(number) not in _inherited)
    found = [one for one in map(seen, own) if one is not None]
    gained = sum(one.transport == "shm" for one in found) + closed_attached()
    return {"shm": gained, "tcp": max(table.entered() - _entered_before - gained, 0)}


def has_doors() -> bool:
    """Whether the preloaded library serves C code on the numbers of connections (core/beside.h)."""
    return table is not None and table.has_doors()


def shown(descriptor: int, frame: FrameType) -> None:
    """The program asks for the number, in `frame`. It may be polled, or used by C code."""
    if has_doors():
        return
    if foreign.calls_c(frame):
        give_away(descriptor)
    else:
        watchers.asked(descriptor, frame)


def give_away(descriptor: int) -> None:
    """Other code reads and writes the number from now on: TCP carries all bytes, for good. The table keeps it, because
    threads may be within calls.

    Raises OSError if unread bytes are in the way.
    """
    if table is None:
        return
    try:
        table.release(descriptor)
    except BlockingIOError as error:
        what = "the descriptor is needed by other code, and a thread at one of the two ends stays within a call"
        raise OSError(error.errno, f"shm path: {what}; try again") from None
    except OSError as error:
        if error.errno == errno.EPROTO:  # which says so
            raise
        what = "the descriptor is needed while bytes are unread, but no process that copies them could be started"
        advice = "raise the limit of processes, memory or descriptors, or read the bytes first"
        raise OSError(error.errno, f"shm path: {what}: {error.strerror}; {advice}") from None


def number_of(sock: Any) -> int:
    """The number of a socket of any class, unseen."""
    return _Base.fileno(sock) if isinstance(sock, _Base) else int(sock.fileno())


def is_known(descriptor: int) -> bool:
    """Whether the table has the stream of that number."""
    return table is not None and table.is_known(descriptor)


def descriptors() -> list[int]:
    """The numbers in the table."""
    return [] if table is None else table.descriptors()


def duplicated(descriptor: int, number: int) -> None:
    """The kernel has made `number` a duplicate of the descriptor."""
    if table is not None:
        table.duplicated(descriptor, number)


def forget(descriptor: int) -> None:
    """Before the number is closed, or means another file."""
    if table is not None:
        table.forget(descriptor)


def finder(known: dict[int, Any]) -> Callable[[int], Any]:
    """A call that finds what has the data calls of a number: those in `known`, then those of the table."""
    return known.get if table is None else table.finder(known)


def note_all(wanted: bool) -> None:
    """Whether the close of each connection is noted, and not only of those with memory."""
    global _notes_all
    if table is not None:
        _notes_all = wanted
        keep_closed(wanted)
        python_reports(wanted)


_notes_all = False
_entered_before = 0  # in the parent
_inherited: set[Any] = set()


def _begin_to_count() -> None:
    """In a forked child. It does not count what its parent opened."""
    global _entered_before, _inherited
    _entered_before = table.entered()
    _inherited = {table.name_of(number) for number in descriptors()} if _notes_all else set()


def _obey() -> None:
    """Settings hold for connections from the next one on."""
    settings = in_force.settings()
    after = settings.upgrade_after
    configure(look_us=settings.look_us)
    set_candidates(
        never="shm" not in settings.transports,
        learns=after is None,
        calls=after or 0,
        length=2**64 - 1,
        ring_bytes=settings.ring_bytes,
        any_user=settings.peers == "any",
        hides=not settings.shown,
        spin_us=settings.spin_us,
        direct_min=settings.direct_min,
    )
    table.rule_by(_entered if settings.rules or settings.trace else None)
    table.before_leaving(_leaves if settings.trace else None)


def _entered(descriptor: int, address: Any) -> None:
    found = connection_seen(descriptor)
    if found is None:
        return
    why = _excluded(found, address)
    if why is not None:
        keep_on_tcp(descriptor)
    if in_force.settings().trace and not has_doors():  # which have told it
        text = f": {why}" if why else " so far"
        chain.log.info("%s %s stays on tcp%s", found["role"], found["peer"] or address, text)


def _leaves(descriptor: int) -> None:
    one = seen(descriptor)
    if one is not None:
        text = f"{one.reason}{one.detail and f' ({one.detail})'}"
        chain.log.info("%s %s ends on %s: %s", one.found["role"], one.found["peer"], one.transport, text)


def carrier_of(sock: Any) -> Any:
    """What carries a socket's bytes for compiled code, past Python. None: only the socket's own methods do."""
    return None if table is None else native_carrier_of(sock)


def own_number(sock: Any) -> int:
    """A socket's number for a loop of fastsock's, which calls its carrier's settle() before each sleep there."""
    ours = table is not None and isinstance(sock, SocketCalls)
    return int(_Base.fileno(sock) if ours else sock.fileno())


def takes_memory(sock: Any) -> bool:
    """Whether this end takes memory for a connection that stays TCP.

    Layers whose both ends are fastsock's tell each other in their hello. Then both call attach_agreed(), so that nobody
    waits for an end that does not.
    """
    if not may_gain(sock):
        return False
    found = connection_seen(_Base.fileno(sock))
    return found is not None and _excluded(found) is None


def may_gain(sock: Any) -> bool:
    """Whether connections of this socket's class gain memory: of a listener, those that it accepts."""
    return table is not None and isinstance(sock, SocketCalls) and "shm" in in_force.settings().transports


def attach_agreed(sock: Any) -> bool:
    """As attach(), where the other end does it now, too.

    If they miss each other, as behind a proxy, the connection goes on over TCP, and its own calls look again.
    """
    return attach(sock, AGREED_WITHIN)


def is_by_memory(sock: Any) -> bool:
    """Whether both directions go through memory, as each end has seen: an engine may take the connection over."""
    return table is not None and isinstance(sock, SocketCalls) and is_in_memory(_Base.fileno(sock))


def attach(sock: Any, seconds: float | None) -> bool:
    """As fastsock.attach()."""
    if not takes_memory(sock):
        return False
    found: bool = attach_memory(_Base.fileno(sock), -1.0 if seconds is None else seconds)
    return found


if table is not None:
    table.follow(vars(in_force), _obey)
    show_to_c(foreign.INTERFACES, shown, foreign.known)
    os.register_at_fork(after_in_child=_begin_to_count)
    # To end a thread and to start it again takes longer than most forks. Python warns of a fork beside threads since
    # 3.12: a program that started none must not see it. The core needs no rest: C code forks without one.
    if sys.version_info >= (3, 12):
        os.register_at_fork(before=rest_answering, after_in_parent=go_on_answering)


def before_first(hook: Callable[[], None]) -> None:
    """Calls `hook` before the table gets its next connection."""
    if table is not None:
        table.before_next(hook)
