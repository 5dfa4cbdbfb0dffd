"""The threads of one end: a leader waits for all idle connections at once, the others follow.

The leader takes what is ready, wakes a follower to lead, and serves it itself. A thread stays with a busy connection:
it blocks there for the next request, and gives the connection back when none comes for a while. So a hot connection
has a thread, and an idle one a descriptor.

A connection whose thread runs a method for long is watched again. The leader looks for such connections from time to
time, as long as a thread is with some connection. It calls what is due at a time, too.
"""

from __future__ import annotations

import asyncio
import select
import struct
import threading
from _socket import SO_RCVTIMEO, SOL_SOCKET
from _thread import allocate_lock, start_new_thread
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from contextlib import suppress
from sys import is_finalizing
from typing import Any

from ...connection.carriers import own_number
from ...system.forkable import new_recursive_lock
from ...system.originals import originals
from ...system.patience import join, wait_for
from ...system.starting import block_as, block_signals, blocked_by_program, start_without_signals
from ..wire._records import Request, current
from ..wire.frames import CALL
from .loops import call_in
from .timers import Timer, Timers

LINGER = 0.05  # seconds that a thread stays with a silent connection
TICK = 0.005
MOST_THREADS = 64
SPARE = 4  # threads that stay, though there has been nothing to do for KEPT seconds
KEPT = 1.0
BRIEFLY = 0.2  # seconds that need no word
END_WITHIN = 5.0  # seconds for async methods that are cancelled at the end
_LONGEST = 1e6  # seconds that are told to the kernel at most: it cannot count to any number
_READ = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLONESHOT
_LINGER = struct.pack("ll", 0, int(LINGER * 1e6))


class Pool:
    """Threads that serve connections, and whatever else becomes ready.

    name: of the threads. most: how many there may be. They begin with the first thing to do.
    """

    def __init__(self, name: str, most: int = MOST_THREADS) -> None:
        self._name = name
        self._most = most
        self._poller = originals.epoll()
        self._bell = originals.eventfd(0, _bell_flags())
        self._poller.register(self._bell, select.EPOLLIN)
        self._ready: dict[int, tuple[Callable[..., object], Any]] = {}  # what to call when a descriptor can be read
        self._jobs: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._timers = Timers()
        self.standing: set[Any] = set()  # what goes on here once it is woken; where the pool closes, it is stopped
        self._watching = new_recursive_lock()  # a signal handler may close something
        self._lead = allocate_lock()
        self._lock = new_recursive_lock()  # a signal handler, or a collection, may submit something
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        self._asleep = False
        self._beginning = False  # a thread is to begin another one, in the place of one that may not
        self._loose: dict[Any, int] = {}  # sessions that nobody watches, with their activity at the last look
        self._closed = False
        self._loop: Loop | None = None
        self._blocked = blocked_by_program()  # signals, in jobs; else a thread of a pool takes none

    # ---- what is served ----

    def watch(
        self, descriptor: int, ready: Callable[..., object], what: Any, still: Callable[[], bool] | None = None
    ) -> None:
        """Calls `ready(what)` in a thread, once, when the descriptor can be read. The same call goes on watching it.

        still: whether the descriptor is still that of `what`, where another thread may close it. That thread makes it
        false, then calls unwatch(), then closes. So the number is never watched for who had it before.
        """
        with self._watching:
            if still is not None and not still():
                return
            self._ready[descriptor] = ready, what
            try:
                self._poller.modify(descriptor, _READ)
            except FileNotFoundError:  # the first time. The kernel knows best: it forgets what is closed
                self._poller.register(descriptor, _READ)
        self._need_a_thread()

    def unwatch(self, descriptor: int) -> None:
        """Before the descriptor is closed."""
        with self._watching:
            if self._ready.pop(descriptor, None) is not None:
                try:
                    self._poller.unregister(descriptor)
                except (OSError, ValueError):  # closed already
                    return

    def adopt(self, session: Any) -> None:
        """Requests that come on this connection are run here from now on, whoever receives them."""
        if session.accepted:
            session.sock.setsockopt(SOL_SOCKET, SO_RCVTIMEO, _LINGER)
        self._loose[session] = -1
        self.submit(self.serve, session)

    def forget(self, session: Any) -> None:
        """The connection has ended."""
        self._loose.pop(session, None)
        descriptor = getattr(session, "descriptor", -1)
        if descriptor >= 0:
            session.descriptor = -1
            self.unwatch(descriptor)

    def serve(self, session: Any) -> None:
        """Runs what comes on a connection until it is silent, then watches it. Another thread may receive there."""
        connection = session.connection
        waits = session.waits
        while connection.lost is None and connection.receiving.acquire(False):
            if session not in self._loose:
                self._loose[session] = -1
                self._ring()
            if waits is not None and waits.is_watched():
                waits.set_lazy(True)
            if not connection.serve(session.accepted and self._idle > 0):
                return  # the next look finds it
            if connection.lost is not None or self._arm(session):
                return

    def _arm(self, session: Any) -> bool:
        """Watches a silent connection. False: something has come."""
        connection, waits = session.connection, session.waits
        before = connection.activity
        descriptor = getattr(session, "descriptor", -1)
        if descriptor < 0:
            descriptor = session.descriptor = own_number(session.beneath)
            if descriptor < 0:
                return True
        if waits is not None:
            waits.set_lazy(False)
            if waits.settle():
                return False
        if connection.has_more():
            return False
        self._loose.pop(session, None)
        try:
            self.watch(descriptor, self.serve, session, lambda: connection.lost is None)
        except (OSError, ValueError):  # closed meanwhile
            return True
        # A thread that has come to it meanwhile has it still, or has read something before it let go: so in this order.
        if connection.receiving.locked() or connection.activity != before:
            self._loose[session] = -1
            self._ring()
        return True

    def _look_at_loose(self) -> None:
        """Watches the connections whose thread has been elsewhere since the last look."""
        for session, before in list(self._loose.items()):
            connection = session.connection
            if connection.lost is not None:
                self._loose.pop(session, None)
            elif connection.activity == before and not connection.receiving.locked():
                if not self._arm(session):
                    self.submit(self.serve, session)
            else:
                self._loose[session] = connection.activity

    # ---- threads ----

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Has a thread call a function."""
        self._jobs.append((function, arguments))
        self._need_a_thread()
        self._ring()

    def submit_from_anywhere(self, function: Callable[..., object], *arguments: Any) -> None:
        """The same where a collection calls it: so in any thread, that may hold any lock. It takes none.

        threading has locks of its own. So it is another thread that begins one, where there is none to spare.
        """
        self._jobs.append((function, arguments))
        self._ring()
        if self._idle > 0 or self._closed or self._beginning or is_finalizing():
            return
        self._beginning = True
        before = block_signals()
        try:
            start_new_thread(self._begin_a_thread, ())
        except (RuntimeError, MemoryError):  # there can be no more: those that are busy come to it
            self._beginning = False
        finally:
            block_as(before)

    def _begin_a_thread(self) -> None:
        self._beginning = False
        with suppress(RuntimeError, MemoryError):  # there can be no more: the next who submits something tries again
            self._need_a_thread()

    def call_at(self, when: float, function: Callable[..., object], *arguments: Any) -> Timer:
        """Has a thread call a function at a time of the monotonic clock, or as soon after it as a thread is free."""
        timer = self._timers.add(when, function, *arguments)
        self._need_a_thread()
        self._ring()
        return timer

    def stand(self, what: Any) -> None:
        """`what` waits in no thread, until something submits it. It is stopped where the pool closes before."""
        self.standing.add(what)
        if self._closed:
            what.stop()

    def _ring(self) -> None:
        if self._asleep and not self._closed:
            originals.eventfd_write(self._bell, 1)

    def _need_a_thread(self) -> None:
        if self._idle > 0 or self._closed or is_finalizing():  # then a thread never begins, and start() waits for that
            return
        if len(self._threads) >= self._most:
            self._hurry()
            return
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
        with self._lock:
            if self._idle > 0 or self._closed:
                return
            has_room = len(self._threads) < self._most
            if has_room:
                self._threads.add(thread)
                self._idle += 1
        if not has_room:
            self._hurry()
            return
        try:
            start_without_signals(thread)
        except (RuntimeError, MemoryError):  # there can be no more: the others come to it, as where these are the most
            with self._lock:
                self._threads.discard(thread)
                self._idle -= 1
                alone = not self._threads
            if alone:
                raise
            self._hurry()

    def _hurry(self) -> None:
        """Every thread is busy, and nobody leads: no thread stays with its connection for longer than it must."""
        for session in list(self._loose):
            session.connection.hurried = True

    def _leaves(self) -> bool:
        """Whether a thread that had nothing to do for long ends."""
        with self._lock:
            if self._idle <= SPARE:
                return False
            self._idle -= 1
            self._threads.discard(threading.current_thread())
            return True

    def _work(self) -> None:
        while True:
            if not self._lead.acquire(timeout=KEPT if self._idle > SPARE else -1):
                if self._leaves():
                    return
                continue
            try:
                job = self._lead_on()
            finally:
                self._lead.release()
            with self._lock:
                self._idle -= 1
                if job is None:
                    self._threads.discard(threading.current_thread())
                    return
            self._need_a_thread()
            function, arguments = job
            block_as(self._blocked)
            try:
                function(*arguments)
            except Exception:
                import logging

                logging.getLogger("fastsock.rmi").exception("a thread of %s met an error", self._name)
            finally:
                block_signals()
            del job, function, arguments
            with self._lock:
                self._idle += 1

    def _lead_on(self) -> tuple[Callable[..., object], tuple[Any, ...]] | None:
        """Waits until there is something to do. None: the pool is closed."""
        jobs = self._jobs
        looked = originals.monotonic()
        while not self._closed:
            if self._loose:
                now = originals.monotonic()
                if now - looked >= TICK:
                    looked = now
                    self._look_at_loose()
            if self._timers.next_due() is not None:
                jobs.extend(self._timers.take_due(originals.monotonic()))
            if jobs:
                return jobs.popleft()
            self._asleep = True
            try:
                if jobs or self._closed:
                    continue
                found = self._poller.poll(self._patience())
            finally:
                self._asleep = False
            for descriptor, _ in found:
                if descriptor == self._bell:
                    self._drain_bell()
                else:
                    ready = self._ready.get(descriptor)
                    if ready is not None:
                        function, what = ready
                        if function == self.serve:
                            self._loose[what] = -1
                        jobs.append((function, (what,)))
        return None

    def _patience(self) -> float | None:
        """The seconds until the leader has something to look at, though nothing becomes ready."""
        due = self._timers.next_due()
        if due is None:
            return TICK if self._loose else None
        left = max(due - originals.monotonic(), 0.0)
        return min(left, TICK) if self._loose else min(left, _LONGEST)

    def _drain_bell(self) -> None:
        try:
            originals.eventfd_read(self._bell)
        except BlockingIOError:
            return

    def loop(self) -> Loop:
        """The event loop in which async methods run. A thread of its own, unless one was given."""
        with self._lock:
            if self._loop is None:
                self._loop = Loop(f"{self._name}-loop")
            return self._loop

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Async methods run in this loop from now on."""
        with self._lock:
            self._loop = Loop(self._name, loop)

    def close(self, waits: Callable[[float], object] = lambda _: None) -> None:
        """Ends the threads that have nothing to do, and waits for the others, but not for ever. Idempotent.

        waits: is told for how many seconds at most, if that is not brief.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            threads = list(self._threads)
        for each in list(self.standing):
            each.stop()
        originals.eventfd_write(self._bell, 1)
        # one that begins only now finds the pool closed
        others = [each for each in threads if each is not threading.current_thread() and each.ident is not None]
        if not self._joins(others, BRIEFLY):
            waits(END_WITHIN)
            self._joins(others, END_WITHIN)
        if self._loop is not None:
            self._loop.close()
        if not any(thread.is_alive() for thread in others):
            self._poller.close()
            originals.close(self._bell)

    def _joins(self, threads: list[threading.Thread], seconds: float) -> bool:
        until = originals.monotonic() + seconds
        return all(join(thread, max(until - originals.monotonic(), 0.0)) for thread in threads)


def _bell_flags() -> int:
    import os

    return os.EFD_CLOEXEC | os.EFD_NONBLOCK


class Loop:
    """An event loop for async methods, in a thread of its own unless one is given."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._own = loop is None
        self.loop = loop if loop is not None else asyncio.new_event_loop()
        if self._own:
            self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
            try:
                self._thread.start()
            except BaseException:
                self.loop.close()
                raise

    def start(self, session: Any, request: Request, coroutine: Any) -> None:
        """Runs a method's coroutine, until its deadline at most, and answers the request."""

        async def run() -> None:
            token = current.set(request)
            try:
                if request.deadline:
                    left = max(request.deadline - originals.monotonic(), 0.0)
                    value = await asyncio.wait_for(coroutine, left)
                else:
                    value = await coroutine
            except asyncio.CancelledError:
                if not request.cancelled:
                    session.submit(session.failed, request, RuntimeError("the method was cancelled"))
            except BaseException as error:
                session.submit(session.failed, request, error)
            else:
                if request.kind == CALL and not request.cancelled:
                    session.submit(session.connection.answer, request, value)
            finally:
                current.reset(token)

        def ended(_: object) -> None:
            coroutine.close()  # it may have been cancelled before it began
            request.stop = None
            session.running.pop(request.number, None)

        request.stop = lambda: self.cancel(request)

        def begin() -> None:
            request.task = self.loop.create_task(run())
            request.task.add_done_callback(ended)
            if request.cancelled:
                request.task.cancel()

        if not call_in(self.loop, begin):
            ended(None)
            session.submit(session.failed, request, RuntimeError("the event loop of async methods is closed"))

    def cancel(self, request: Request) -> None:
        """Cancels the task of a request."""

        def cancel() -> None:
            if request.task is not None:
                request.task.cancel()

        call_in(self.loop, cancel)

    def begin(self, coroutine: Any) -> Any:
        """Runs a coroutine in the loop. Returns a future for other threads."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        """Cancels what runs in the loop, and stops it, if it is this object's own."""
        if not self._own:
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_all(), self.loop)
        wait_for(lambda step: wait((ending,), step).done, END_WITHIN)  # one may not end when it is cancelled
        self.loop.call_soon_threadsafe(self.loop.stop)
        if join(self._thread, END_WITHIN):  # a method may hold the loop up
            self.loop.close()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
