"""Calls that are not waited for at once, calls with a time of their own, and many calls in one message.

future(store.add)(1, 2)           a Future
within(0.1, store.add)(1, 2)      CallTimeout after 0.1 seconds
with batch(store) as calls:       one message each way; batch(store, StoreCalls) has its types
    results = [calls.add(i, i) for i in range(100)]
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from ...system.originals import originals
from ..api.interfaces import METHOD, table_of
from ..api.interfaces import ONEWAY as IS_ONEWAY
from ..errors import CallTimeout, UnknownMethod
from ..interrupts import interrupted
from ..objects import proxy as proxies
from ..objects.session import log
from ..threads.timers import Timer
from ..wire._connection import Connection, Method
from ..wire._receiving import FOR_EVER
from ..wire._records import Call, current
from ..wire.frames import BATCH, CALL, FREE, LASTING, ONEWAY
from ._batching import Calls, Recorder, recording_of

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")
_Result = TypeVar("_Result", covariant=True)
_Calls = TypeVar("_Calls")


class Result(Protocol[_Result]):
    """The result of a call of a batch."""

    def done(self) -> bool:
        """Whether the batch has come back."""

    def result(self) -> _Result:
        """The value. Raises what the call raised, RuntimeError before the end of the block."""


class BatchCalls(Protocol):
    """What the block of a batch calls: the methods of the proxy. A call returns a Result."""

    def __getattr__(self, name: str, /) -> Callable[..., Result[Any]]: ...


class Future(Generic[_Returned]):
    """The answer of a call, when it comes. Any thread may wait for it. The names are those of concurrent.futures."""

    def __init__(self, connection: Connection, call: Call) -> None:
        self._connection = connection
        self._call = call
        self._lock = allocate_lock()
        self._pulses: list[Call] = []
        self._callbacks: list[Callable[[Future[_Returned]], object]] = []
        self._timer: Timer | None = None  # of the call's deadline, where somebody is to be told
        self._cancelled = False

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "done" if self._call.done else "pending"
        return f"<future of {self._connection.session.described(self._call.method)}: {state}>"

    def result(self, timeout: float | None = None) -> _Returned:
        """The value. Raises what the call raised, CallTimeout at the call's deadline.

        Raises TimeoutError after `timeout` seconds: then the call goes on.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._call.value  # type: ignore[no-any-return]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised, or None. Raises as result()."""
        call, connection = self._call, self._connection
        deadline = FOR_EVER if timeout is None else originals.monotonic() + timeout
        if call.deadline and (not deadline or call.deadline < deadline):
            deadline = call.deadline
        while not call.done:
            if self._cancelled:
                raise CancelledError
            waiting = self._place()
            try:
                connection.wait_on(waiting, deadline)
            except TimeoutError as late:
                if interrupted(late):
                    self.cancel()
                    raise
                if self._ends_late():
                    continue
                raise TimeoutError(
                    f"{connection.session.described(call.method)}: no answer yet; the call goes on"
                ) from None
            except BaseException:
                self.cancel()
                raise
            finally:
                if waiting is call:
                    call.awaited = False
                else:
                    with self._lock:
                        self._pulses.remove(waiting)
        if self._cancelled:
            raise CancelledError
        error: BaseException | None = connection.session.raised(call) if call.failed else None
        return error

    def _ends_late(self) -> bool:
        """Whether the call's deadline is over. Then the call is, too."""
        call, connection = self._call, self._connection
        if not call.deadline or originals.monotonic() < call.deadline:
            return False
        if connection.give_up(call):
            connection.settle(call, CallTimeout(connection.session.late(call)), True)
        return True

    def _place(self) -> Call:
        """What this thread waits for: the call itself, or a pulse of its own where another thread waits for that."""
        call = self._call
        with self._lock:
            if not call.awaited:
                call.awaited = True
                if call.on_done is None:
                    call.on_done = self._on_done
                return call
            pulse = Call(call.number, call.method)
            self._pulses.append(pulse)
        if call.done:
            pulse.done = True
        return pulse

    def done(self) -> bool:
        """Whether there is an answer. It receives what has come."""
        if not self._call.done:
            self._connection.receive_what_came()
            if not self._call.done:
                self._ends_late()
        return self._call.done or self._cancelled

    def cancel(self) -> bool:
        """Gives the call up; the other end is told. False: the answer is there."""
        with self._lock:
            if self._call.done:
                return self._cancelled
            self._cancelled = True
        self._connection.give_up(self._call)
        self._connection.settle(self._call, None, False)
        return True

    def cancelled(self) -> bool:
        """Whether cancel() gave it up."""
        return self._cancelled

    def add_done_callback(self, function: Callable[[Future[_Returned]], object]) -> None:
        """Calls function(future) in a thread when it is done: by its answer, its deadline, cancel(), or the loss of its
        connection. At once where it is done already. The first that was added is called first.
        """
        with self._lock:
            if not self._call.done:
                self._callbacks.append(function)
                if self._call.on_done is None:  # never another one: the receiver may be reading it
                    self._call.on_done = self._on_done
                function = None  # type: ignore[assignment]
        if function is None:
            session = self._connection.session
            session.serve()
            if self._call.deadline and self._timer is None:  # nobody else may look at the clock
                self._timer = session.call_at(self._call.deadline, self._ends_late)
            if self._call.done:  # it came while the callback was noted
                self._on_done(self._call)
            return
        self._call_back([function])

    def _on_done(self, _: Call) -> None:
        """The receiver calls it: nothing of the program may run here."""
        with self._lock:
            pulses = list(self._pulses)
            callbacks, self._callbacks = self._callbacks, []
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for pulse in pulses:
            self._connection.settle(pulse, None, False)
        if callbacks:
            self._connection.session.submit(self._call_back, callbacks)

    def _call_back(self, callbacks: list[Callable[[Future[_Returned]], object]]) -> None:
        for function in callbacks:
            try:
                function(self)
            except Exception:
                log.exception("a callback of %r raised", self)


class _Within:
    """A method with a time limit of its own."""

    def __init__(self, seconds: float, method: Method) -> None:
        self.seconds = seconds
        self.method = method

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        method = self.method
        deadline = originals.monotonic() + self.seconds
        connection = proxies.connected(method, deadline)
        if method.flags:
            return method.target.home.call(method, connection, arguments, keywords, deadline, LASTING)
        return connection.call(method, arguments, keywords, deadline, LASTING)


@overload
def future(method: Callable[_Given, _Returned]) -> Callable[_Given, Future[_Returned]]: ...
@overload
def future(method: Callable[_Given, _Returned], calls: BatchCalls) -> Callable[_Given, Result[_Returned]]: ...
def future(method: Callable[_Given, Any], calls: BatchCalls | None = None) -> Callable[_Given, Any]:
    """A call of the result sends the call, and returns a Future. `method` is one of a proxy, or within() of one.

    calls: of a batch. Then the call is one of the batch: future(store.add, calls) is calls.add, with store.add's types.
    """
    seconds = None
    found: Any = method
    if calls is not None:
        return recording_of(calls, _method_of(found))
    if isinstance(found, _Within):
        seconds, found = found.seconds, found.method
    remote = _method_of(found)

    def begin(*arguments: _Given.args, **keywords: _Given.kwargs) -> Future[Any]:
        limit = remote.target.timeout if seconds is None else seconds
        deadline = originals.monotonic() + limit if limit else FOR_EVER
        connection = proxies.connected(remote, 0.0 if seconds is None else deadline)
        kind = ONEWAY if remote.flags & IS_ONEWAY else CALL
        flags = FREE if seconds is None else FREE | LASTING
        return Future(connection, connection.start(kind, remote, arguments, keywords, deadline, flags))

    return begin


def within(seconds: float, method: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """A call of the result raises CallTimeout after so many seconds. The method there sees the time that is left."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"seconds is {seconds!r}: write within(seconds, method), with a number")
    return _Within(seconds, _method_of(method))


def deadline() -> float | None:
    """In a method that was called from elsewhere: the seconds that its caller still waits. None: for ever."""
    request = current.get()
    return None if request is None or not request.deadline else float(request.deadline - originals.monotonic())


def _method_of(method: Any) -> Method:
    if isinstance(method, proxies.Proxy):
        found = proxies.method_named(method, "__call__")
        if found is not None:
            return found
    if not isinstance(method, Method):
        raise TypeError(f"{method!r} is no method of a proxy")
    return method


class Batch(Generic[_Calls]):
    """Calls of one proxy that go in one message, in their order, and come back in one."""

    def __init__(self, proxy: Any, calls: Any = None) -> None:
        if not isinstance(proxy, proxies.Proxy):
            raise TypeError(f"{proxy!r} is no proxy")
        for entry in table_of(calls).entries if calls is not None else ():
            if entry.kind != METHOD or proxies.method_named(proxy, entry.name) is None:
                raise UnknownMethod(f"{proxy!r} exposes no method {entry.name}, which {calls.__name__} lists")
        self._proxy = proxy
        self._recorder = Recorder()

    def __enter__(self) -> _Calls:
        return Calls(self._proxy, self._recorder)  # type: ignore[return-value]

    def __exit__(self, kind: object, *_: object) -> None:
        recorder = self._recorder
        if kind is not None or not recorder.results:
            return
        target = proxies.target_of(self._proxy)
        method = Method(target, f"a batch of {len(recorder.results)} calls", 0, 0)
        connection = proxies.connected(method)
        limit = target.timeout
        until = originals.monotonic() + limit if limit else FOR_EVER
        recorder.object_number = target.object_number  # of the connection that is used now
        call = connection.start(BATCH, method, recorder, None, until, 0)
        connection.wait(call, call.deadline)
        if call.failed:
            raise connection.session.raised(call)
        recorder.settle(call.value, connection.session.error_of)


@overload
def batch(proxy: object) -> Batch[BatchCalls]: ...
@overload
def batch(proxy: object, calls: type[_Calls]) -> Batch[_Calls]: ...
@overload
def batch(proxy: object, calls: Callable[..., _Calls]) -> Batch[_Calls]: ...
def batch(proxy: object, calls: Any = None) -> Batch[Any]:
    """`with batch(store) as calls`: the calls in the block are sent at its end, in one message.

    calls: a Protocol of what the block calls, for type checkers: methods of the object, each of which returns a Result.
    Raises UnknownMethod where the object has not all of them.
    """
    return Batch(proxy, calls)
