"""The lock of a serial object: one call at a time, and the calls that are made on behalf of the one that has it.

The calls that have a lock lie in each other, as those of a thread that has an RLock. One more may enter where the
innermost of them stands in its chain (chains.py). Else it waits, until its deadline at most. Where the chains show that
it would wait for itself, it is refused. Who came first enters first.

A call that waits has no thread of a pool: a pool has few, and whoever holds the object may need one. `Request.resume`
goes on with it. Only a thread that waits for an answer, and runs what is made on its call's behalf, waits here.
"""

from __future__ import annotations

import os
import weakref
from _thread import allocate_lock
from typing import Any, NamedTuple

from ...system.forkable import new_recursive_lock
from ...system.originals import originals
from ..errors import CallTimeout, Deadlock
from ..wire import chains
from ..wire._records import Request, process
from ..wire.frames import ONEWAY

_LONGEST = 1e8  # seconds that are told to the system at most: it cannot count to any number


class _Holder(NamedTuple):
    """A request that has a lock, or will have it. chain: of the calls that it makes then."""

    number: int
    text: str
    request: Request
    chain: tuple[Any, ...]


class _Waiter:
    """A request that waits for a lock, or was given it and has not gone on yet."""

    __slots__ = ("ahead", "granted", "holder", "lock", "over", "request", "timer", "wake")

    def __init__(self, lock: SerialLock, holder: _Holder, ahead: str) -> None:
        self.lock = lock
        self.holder = holder
        self.request = holder.request
        self.ahead = ahead
        self.granted = False
        self.over = False  # it has gone on, or waits no more
        self.timer: Any = None
        self.wake: Any = None
        if self.request.resume is None:
            self.wake = allocate_lock()
            self.wake.acquire()

    def begin(self) -> None:
        """From now on it can be stopped: its caller may go, or its time pass. Those of a one-way call do neither."""
        request = self.request
        session = request.connection.session
        if request.kind != ONEWAY:
            request.stop = self.stop
            session.running[request.number] = request
        if self.wake is None:
            if request.kind != ONEWAY and request.deadline:
                self.timer = session.call_at(request.deadline, self.stop)
            session.pool.stand(self)
        if request.kind != ONEWAY and (request.cancelled or request.connection.lost is not None):
            self.stop()

    def stop(self) -> None:
        """It waits no more. Any thread may call it. Idempotent."""
        with _guard:
            if self.over:
                return
            self.end()
            if self.granted:  # it goes on already, and will find that it may not
                self.granted = False
                self.lock.leave(self.request)
                return
        self.go_on()

    def end(self) -> None:
        """The caller holds the guard."""
        self.over = True
        self.lock.forget(self)
        request = self.request
        session = request.connection.session
        session.pool.standing.discard(self)
        if request.kind != ONEWAY:
            session.running.pop(request.number, None)
            request.stop = None
        if self.timer is not None:
            self.timer.cancel()

    def go_on(self) -> None:
        """Has a thread see what has become of it."""
        if self.wake is not None:
            self.wake.release()
        else:
            self.request.connection.session.submit(self.request.resume, self.request)

    def wait(self) -> None:
        """In the thread that runs the request."""
        request = self.request
        left = _LONGEST
        if request.deadline and request.kind != ONEWAY:
            left = min(max(request.deadline - originals.monotonic(), 0.0), _LONGEST)
        try:
            self.wake.acquire(True, left)
        except BaseException:
            self.stop()
            raise

    def may_run(self) -> bool:
        """Whether it has the lock now. Else it never will."""
        with _guard:
            if not self.over:
                self.end()
            return self.granted


class SerialLock:
    """What one serial object has, however often it is registered or sent."""

    def __init__(self) -> None:
        self._holders: list[_Holder] = []  # the innermost last
        self._waiters: dict[_Waiter, None] = {}  # who came first is first
        self._forks = process.forks

    def enter(self, request: Request) -> bool:
        """Whether the request may run now. From then on its calls have it in their chain. leave() must follow.

        False: it waits in no thread. `request.resume` is called where it is to come here again. That may have happened
        already, so the caller has nothing to do with the request any more. Raises CallTimeout where its time is over,
        Deadlock where the chains show that it would wait for ever.
        """
        waiter = request.waits
        if waiter is None:
            waiter = self._line_up(request)
            if waiter is None:
                return True
            if waiter.wake is None:
                return False
            waiter.wait()
        request.waits = None
        if not waiter.may_run():
            raise CallTimeout(f"{waiter.holder.text}: no time was left: it waited for {waiter.ahead}, and has not run")
        return True

    def _line_up(self, request: Request) -> _Waiter | None:
        """None: it need not wait."""
        text = chains.text_of(request)
        with _guard:
            number = chains.new_number()
            holder = _Holder(number, text, request, chains.extended(request.chain or (), number, text))
            if self._forks != process.forks:  # its holders are threads of the parent
                self._forks = process.forks
                self._holders.clear()
                self._waiters.clear()
            ahead = self._ahead_of(request)
            if not ahead:
                self._take(holder)
                return None
            self._refuse_circle(request, text)
            waiter = request.waits = _Waiter(self, holder, ahead[0].text)
            self._waiters[waiter] = None
            if request.chain:
                _chained[waiter] = None
            waiter.begin()
            return waiter

    def forget(self, waiter: _Waiter) -> None:
        """It waits no more. The caller holds the guard."""
        self._waiters.pop(waiter, None)
        _chained.pop(waiter, None)

    def leave(self, request: Request) -> None:
        """The request has run, or has not entered: something was raised meanwhile."""
        with _guard:
            left = [holder for holder in self._holders if holder.request is not request]
            if len(left) == len(self._holders):
                return
            self._holders = left
            for waiter in self._waiters:
                if not self._ahead_of(waiter.request):
                    self.forget(waiter)
                    self._take(waiter.holder)
                    waiter.granted = True
                    break
            else:
                return
        waiter.go_on()

    def _take(self, holder: _Holder) -> None:
        holder.request.chain = holder.chain
        self._holders.append(holder)

    def _ahead_of(self, request: Request) -> list[_Holder]:
        """Who must leave before it may enter: those within the innermost on whose behalf it is made."""
        if not self._holders:
            return []
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
                    f" {holder.text}. The calls on whose behalf it is made: {chains.described(request.chain)}"
                )
            if holder.number not in seen:
                seen.add(holder.number)
                for waiter in _chained:
                    if holder.number in chains.numbers_of(waiter.request.chain):
                        ahead += waiter.lock._ahead_of(waiter.request)


_guard = new_recursive_lock()  # of all locks: a circle goes through several
_chained: dict[_Waiter, None] = {}  # those that wait on behalf of other calls
os.register_at_fork(after_in_child=_chained.clear)
_locks: weakref.WeakValueDictionary[int, SerialLock] = weakref.WeakValueDictionary()


def lock_of(target: object) -> SerialLock:
    """The lock of a serial object. Whoever holds the lock holds the object, too."""
    with _guard:
        found = _locks.get(id(target))
        if found is None:
            found = _locks[id(target)] = SerialLock()
        return found
