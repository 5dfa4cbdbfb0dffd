"""Who watches the number of a connection: fastsock's pollers, or somebody whom fastsock does not see.

Most programs ask a socket for its number and register that with a poller. So whoever asks may watch the number unseen.
What the kernel shows of it is exact from then on, until a poller of fastsock is given the number by the same package. A
package that never does so, as it polls by C code of its own, leaves the connection as it is: exact, or without memory.
"""

from __future__ import annotations

import os
import sys

from ..system.genuine import genuine
from . import foreign

try:
    from ..core.binding import _calls as native
    from ..core.binding import _polling as polling
except ImportError:  # then no connection gains memory
    native = polling = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

# These modules ask for the number to show it, or to hand it to another call that is seen by itself.
_ONLY_NOTES = ("socket", "ssl", "fastsock.stream_socket", "fastsock.channel_socket")
# The modules of the standard library hand numbers to one another: one asks, another one registers.
_STANDARD = frozenset(sys.stdlib_module_names - {"__main__"})
_LIBRARY, _FOR_GOOD = "the standard library", "for good"
_NEAR = 12  # frames: how far from a registration its package may be
_MOST_KNOWN = 4096

_packages: dict[str, str] = {}
_lock = genuine.RLock()


class _Notes:
    """Who has asked for the numbers of one connection."""

    __slots__ = ("asked", "generation", "left")

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.asked: dict[tuple[int, str], bool] = {}  # whether it was explained
        self.left = 0  # that were not


_notes: dict[int, _Notes] = {}  # by connection: the core uses its memory again
_unexplained: dict[int, _Notes] = {}  # those of them where some are left
_early: dict[int, set[str]] = {}  # by number, of sockets that are not connected


def _package(names: dict[str, object]) -> str:
    name = names.get("__name__")
    if not isinstance(name, str):
        return "?"
    found = _packages.get(name)
    if found is None:
        top = name.partition(".")[0]
        found = _LIBRARY if top in _STANDARD else top
        if len(_packages) >= _MOST_KNOWN:
            _packages.clear()
        _packages[name] = found
    return found


def asked(descriptor: int, frame: FrameType) -> None:
    """The program asks for the number in `frame`, and may watch it."""
    if polling.is_asking():
        return
    by = foreign.asking(frame)
    if by is None:
        _note(descriptor, _FOR_GOOD)
    elif by.f_globals.get("__name__") not in _ONLY_NOTES:
        _note(descriptor, _package(by.f_globals))


def watched_for_good(descriptor: int) -> None:
    """It must be exact, whoever else watches it."""
    _note(descriptor, _FOR_GOOD)


def _note(descriptor: int, package: str) -> None:
    with _lock:
        name = native.name_of(descriptor)
        if name is None:
            _early.setdefault(descriptor, set()).add(package)
            return
        connection, generation = name
        notes = _notes.get(connection)
        if notes is None or notes.generation != generation:
            _unexplained.pop(connection, None)
            notes = _notes[connection] = _Notes(generation)
        if (descriptor, package) not in notes.asked:
            notes.asked[descriptor, package] = False
            notes.left += 1
            _unexplained[connection] = notes
            native.watched(descriptor)


def _entering(descriptor: int) -> None:
    """The socket of that number connects."""
    for package in _early.pop(descriptor, ()):
        _note(descriptor, package)


def _explains(descriptor: int) -> None:
    """A poller of fastsock is given the number."""
    with _lock:
        name = native.name_of(descriptor)
        if name is None:
            return
        connection, generation = name
        notes = _unexplained.get(connection)
        if notes is None or notes.generation != generation:
            return
        frame: FrameType | None = sys._getframe(1)
        for _ in range(_NEAR):
            if frame is None:
                break
            asker = descriptor, _package(frame.f_globals)
            if notes.asked.get(asker) is False:
                notes.asked[asker] = True
                notes.left -= 1
            frame = frame.f_back
        if notes.left == 0:
            del _unexplained[connection]
            native.unwatched(descriptor)


def _forked() -> None:
    global _lock
    _lock = genuine.RLock()


if native is not None:
    native.before_entry(_early, _entering)
    polling.follow(_unexplained, _explains, watched_for_good)
os.register_at_fork(after_in_child=_forked)
