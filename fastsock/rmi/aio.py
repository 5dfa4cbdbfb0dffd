"""The same connections in an event loop.

    remote = await rmi.aio.connect("rmi:store", Store)
    await remote.add(1, 2)
    async for block in remote.rows(): ...

The loop itself receives: an answer wakes no thread. What the other end does not take at once is sent when it does, so a
large argument does not hold the loop up; do not change its memory before the call has returned. Cancelling a task
cancels its call there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import TYPE_CHECKING, Any

from ..patching import selecting
from ..system.genuine import genuine
from . import proxy as proxies
from ._connection import FOR_EVER, Method, Target
from ._records import Call
from .connecting import Options, check, dial
from .errors import CallTimeout, LostPeer
from .frames import CALL, FREE, ONEWAY
from .marks import METHOD, Interface
from .marks import ONEWAY as IS_ONEWAY
from .session import Limits, Session

if TYPE_CHECKING:
    from ssl import SSLContext


async def connect(
    address: str,
    interface: type | None = None,
    *,
    timeout: float | None = None,
    key: str | bytes | None = None,
    limits: Limits | None = None,
    trust: str | None = None,
    ssl: SSLContext | None = None,
) -> Any:
    """A proxy for the running loop: its methods are awaited. Arguments and errors are those of rmi.connect."""
    loop = asyncio.get_running_loop()
    options = Options(key, limits, trust, ssl)
    session, number, found = await loop.run_in_executor(None, dial, address, options)
    try:
        if interface is not None:
            check(interface, found, session)
    except BaseException:
        session.close()
        raise
    home = proxies.Home(address, None)
    home.session = session
    return Proxy(Reader(session, loop), Target(address, session.connection, number, timeout or 0.0, home), found)


class Reader:
    """Has a loop receive and send for a connection."""

    def __init__(self, session: Session, loop: asyncio.AbstractEventLoop) -> None:
        self.session = session
        self.loop = loop
        self.connection = session.connection
        self._descriptor = session.sock.fileno()
        self._writing = False
        selector = getattr(loop, "_selector", None)
        if selector is not None:
            selecting.patch_one(selector)
        self.connection.on_blocked = self._blocked
        session.on_end.append(self._ended)
        loop.add_reader(self._descriptor, self.connection.receive_what_came)

    def _blocked(self) -> None:
        """A sender found no room. It may be another thread."""
        self.loop.call_soon_threadsafe(self._await_room)

    def _await_room(self) -> None:
        if not self._writing and self.connection.lost is None:
            self._writing = True
            self.loop.add_writer(self._descriptor, self._send_more)

    def _send_more(self) -> None:
        try:
            done = self.connection.send_unsent()
        except LostPeer:
            done = True
        if done and self._writing:
            self._writing = False
            self.loop.remove_writer(self._descriptor)

    def _ended(self, _: Session) -> None:
        if asyncio._get_running_loop() is self.loop:
            self.forget()
        elif not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.forget)

    def forget(self) -> None:
        """The loop has nothing to do with the connection any more."""
        if self._descriptor >= 0:
            self.loop.remove_reader(self._descriptor)
            self.loop.remove_writer(self._descriptor)
            self._descriptor = -1
            self._writing = False


class Answer:
    """A call on its way: await it, or read it as a stream by `async for`."""

    def __init__(self, reader: Reader, method: Method, arguments: Any, keywords: Any) -> None:
        self._reader = reader
        self._method = method
        target = method.target
        self._deadline = genuine.monotonic() + target.timeout if target.timeout else FOR_EVER
        kind = ONEWAY if method.flags & IS_ONEWAY else CALL
        self._call: Call = reader.connection.start(kind, method, arguments, keywords, self._deadline, FREE)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._result().__await__()

    async def _result(self) -> Any:
        call, connection, loop = self._call, self._reader.connection, self._reader.loop
        if not call.done:
            answered: asyncio.Future[None] = loop.create_future()

            def tell(_: Call) -> None:
                if asyncio._get_running_loop() is loop:
                    _settle(answered)
                else:
                    loop.call_soon_threadsafe(_settle, answered)

            call.on_done = tell
            if call.done:
                _settle(answered)
            timer = None
            if self._deadline:
                timer = loop.call_later(max(self._deadline - genuine.monotonic(), 0.0), _settle, answered)
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
        return call.value

    async def __aiter__(self) -> AsyncIterator[Any]:
        stream = await self._result()
        try:
            async for item in stream:
                yield item
        finally:
            stream.close()


class Proxy:
    """An object of another process, whose methods are awaited. `async with` closes its connection."""

    def __init__(self, reader: Reader, target: Target, interface: Interface) -> None:
        self._rmi_reader = reader
        self._rmi_target = target
        self._rmi_interface = interface

    def __getattr__(self, name: str) -> Any:
        interface = self.__dict__.get("_rmi_interface")
        number = interface.numbers.get((name, METHOD)) if interface is not None else None
        if number is None or interface is None:
            raise AttributeError(f"{self.__dict__.get('_rmi_target')} exposes no method {name!r}")
        reader = self._rmi_reader
        method = Method(self._rmi_target, name, number, interface.entries[number].flags & IS_ONEWAY)

        def call(*arguments: Any, **keywords: Any) -> Answer:
            return Answer(reader, method, arguments, keywords)

        self.__dict__[name] = call
        return call

    async def __aenter__(self) -> Proxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connection behind all that was sent. Idempotent."""
        reader = self._rmi_reader
        reader.forget()
        await reader.loop.run_in_executor(None, reader.session.close)


def _settle(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
