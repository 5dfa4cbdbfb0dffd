"""The same connections in an event loop.

    remote = await rmi.aio.connect("rmi:store", Store)
    await remote.add(1, 2)
    async for block in remote.rows(): ...
    await remote.level; await aio.assign(remote, "level", 5)        # a property
    await remote(...); await remote[key]; async for item in remote: ...
    await remote.__len__()          # len() itself cannot be awaited; nor can `in`, bool(), and remote[key] = value

The loop itself receives: an answer wakes no thread. What the other end does not take at once is sent when it does, so a
large argument does not hold the loop up; do not change its memory before the call has returned. Cancelling a task
cancels its call there.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from ..patching import polling
from ..system.originals import originals
from .api.interfaces import GETTER, METHOD, SETTER, SPECIAL, AsyncRemote, Interface, table_of
from .api.interfaces import ONEWAY as IS_ONEWAY
from .api.introspection import Description
from .client.awaiting import Waiting
from .client.connecting import Options, described_by, dial, named
from .client.reaching import Attempt
from .errors import CallTimeout, LostPeer, UnknownMethod
from .objects import proxy as proxies
from .objects.session import Limits, Session
from .threads.loops import call_in
from .wire._connection import Method, Target
from .wire._receiving import FOR_EVER
from .wire._records import Call
from .wire.frames import CALL, FREE, ONEWAY

if TYPE_CHECKING:
    from ssl import SSLContext

_Given = ParamSpec("_Given")
_Typed = TypeVar("_Typed")
Remote = AsyncRemote


class closing(Generic[_Typed]):  # as contextlib.aclosing
    """`async with closing(await connect(...)) as store` closes the connection at the end of the block.

    A proxy does so itself. Type checkers know that of a class that derives from Remote. For any other one write this.
    """

    def __init__(self, proxy: _Typed) -> None:
        self._proxy = proxy

    async def __aenter__(self) -> _Typed:
        return self._proxy

    async def __aexit__(self, *_: object) -> None:
        proxy: Any = self._proxy
        await proxy.aclose()


@overload
async def connect(
    address: str,
    interface: type[_Typed],
    *,
    timeout: float | None = ...,
    key: str | bytes | None = ...,
    limits: Limits | None = ...,
    trust: str | None = ...,
    ssl: SSLContext | None = ...,
) -> _Typed: ...
@overload
async def connect(
    address: str,
    interface: Callable[..., _Typed],
    *,
    timeout: float | None = ...,
    key: str | bytes | None = ...,
    limits: Limits | None = ...,
    trust: str | None = ...,
    ssl: SSLContext | None = ...,
) -> _Typed: ...
@overload
async def connect(
    address: str,
    interface: None = ...,
    *,
    timeout: float | None = ...,
    key: str | bytes | None = ...,
    limits: Limits | None = ...,
    trust: str | None = ...,
    ssl: SSLContext | None = ...,
) -> Any: ...
async def connect(
    address: str,
    interface: Any = None,
    *,
    timeout: float | None = None,
    key: str | bytes | None = None,
    limits: Limits | None = None,
    trust: str | None = None,
    ssl: SSLContext | None = None,
) -> Any:
    """A proxy for the running loop: its methods are awaited. Arguments and errors are those of rmi.connect.

    To type checkers the proxy is what the interface says. So give one whose methods are async, or see `awaited`.
    """
    loop = asyncio.get_running_loop()
    options = Options(key, limits, trust, ssl, timeout)
    if interface is not None:
        table_of(interface)
    dialled = loop.run_in_executor(None, _dial, address, options, interface)
    try:
        session, number, found, source = await asyncio.shield(dialled)
    except asyncio.CancelledError:
        dialled.add_done_callback(_close_dialled)
        raise
    try:
        reader = Reader(session, loop)
    except BaseException:
        session.close()
        raise
    home = proxies.Home(address, None, named)
    home.session = session
    home.own = True
    return _make(reader, Target(address, session.connection, number, float(timeout or 0.0), home), found, source)


def _dial(address: str, options: Options, interface: type | None) -> tuple[Session, int, Interface, Any]:
    attempt = Attempt(address, options.within)
    session, number, found = dial(address, options, None, attempt)
    try:
        return session, number, found, described_by(interface, found, session, address, attempt)
    except BaseException:
        session.close()
        raise


def _close_dialled(dialled: asyncio.Future[Any]) -> None:
    """Nobody waits for the connection any more."""
    if not dialled.cancelled() and dialled.exception() is None:
        dialled.result()[0].close()


async def wait_for(name: str, timeout: float, *, key: str | bytes | None = None, ssl: SSLContext | None = None) -> None:
    """Waits until a daemon serves an object of this name. Arguments and errors are those of rmi.wait_for."""
    waiting = Waiting(name, timeout, Options(key, ssl=ssl))
    running = asyncio.get_running_loop().run_in_executor(None, waiting.run)
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        waiting.stop()
        running.add_done_callback(_ended)
        raise


def _ended(running: asyncio.Future[None]) -> None:
    """Nobody waits for it any more: its error is nobody's."""
    if not running.cancelled():
        running.exception()


def assign(remote: object, name: str, value: Any) -> Answer[None]:
    """Sets a property: to be awaited. Raises UnknownMethod where it cannot be set."""
    if not isinstance(remote, Proxy):
        raise TypeError(f"{remote!r} is no proxy for a loop")
    return Answer(remote._rmi_reader, _method(remote, name, SETTER), (value,), None)


@overload
def awaited(method: Callable[_Given, Iterator[_Typed]]) -> Callable[_Given, AsyncIterable[_Typed]]: ...  # type: ignore[overload-overlap]
@overload
def awaited(method: Callable[_Given, _Typed]) -> Callable[_Given, Answer[_Typed]]: ...
def awaited(method: Callable[_Given, Any]) -> Callable[_Given, Any]:
    """The method itself. Type checkers see the class's arguments, and a result to be awaited, or read by `async for`.

    For a proxy whose interface is a class without async: `await awaited(store.add)(1, 2)`.
    """
    return method


class Reader:
    """Has a loop receive and send for a connection."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.loop = loop
        self.connection = session.connection
        self._descriptor = session.sock.fileno()
        self._writing = False
        self._flushing: list[asyncio.Future[None]] = []  # resolved once all is sent, or nothing will be any more
        selector = getattr(loop, "_selector", None)
        if selector is not None:
            polling.patch_one(selector)
        self.connection.on_blocked = self._blocked
        session.closes = self._close
        loop.add_reader(self._descriptor, self.connection.receive_what_came)

    def _blocked(self) -> None:
        """A sender found no room. It may be another thread."""
        call_in(self.loop, self._await_room)

    def _await_room(self) -> None:
        if not self._writing and self.connection.lost is None:
            self._writing = True
            self.loop.add_writer(self._descriptor, self._send_more)

    def _send_more(self) -> None:
        if self._has_sent_all():
            if self._writing:
                self._writing = False
                self.loop.remove_writer(self._descriptor)
            self._flushed()

    def _has_sent_all(self) -> bool:
        try:
            return self.connection.send_unsent()
        except LostPeer:
            return True

    async def flush(self) -> None:
        """Until the kernel or the ring has all that was sent, or the connection is lost."""
        while self.connection.lost is None and not self._has_sent_all():
            flushed = self.loop.create_future()
            self._flushing.append(flushed)
            self._await_room()
            await flushed

    def _flushed(self) -> None:
        waiting, self._flushing = self._flushing, []
        for each in waiting:
            _settle(each)

    def _close(self, hang_up: Callable[[], None]) -> None:
        """The loop forgets the descriptor before it is closed: its number may be another socket's right behind."""
        closing = _Closing(self, hang_up)
        elsewhere = self.loop.is_running() and asyncio._get_running_loop() is not self.loop
        if not (elsewhere and call_in(self.loop, closing)):
            closing()

    def forget(self) -> None:
        """In the loop, or where it runs no more: it has nothing to do with the connection from now on."""
        if self._descriptor >= 0 and not self.loop.is_closed():
            self.loop.remove_reader(self._descriptor)
            self.loop.remove_writer(self._descriptor)
            self._flushed()
        self._descriptor = -1
        self._writing = False


class _Closing:
    """Closes a connection, once its loop has forgotten it.

    A loop that is stopped drops what it has not called yet. Then the end of this object does it.
    """

    def __init__(self, reader: Reader, hang_up: Callable[[], None]) -> None:
        self._reader = reader
        self._hang_up: Callable[[], None] | None = hang_up

    def __call__(self) -> None:
        hang_up, self._hang_up = self._hang_up, None
        if hang_up is not None:
            try:
                self._reader.forget()
            finally:
                hang_up()

    __del__ = __call__


class Answer(Generic[_Typed]):
    """A call on its way: await it, or read it as a stream by `async for`."""

    def __init__(self, reader: Reader, method: Method, arguments: Any, keywords: Any) -> None:
        self._reader = reader
        self._method = method
        target = method.target
        deadline = originals.monotonic() + target.timeout if target.timeout else FOR_EVER
        kind = ONEWAY if method.flags & IS_ONEWAY else CALL
        arguments = tuple(_for_threads(each) for each in arguments)
        if keywords:
            keywords = {name: _for_threads(each) for name, each in keywords.items()}
        self._call: Call = reader.connection.start(kind, method, arguments, keywords, deadline, FREE)

    def __await__(self) -> Generator[Any, None, _Typed]:
        return self._result().__await__()

    async def _result(self) -> _Typed:
        call, connection, loop = self._call, self._reader.connection, self._reader.loop
        if not call.done:
            answered: asyncio.Future[None] = loop.create_future()

            def finish(_: Call) -> None:
                if asyncio._get_running_loop() is loop:
                    _settle(answered)
                else:
                    call_in(loop, _settle, answered)

            if call.calls_when_done(finish):
                _settle(answered)
            timer = None
            if call.deadline:
                timer = loop.call_later(max(call.deadline - originals.monotonic(), 0.0), _settle, answered)
            try:
                await answered
            except asyncio.CancelledError:
                connection.give_up(call)
                raise
            finally:
                if timer is not None:
                    timer.cancel()
            if not call.done:
                connection.give_up(call)
                raise CallTimeout(connection.session.late(call))
        if call.failed:
            raise connection.session.raised(call)
        return self._for_loop(call.value)  # type: ignore[no-any-return]

    def _for_loop(self, value: Any) -> Any:
        """An object that came by reference is used by this loop too."""
        if isinstance(value, proxies.Proxy):
            target = proxies.target_of(value)
            if target.connection is self._reader.connection:
                return _make(self._reader, target, proxies.interface_of_proxy(value))
        return value

    def __bool__(self) -> bool:
        raise TypeError(f"a call has no truth value before it is awaited: write await remote.{self._method.name}(...)")

    def __index__(self) -> int:
        raise TypeError(f"a call is no number before it is awaited: write await remote.{self._method.name}(...)")

    async def __aiter__(self) -> AsyncIterator[Any]:
        stream: Any = await self._result()
        try:
            async for item in stream:
                yield item
        finally:
            stream.close()


class Proxy:
    """An object of another process, to be awaited: methods, properties, items. `async with` closes its connection."""

    __iter__ = __contains__ = None  # else Python tries __getitem__ with 0, 1 and so on, for ever

    def __init__(self, reader: Reader, target: Target, interface: Interface) -> None:
        self._rmi_reader = reader
        self._rmi_target = target
        self._rmi_interface = interface

    def __getattr__(self, name: str) -> Any:
        """A special method that Python must not find in the class, by its name."""
        if "_rmi_interface" not in self.__dict__:
            raise AttributeError(name)
        try:
            _method(self, name, METHOD)
        except UnknownMethod as error:
            raise AttributeError(str(error)) from None
        return functools.partial(_calling(name), self)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith(proxies.INTERNAL):
            raise AttributeError(f"an assignment cannot be awaited: write await aio.assign(remote, {name!r}, value)")
        object.__setattr__(self, name, value)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *(entry.name for entry in self._rmi_interface.entries)}
        return [name for name in names if not name.startswith(proxies.INTERNAL)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Proxy) and other._rmi_target is self._rmi_target

    def __hash__(self) -> int:
        return id(self._rmi_target)

    def __repr__(self) -> str:
        return f"<proxy of {self._rmi_interface.name} {self._rmi_target.name!r} for a loop>"

    async def __aenter__(self) -> Proxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection behind all that was sent. Idempotent.

        It waits as long as the other end takes nothing. Who is cancelled meanwhile drops what is left.
        """
        reader = self._rmi_reader
        reader.session.say_goodbye()
        try:
            await reader.flush()
        finally:
            reader.session.close()


def _calling(name: str) -> Any:
    def call(self: Proxy, *arguments: Any, **keywords: Any) -> Answer[Any]:
        return Answer(self._rmi_reader, _method(self, name, METHOD), arguments, keywords)

    return call


# Python looks for these in the class of an object. len(), `in` and bool() find an Answer, which raises TypeError.
# An assignment would drop it: so __setitem__ and __delitem__ are not here, and can be called by their names alone.
_IN_CLASS = ("__call__", "__getitem__", "__len__", "__contains__", "__bool__")


class _Named(proxies.Named):
    def make(self, proxy: Proxy) -> Any:
        reader, method = proxy._rmi_reader, _method(proxy, self.shown.name, METHOD)
        return proxies.as_function(lambda *given, **named: Answer(reader, method, given, named), self.shown, bound=True)


def _class(interface: Interface, description: Description) -> type[Proxy]:
    names = proxies.documentation(interface, description)
    for number, entry in enumerate(interface.entries):
        shown = description.member(entry.name)
        if entry.kind == GETTER:
            names[entry.name] = property(functools.partial(_getting, entry.name), doc=shown.doc)
        elif entry.name in _IN_CLASS:
            names[entry.name] = proxies.as_function(_calling(entry.name), shown)
        elif entry.name == "__iter__":
            names["__aiter__"] = lambda self: _calling("__iter__")(self).__aiter__()
        elif entry.kind == METHOD and entry.name not in SPECIAL:
            names[entry.name] = _Named(number, shown)
    return type(f"Proxy[{interface.name}]", (Proxy,), names)


def _getting(name: str, self: Proxy) -> Answer[Any]:
    return Answer(self._rmi_reader, _method(self, name, GETTER), (), None)


_classes = proxies.Classes(_class)


def _make(reader: Reader, target: Target, interface: Interface, source: Any = None) -> Proxy:
    """A proxy for a target. source: the class, or what the daemon told, that dir() and help() show."""
    return _classes.of(interface, source)(reader, target, interface)  # type: ignore[no-any-return]


def _for_threads(value: Any) -> Any:
    """What is sent of a proxy for a loop: the one that connections know."""
    return proxies.make(value._rmi_interface, value._rmi_target) if isinstance(value, Proxy) else value


def _method(proxy: Proxy, name: str, kind: int) -> Method:
    interface = proxy._rmi_interface
    number = interface.numbers.get((name, kind))
    if number is None:
        what = "no property that can be set" if kind == SETTER else "no method or property"
        raise UnknownMethod(f"{interface.name} {proxy._rmi_target.name!r} exposes {what} by the name {name!r}")
    return Method(proxy._rmi_target, name, number, interface.entries[number].flags & IS_ONEWAY)


def _settle(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
