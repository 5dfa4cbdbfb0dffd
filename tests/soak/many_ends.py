"""One end of a short connection, as its plan has it; every byte is checked."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import select
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from typing import Any

import fastsock
from fastsock.testing.patterns import Pattern

from .many_plan import BOTH, LARGE, LOOPS, SLEEPING, Plan
from .many_plan import RECEIVING as WAYS_TO_RECEIVE
from .many_plan import SENDING as WAYS_TO_SEND

PATIENCE = 60.0  # seconds, of one wait
PATTERN = Pattern(1)
WAYS_ASLEEP = tuple(way for way in WAYS_TO_RECEIVE if way != "whole")
WITH_MEMORY, WITHOUT = 10, 11  # how a child ends that went on with a connection


@functools.cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _run(awaited: Any) -> Any:
    return _loop_of(os.getpid()).run_until_complete(asyncio.wait_for(awaited, PATIENCE))


class Beside:
    """A thread that does something meanwhile; what it raises, whoever waits for it raises."""

    def __init__(self, call: Callable[..., None], *arguments: Any) -> None:
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._do, args=(call, *arguments))
        self._thread.start()

    def _do(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except BaseException as error:
            self._error = error

    def end(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


class End:
    """One end of a connection."""

    def __init__(self, sock: Any, side: int, plan: Plan) -> None:
        self.sock, self.side, self.plan, self.style = sock, side, plan, plan.styles[side]
        self.draw = random.Random(plan.number * 2 + side)
        self.watch: Any = None
        self.reader: Any = None
        self.writer: Any = None
        self.gained = False

    def play(self) -> None:
        at = self.plan.start
        for number, (sender, size) in enumerate(self.plan.messages):
            self._step(number)
            if number == self.plan.children[self.side]:
                return self._go_on_in_child(number, at)
            at = self._message(number, sender, size, at)
        self._end()

    def _play_from(self, number: int, at: int) -> None:
        for each, (sender, size) in enumerate(self.plan.messages[number:], number):
            at = self._message(each, sender, size, at)
        self._end()

    def _message(self, number: int, sender: int, size: int, at: int) -> int:
        """Sends or receives it, or both. Where the pattern goes on."""
        attaches = number == self.plan.attaches
        if sender == BOTH:
            mine, theirs = (at, at + size) if self.side == 0 else (at + size, at)
            self._attach(attaches)
            self._begin_style()
            sending = Beside(self._send, PATTERN.at(mine, size)) if self.style in SLEEPING else None
            if sending is None:
                self._send(PATTERN.at(mine, size))
            self._receive(theirs, size)
            if sending is not None:
                sending.end()
            return at + 2 * size
        if sender == self.side:
            self._attach(attaches)
            self._begin_style()
            self._send(PATTERN.at(at, size))
        elif attaches and self.style in SLEEPING and self.draw.random() < 0.5:
            self._begin_style()
            # when the memory comes; not by MSG_WAITALL, within which none comes
            asleep = Beside(self._receive, at, size, self.draw.choice(WAYS_ASLEEP))
            self._attach(attaches)
            asleep.end()
        else:
            self._attach(attaches)
            self._begin_style()
            self._receive(at, size)
        return at + size

    def _attach(self, attaches: bool) -> None:
        if attaches and not fastsock.attach(self.sock, PATIENCE) and hasattr(self.sock, "transport"):
            raise AssertionError(f"no memory: {fastsock.explain(self.sock)}")

    def _note_memory(self) -> None:
        self.gained = self.gained or getattr(self.sock, "transport", None) == "shm"

    def _step(self, number: int) -> None:
        plan, side = self.plan, self.side
        if number == plan.doubles[side]:
            self._drop_watch()
            old, self.sock = self.sock, self.sock.dup()
            old.close()
        if number == plan.forks[side]:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        if number == plan.leaves[side]:
            self._note_memory()
            self._drop_watch()
            self.sock = socket.socket(fileno=self.sock.detach())

    def _go_on_in_child(self, number: int, at: int) -> None:
        child = os.fork()
        if child == 0:
            try:
                signal.setitimer(signal.ITIMER_REAL, 2 * PATIENCE)
                self._play_from(number, at)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(WITH_MEMORY if self.gained else WITHOUT)
        if not self.plan.keeps[self.side]:
            self._drop_watch()
            self.sock.close()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self._drop_watch()
        self.sock.close()
        if code not in (WITH_MEMORY, WITHOUT):
            raise AssertionError(f"the child that went on ended with {code}")
        self.gained = code == WITH_MEMORY

    def _begin_style(self) -> None:
        if self.watch is not None or self.style == "blocking":
            return
        self.sock.settimeout(PATIENCE if self.style == "timeout" else 0)
        self.watch = self.style
        if self.style == "poll":
            self.watch = select.poll()
            self.watch.register(self.sock, select.POLLIN)
        elif self.style in ("epoll", "edge"):
            self.watch = select.epoll()
            self.watch.register(self.sock, select.EPOLLIN | (select.EPOLLET if self.style == "edge" else 0))
        elif self.style == "streams":
            self.reader, self.writer = _run(asyncio.open_connection(sock=self.sock))

    def _drop_watch(self) -> None:
        if self.style in ("epoll", "edge") and self.watch is not None:
            self.watch.close()
        self.watch = None

    # Receiving

    def _wait(self) -> None:
        if self.style == "poll":
            told: Any = self.watch.poll(PATIENCE * 1000)
        elif self.style == "select":
            told = select.select([self.sock], [], [], PATIENCE)[0]
        else:
            told = self.watch.poll(PATIENCE)
        if not told:
            raise AssertionError(f"nothing to read by {self.style} in {PATIENCE} s")

    def _receive_some(self, most: int, way: str = "recv") -> bytes:
        if self.style == "streams":
            return bytes(_run(self.reader.readexactly(most) if way == "whole" else self.reader.read(most)))
        if self.style == "asyncio":
            if way != "recv_into":
                return bytes(_run(_loop_of(os.getpid()).sock_recv(self.sock, most)))
            buffer = bytearray(most)
            return bytes(buffer[: _run(_loop_of(os.getpid()).sock_recv_into(self.sock, buffer))])
        if self.style in SLEEPING:
            return self._receive_once(most, way)
        while True:
            if self.style != "edge":  # which is told once: it reads first
                self._wait()
            try:
                return self._receive_once(most, way)
            except BlockingIOError:
                if self.style == "edge":
                    self._wait()

    def _receive_once(self, most: int, way: str) -> bytes:
        sock = self.sock
        if way == "recv_into":
            buffer = bytearray(most)
            return bytes(buffer[: sock.recv_into(buffer)])
        if way == "scattered":
            parts = bytearray(most // 3), bytearray(most - most // 3)
            count, _, flags, _ = sock.recvmsg_into(parts)
            if flags & ~socket.MSG_CMSG_CLOEXEC:
                raise AssertionError(f"flags {flags}")
            return b"".join(parts)[:count]
        if way == "whole":
            data = bytes(sock.recv(most, socket.MSG_WAITALL))
            if self.style == "blocking" and 0 < len(data) < most:
                raise AssertionError(f"MSG_WAITALL gave {len(data)} of {most} bytes")
            return data
        if way == "peek":
            seen = bytes(sock.recv(most, socket.MSG_PEEK))
            data = bytes(sock.recv(len(seen))) if seen else seen
            if data != seen:
                raise AssertionError(f"{len(seen)} bytes were seen, and other {len(data)} came")
            return data
        return bytes(sock.recv(most))

    def _receive(self, at: int, size: int, way: str = "") -> None:
        way = way or self.draw.choice(WAYS_TO_RECEIVE)
        got = 0
        while got < size:
            part = self._receive_some(size - got, way)
            if not part:
                raise AssertionError(f"the end behind {got} of {size} bytes")
            PATTERN.verify(at + got, part)
            got += len(part)

    # Sending

    def _send(self, data: bytes) -> None:
        way = self.draw.choice(WAYS_TO_SEND)
        if way == "thread" and self.style not in LOOPS:
            Beside(self._send_by, "send", data).end()
        else:
            self._send_by(way, data)

    def _send_by(self, way: str, data: bytes) -> None:
        if self.style == "streams":
            self.writer.write(data)
            return _run(self.writer.drain()) if len(data) < LARGE else _run(self._flush())
        if self.style == "asyncio":
            return _run(_loop_of(os.getpid()).sock_sendall(self.sock, data))
        if way == "sendall" and self.style in SLEEPING:
            return self.sock.sendall(data)
        while data:
            try:
                data = data[self._send_once(way, data) :]
            except BlockingIOError:
                if not select.select([], [self.sock], [], PATIENCE)[1]:
                    raise AssertionError(f"no room in {PATIENCE} s") from None

    def _send_once(self, way: str, data: bytes) -> int:
        if way != "gathered":
            return int(self.sock.send(data))
        third = len(data) // 3
        return int(self.sock.sendmsg([data[:third], b"", data[third : 2 * third], data[2 * third :]]))

    async def _flush(self) -> None:
        self.writer.transport.set_write_buffer_limits(0)
        await self.writer.drain()

    # The end

    def _end(self) -> None:
        """One end closes, or shuts its half, when all is read; the other one reads to the end."""
        self._note_memory()
        self._begin_style()
        if self.plan.first == self.side and not self.plan.shuts:
            return self._close()
        if self.plan.first == self.side:
            if self.writer is None:
                self.sock.shutdown(socket.SHUT_WR)
            else:
                self.writer.write_eof()
        rest = self._receive_some(1)
        if rest:
            raise AssertionError(f"{rest!r} in place of the end")
        self._close()

    def _close(self) -> None:
        self._drop_watch()
        if self.writer is None:
            return self.sock.close()
        self.writer.close()
        _run(self.writer.wait_closed())
