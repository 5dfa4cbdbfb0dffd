"""Waiting until a process of this user has a name (user_names.py).

Who waits goes into the room of that name, an abstract UNIX name too. The first one there opens the room: it listens.
The others connect to it. A process that takes the name rings at the room. Then the opener leaves, so that all others
hear of its end, and each looks for itself. Where the opener gives up, they hear of that too, and one of them opens the
room anew. Nobody trusts the opener, because it may be stopped: all look by themselves too, from time to time.
"""

from __future__ import annotations

import errno
import select

from ..system.originals import originals
from . import unix_calls, user_names

LOOK_AGAIN = 1.0  # seconds between two looks
_WITHOUT_A_ROOM = 0.1  # the same, where the room cannot be used
_READABLE = select.POLLIN
_ROOM = "room/"  # before the name of the service


class Room:
    """One who waits at a name. Enter it, look for the name, and only then wait: so no arrival is missed."""

    def __init__(self, service: str, name: str) -> None:
        self._service = _ROOM + service
        self._name = name
        self._listener = -1
        self._streams: list[int] = []  # of the opener: to those who wait too; of any other: to the opener

    def enter(self) -> None:
        """From now on an arrival ends wait(). Idempotent."""
        if self._listener >= 0 or self._streams:
            return
        try:
            self._listener = user_names.listen(self._service, self._name)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                self._join()

    def _join(self) -> None:
        try:
            stream = unix_calls.reach(user_names.unix_name(self._service, self._name))
            if stream < 0:
                return
            self._streams.append(stream)
            if unix_calls.is_own_user(unix_calls.peer(stream)[1]):
                return
        except OSError:  # it is full
            pass
        self.leave()  # a stranger who opened it rings when it likes

    def wait(self, seconds: float, stop: int) -> None:
        """Until something may have come, and no longer than so many seconds. stop: a descriptor that ends it too."""
        inside = [*self._streams, *([self._listener] if self._listener >= 0 else ())]
        poll = originals.poll()
        for descriptor in (*inside, stop):
            poll.register(descriptor, _READABLE)
        came = poll.poll(min(seconds, LOOK_AGAIN if inside else _WITHOUT_A_ROOM) * 1000)
        for descriptor, _ in came:
            if descriptor in self._streams:  # its other end left
                self._streams.remove(descriptor)
                originals.close(descriptor)
            elif descriptor == self._listener:
                self._accept()

    def _accept(self) -> None:
        try:
            while True:
                self._streams.append(unix_calls.accept(self._listener))
        except BlockingIOError:
            return
        except OSError:  # there are no more descriptors: nobody is to wait for this process
            self.leave()

    def leave(self) -> None:
        """Ends the wait of all others too, if this one opened the room. Idempotent."""
        for descriptor in (*self._streams, *([self._listener] if self._listener >= 0 else ())):
            originals.close(descriptor)
        self._listener, self._streams = -1, []


def ring(service: str, name: str) -> None:
    """Tells those who wait for the name that it is there now."""
    try:
        stream = unix_calls.reach(user_names.unix_name(_ROOM + service, name))
    except OSError:  # it is full of those who ring or wait: the opener hears of them
        return
    if stream >= 0:
        originals.close(stream)
