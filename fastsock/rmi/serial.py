"""The lock of a serial object: one call at a time, and the calls that are made on behalf of the one that has it.

The calls that have a lock lie in each other, as those of a thread that has an RLock. One more may enter where the
innermost of them stands in its chain (chains.py). Else it waits, until its deadline at most. Where the chains show that
it would wait for itself, it is refused.
"""

from __future__ import annotations

import weakref
from _thread import allocate_lock
from typing import Any, NamedTuple

from ..system.forkable import new_recursive_lock
from ..system.genuine import genuine
from . import chains
from ._records import Request, process
from .errors import CallTimeout, Deadlock
from .frames import ONEWAY

_LONGEST = 1e8  # seconds that are told to the system at most: it cannot count to any number


class _Holder(NamedTuple):
    """A request that has a lock, or will have it. chain: of the calls that it makes then."""

    number: int
    text: str
    request: Request
    chain: tuple[Any, ...]


class _Waiter:
    """A request that waits for a lock."""

    __slots__ = ("granted", "holder", "lock", "request", "wake")

    def __init__(self, lock: SerialLock, holder: _Holder) -> None:
        self.lock = lock
        self.holder = holder
        self.request = holder.request
        self.granted = False
        self.wake = allocate_lock()
        self.wake.acquire()

    def stop(self) -> None:
        """Its caller waits no more. The receiver calls it."""
        with _guard:
            if self in _waiting:
                _waiting.remove(self)
                self.wake.release()


class SerialLock:
    """What one serial object has, however often it is registered or sent."""

    def __init__(self) -> None:
        self._holders: list[_Holder] = []  # the innermost last
        self._forks = process.forks

    def enter(self, request: Request) -> None:
        """Waits until the request may run. From then on its calls have it in their chain. leave() must follow.

        Raises CallTimeout at its deadline, Deadlock where the chains show that it would wait for ever.
        """
        text = chains.text_of(request)
        with _guard:
            number = chains.new_number()
            holder = _Holder(number, text, request, chains.extended(request.chain or (), number, text))
            if self._forks != process.forks:  # its holders are threads of the parent
                self._forks = process.forks
                self._holders.clear()
            ahead = self._ahead_of(request)
            if not ahead:
                self._take(holder)
                return
            self._refuse_circle(request, text)
            waiter = _Waiter(self, holder)
            _waiting.append(waiter)
        self._wait(waiter)
        if not waiter.granted:
            raise CallTimeout(f"{text}: no time was left: it waited for {ahead[0].text}, and has not run")

    def _wait(self, waiter: _Waiter) -> None:
        request = waiter.request
        if request.kind == ONEWAY:  # its caller never waited
            waiter.wake.acquire()
            return
        session = request.connection.session
        request.stop = waiter.stop
        session.running[request.number] = request
        try:
            if request.cancelled or request.connection.lost is not None:
                return
            left = request.deadline - genuine.monotonic() if request.deadline else _LONGEST
            waiter.wake.acquire(True, min(max(left, 0.0), _LONGEST))
        finally:
            session.running.pop(request.number, None)
            request.stop = None

    def leave(self, request: Request) -> None:
        """The request has run, or waits no more: something was raised meanwhile."""
        with _guard:
            _waiting[:] = [waiter for waiter in _waiting if waiter.request is not request]
            self._holders = [holder for holder in self._holders if holder.request is not request]
            for waiter in _waiting:
                if waiter.lock is self and not self._ahead_of(waiter.request):
                    _waiting.remove(waiter)
                    self._take(waiter.holder)
                    waiter.granted = True
                    waiter.wake.release()
                    return

    def _take(self, holder: _Holder) -> None:
        holder.request.chain = holder.chain
        self._holders.append(holder)

    def _ahead_of(self, request: Request) -> list[_Holder]:
        """Who must leave before it may enter: those within the innermost on whose behalf it is made."""
        known = chains.numbers_of(request.chain)
        found = []
        for holder in reversed(self._holders):
            if holder.number in known:
                break
            found.append(holder)
        return found

    def _refuse_circle(self, request: Request, text: str) -> None:
        """Raises Deadlock where one that it waits for waits for a call on whose behalf it is made."""
        known = chains.numbers_of(request.chain)
        if not known:
            return
        ahead = self._ahead_of(request)
        seen: set[int] = set()
        for holder in ahead:  # it grows
            if holder.number in known:
                raise Deadlock(
                    f"{text}: it would wait for ever, and has not run. It waits for {ahead[0].text}, which waits for"
                    f" {holder.text}. The calls on whose behalf it is made: {chains.told(request.chain)}"
                )
            if holder.number not in seen:
                seen.add(holder.number)
                for waiter in _waiting:
                    if holder.number in chains.numbers_of(waiter.request.chain):
                        ahead += waiter.lock._ahead_of(waiter.request)


_guard = new_recursive_lock()  # of all locks: a circle goes through several
_waiting: list[_Waiter] = []
_locks: weakref.WeakValueDictionary[int, SerialLock] = weakref.WeakValueDictionary()


def lock_of(target: object) -> SerialLock:
    """The lock of a serial object. Whoever holds the lock holds the object, too."""
    with _guard:
        found = _locks.get(id(target))
        if found is None:
            found = _locks[id(target)] = SerialLock()
        return found
