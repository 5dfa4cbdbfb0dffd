"""Behind the hello: the connection of two ranks stays TCP, and both its directions go into memory, or none does.

    connecting                                        accepting
                                              <----   in its verdict: this end takes memory
    this end does so, too                     ---->
    both look for each other; then each tells at once whether it has the memory
                                              <----   what you told has been read
    go, or stay                               ---->

Each of these goes over whatever carries its direction then. So whoever has read it has followed that direction into the
memory. Each fills a line of the cache: the engine's frames are copied faster where they begin with one. "Go": the
engines of both ends have the rings from then on, and TCP wakes them. Else both directions go back to TCP for good.
"""

from __future__ import annotations

import select

from ..connection import carriers
from ..system.originals import originals
from ..system.proof import HelloError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LINE = 64
_YES, _NO = b"Y" * _LINE, b"N" * _LINE
_POLLIN = select.POLLIN
_SLICE = 0.25  # seconds, until a look whether the other end has given up
_LONGEST = 5.0  # the other end is a rank of this job: it comes, but a busy one comes late


def offer(listener: Any) -> bytes:
    """What the accepting end tells of itself: nothing where it takes no memory."""
    return b"Y" if carriers.may_gain(listener) else b""


def agree(sock: Any, connects: bool, offered: bytes) -> bool:
    """Whether both directions go through memory from now on, by both ends' word. `offered`: the accepting end's offer.

    Raises OSError and HelloError.
    """
    if not offered:
        return False
    if connects:
        if not _send(sock, carriers.takes_memory(sock)):
            return False
    elif not _receive(sock):
        return False
    has_memory = _send(sock, _look_for_other(sock))
    if not _receive(sock) or not has_memory:
        return False
    if connects:
        return _receive(sock) and _send(sock, carriers.is_by_memory(sock))
    return _send(sock, True) and _receive(sock)


def _send(sock: Any, answer: bool) -> bool:
    sock.sendall(_YES if answer else _NO)
    return answer


def _receive(sock: Any) -> bool:
    answer = b""
    while len(answer) < _LINE:
        part = sock.recv(_LINE - len(answer))
        if not part:
            raise HelloError("it closed the connection after the hello")
        answer += part
    return bool(answer == _YES)


def _look_for_other(sock: Any) -> bool:
    poller = originals.poll()
    poller.register(carriers.own_number(sock), _POLLIN)
    until = originals.monotonic() + _LONGEST
    while True:
        began = originals.monotonic()
        if carriers.attach(sock, _SLICE):
            return True
        now = originals.monotonic()
        if now - began < _SLICE or now >= until:  # it can be said at once only where there is no hope
            return False
        if poller.poll(0):  # the other end has told that it has none, or is gone
            return False
