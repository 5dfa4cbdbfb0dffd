"""The ways in which a program sends, receives, waits and hands on, by their names in a schedule."""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import pickle
import select
import selectors
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from fastsock.testing.outcomes import describe

IN, OUT = select.POLLIN, select.POLLOUT
PATIENCE = 12.0  # seconds for what TCP shows at once
MOST_FALSE_ALARMS = 200
AGAIN = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stuck(Exception):
    """Nothing came, or only false alarms."""


def said(error: BaseException) -> str:
    """What a call raised, as comparable text."""
    if isinstance(error, ssl.SSLError):
        return f"{type(error).__name__} {error.reason}"
    return describe(error) if isinstance(error, OSError) else f"{type(error).__name__}"


def outcome(function: Callable[..., Any], *arguments: Any) -> str:
    """What a call gave or raised, as comparable text."""
    try:
        return repr(function(*arguments))
    except (OSError, TypeError, ValueError, BufferError) as error:
        return said(error)


# Waiting


def poll(sock: Any, mask: int, timeout: float) -> int:
    poller = select.poll()
    poller.register(sock, mask)
    found = poller.poll(timeout * 1000)
    return found[0][1] if found else 0


def _select(sock: Any, mask: int, timeout: float) -> int:
    read, write, _ = select.select([sock] * bool(mask & IN), [sock] * bool(mask & OUT), [], timeout)
    return (IN if read else 0) | (OUT if write else 0)


def epoll(sock: Any, mask: int, timeout: float) -> int:
    with select.epoll() as watcher:
        watcher.register(sock, mask)
        found = watcher.poll(timeout)
    return found[0][1] if found else 0


def _selector(sock: Any, mask: int, timeout: float) -> int:
    with selectors.DefaultSelector() as selector:
        wanted = (selectors.EVENT_READ if mask & IN else 0) | (selectors.EVENT_WRITE if mask & OUT else 0)
        selector.register(sock, wanted)
        return sum(events for _, events in selector.select(timeout))


WAITS: dict[str, Callable[[Any, int, float], int]] = {
    "poll": poll,
    "select": _select,
    "epoll": epoll,
    "selector": _selector,
    "edge": lambda sock, mask, timeout: epoll(sock, mask | select.EPOLLET, timeout),
}


def persist(sock: Any, wait: str, mask: int, attempt: Callable[[], Any]) -> Any:
    """The value of a call, which is made again whenever the socket is said to be ready."""
    for _ in range(MOST_FALSE_ALARMS):
        try:
            return attempt()
        except AGAIN as error:
            wanted = mask
            if isinstance(error, ssl.SSLError):
                wanted = IN if isinstance(error, ssl.SSLWantReadError) else OUT
            if not WAITS[wait](sock, wanted, PATIENCE):
                raise Stuck(f"{wait}: not ready") from None
    raise Stuck(f"{wait}: ready {MOST_FALSE_ALARMS} times, and every call refused")


# Sending: each takes some of the data and tells how much


def _blocking(sock: Any) -> bool:
    return sock.gettimeout() != 0


def _halves(data: Any) -> list[Any]:
    return [data[: len(data) // 2], b"", data[len(data) // 2 :]]


def _send_file(sock: Any, data: Any) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        if _blocking(sock):
            return int(sock.sendfile(file, 0))
        return os.sendfile(sock.fileno(), file.fileno(), 0, len(data))


def _send_file_by_number(sock: Any, data: Any) -> int:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return os.sendfile(sock.fileno(), file.fileno(), 0, len(data))


def _all(sock: Any, data: Any) -> int:
    if not _blocking(sock):  # what it took is not told
        return int(sock.send(data))
    sock.sendall(data)
    return len(data)


def _send_by_file(sock: Any, data: Any) -> int:
    if not _blocking(sock):
        return int(sock.send(data))
    with sock.makefile("wb", buffering=len(data) % 3 * 500) as file:
        for start in range(0, len(data), 5000):
            part = data[start : start + 5000]
            while len(part):
                part = part[file.write(part) :]
    return len(data)


def _send_more(sock: Any, data: Any) -> int:
    half = len(data) // 2
    if not half or not _blocking(sock):
        return int(sock.send(data))
    sock.sendall(data[:half], socket.MSG_MORE)
    sock.sendall(data[half:])
    return len(data)


def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a thread of its own: what it gave or raised."""
    got: list[Any] = []

    def run() -> None:
        try:
            got.append((True, function(*arguments)))
        except BaseException as error:
            got.append((False, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    good, value = got[0]
    if good:
        return value
    raise value


def _in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """In a forked child, which shares the socket."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            try:
                answer = True, function(*arguments)
            except OSError as error:
                answer = False, error
            with open(writing, "wb") as file:
                file.write(pickle.dumps(answer))
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as file:
        told = file.read()
    os.waitpid(pid, 0)
    good, value = pickle.loads(told)
    if good:
        return value
    raise value


def _without_blocking(sock: Any, work: Callable[[Any], Any]) -> Any:
    """What an event loop gives, which wants the socket non-blocking."""
    timeout = sock.gettimeout()
    sock.setblocking(False)
    try:
        return asyncio.run(work(asyncio))
    finally:
        sock.settimeout(timeout)


def _loop_send(sock: Any, data: Any) -> int:
    async def work(_: Any) -> None:
        await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(sock, data), PATIENCE)

    _without_blocking(sock, work)
    return len(data)


@contextlib.contextmanager
def _another(sock: Any, way: str) -> Any:
    """A second socket object over the same connection."""
    with sock.dup() if way == "dup" else socket.fromfd(sock.fileno(), sock.family, sock.type) as other:
        other.settimeout(sock.gettimeout())
        yield other


def _send_by(way: str) -> Callable[[Any, Any], int]:
    def send(sock: Any, data: Any) -> int:
        with _another(sock, way) as other:
            return int(other.send(data))

    return send


def _send_by_descriptor_file(sock: Any, data: Any) -> int:
    with os.fdopen(os.dup(sock.fileno()), "wb", buffering=0) as file:
        taken = file.write(data)
    if taken is None:
        raise BlockingIOError
    return taken


SENDS: dict[str, Callable[[Any, Any], int]] = {
    "send": lambda sock, data: sock.send(data),
    "sendall": _all,
    "sendmsg": lambda sock, data: sock.sendmsg(_halves(data)),
    "sendto": lambda sock, data: sock.sendto(data, sock.getpeername()),
    "write": lambda sock, data: os.write(sock.fileno(), data),
    "writev": lambda sock, data: os.writev(sock.fileno(), _halves(data)),
    "sendfile": _send_file,
    "os.sendfile": _send_file_by_number,
    "makefile": _send_by_file,
    "dontwait": lambda sock, data: sock.send(data, socket.MSG_DONTWAIT),
    "more": _send_more,
    "thread": lambda sock, data: _in_thread(sock.send, data),
    "child": lambda sock, data: _in_child(sock.send, data),
    "loop": _loop_send,
    "dup": _send_by("dup"),
    "fromfd": _send_by("fromfd"),
    "fdopen": _send_by_descriptor_file,
}

# Receiving: each gives some bytes, at most as many as asked for


def _into(sock: Any, count: int) -> bytes:
    buffer = bytearray(count + 3)
    got = sock.recv_into(memoryview(buffer)[: count + 1], count)
    return bytes(buffer[:got])


def _from_into(sock: Any, count: int) -> bytes:
    buffer = bytearray(count)
    got, _ = sock.recvfrom_into(buffer)
    return bytes(buffer[:got])


def _message_into(sock: Any, count: int) -> bytes:
    parts = bytearray(count // 2), bytearray(0), bytearray(count - count // 2)
    got, _, _, _ = sock.recvmsg_into(parts)
    return b"".join(parts)[:got]


def _readv(sock: Any, count: int) -> bytes:
    parts = [bytearray(count // 2), bytearray(count - count // 2)]
    got = os.readv(sock.fileno(), parts)
    return b"".join(parts)[:got]


def _wait_for_all(sock: Any, count: int) -> bytes:
    data = sock.recv(count, socket.MSG_WAITALL)
    if data and len(data) != count and sock.gettimeout() is None:
        raise AssertionError(f"MSG_WAITALL gave {len(data)} of {count}")
    return bytes(data)


def _by_file(sock: Any, count: int) -> bytes:
    if not _blocking(sock):
        return bytes(sock.recv(count))
    with sock.makefile("rb", buffering=0) as file:
        return bytes(file.read(count))


def _peek_first(sock: Any, count: int) -> bytes:
    peeked = sock.recv(count, socket.MSG_PEEK)
    data = sock.recv(count)
    if data[: len(peeked)] != peeked[: len(data)]:
        raise AssertionError("peeked something else")
    return bytes(data)


def _loop_receive(sock: Any, count: int) -> bytes:
    async def work(_: Any) -> bytes:
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, count), PATIENCE)

    return bytes(_without_blocking(sock, work))


def _receive_by(way: str) -> Callable[[Any, int], bytes]:
    def receive(sock: Any, count: int) -> bytes:
        with _another(sock, way) as other:
            return bytes(other.recv(count))

    return receive


def _receive_by_descriptor_file(sock: Any, count: int) -> bytes:
    with os.fdopen(os.dup(sock.fileno()), "rb", buffering=0) as file:
        data = file.read(count)
    if data is None:
        raise BlockingIOError
    return data


RECEIVES: dict[str, Callable[[Any, int], bytes]] = {
    "recv": lambda sock, count: sock.recv(count),
    "recv_into": _into,
    "recvfrom": lambda sock, count: sock.recvfrom(count)[0],
    "recvfrom_into": _from_into,
    "recvmsg": lambda sock, count: sock.recvmsg(count)[0],
    "recvmsg_into": _message_into,
    "read": lambda sock, count: os.read(sock.fileno(), count),
    "readv": _readv,
    "makefile": _by_file,
    "waitall": _wait_for_all,
    "dontwait": lambda sock, count: sock.recv(count, socket.MSG_DONTWAIT),
    "peek first": _peek_first,
    "thread": lambda sock, count: _in_thread(sock.recv, count),
    "child": lambda sock, count: _in_child(sock.recv, count),
    "loop": _loop_receive,
    "dup": _receive_by("dup"),
    "fromfd": _receive_by("fromfd"),
    "fdopen": _receive_by_descriptor_file,
}

TLS_SENDS: dict[str, Callable[[Any, Any], int]] = {
    "send": lambda sock, data: sock.send(data),
    "sendall": _all,
    "write": lambda sock, data: sock.write(data),
}
TLS_RECEIVES: dict[str, Callable[[Any, int], bytes]] = {
    "recv": lambda sock, count: sock.recv(count),
    "recv_into": _into,
    "read": lambda sock, count: sock.read(count),
}

# Handing on: each gives the socket object that the program goes on with


def _over_rights(sock: Any) -> Any:
    here, there = socket.socketpair()
    with here, there:
        socket.send_fds(here, [b"x"], [sock.fileno()])
        _, (number,), _, _ = socket.recv_fds(there, 1, 1)
    sock.close()
    return socket.socket(fileno=number)


def _pickled(sock: Any) -> Any:
    from multiprocessing.reduction import ForkingPickler

    data = bytes(ForkingPickler.dumps(sock))
    sock.close()
    return pickle.loads(data)


def _closing(sock: Any, other: Any) -> Any:
    sock.close()
    return other


def _same_number(sock: Any) -> Any:
    other = socket.socket(fileno=sock.fileno())
    sock.detach()
    return other


REWRAPS: dict[str, Callable[[Any], Any]] = {
    "dup": lambda sock: _closing(sock, sock.dup()),
    "detach": lambda sock: socket.socket(fileno=sock.detach()),
    "fromfd": lambda sock: _closing(sock, socket.fromfd(sock.fileno(), sock.family, sock.type)),
    "os.dup": lambda sock: _closing(sock, socket.socket(fileno=os.dup(sock.fileno()))),
    "rights": _over_rights,
    "pickled": _pickled,
    "same number": _same_number,
}


def rewrap(sock: Any, way: str) -> Any:
    timeout = sock.gettimeout()
    other = REWRAPS[way](sock)
    other.settimeout(timeout)
    return other


# One call, whose outcome says it all


def _never_blocking(sock: Any, function: Callable[[], Any]) -> Any:
    timeout = sock.gettimeout()
    sock.settimeout(0)
    try:
        return function()
    finally:
        sock.settimeout(timeout)


def _error(sock: Any) -> Any:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def _names(sock: Any) -> Any:
    return sock.getpeername() is not None, sock.getsockname() is not None


def _refused(sock: Any) -> Any:
    free = "127.0.0.1", 9
    return [outcome(call) for call in (lambda: sock.connect(free), lambda: sock.bind(free), lambda: sock.accept())]


def _options(sock: Any) -> Any:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    asked = (
        (socket.IPPROTO_TCP, socket.TCP_NODELAY),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        (socket.SOL_SOCKET, socket.SO_TYPE),
        (socket.SOL_SOCKET, socket.SO_ACCEPTCONN),
        (socket.SOL_SOCKET, socket.SO_PROTOCOL),
        (socket.SOL_SOCKET, socket.SO_DOMAIN),
        (socket.SOL_SOCKET, 9999),
    )
    return [outcome(sock.getsockopt, *each) for each in asked]


def _state(sock: Any) -> Any:
    return (
        sock.family, sock.type, sock.proto, sock.gettimeout(), sock.getblocking(), sock.get_inheritable(),
        os.get_blocking(sock.fileno()), sock.fileno() >= 0,
    )  # fmt: skip


def _arguments(sock: Any) -> Any:
    return [
        outcome(sock.recv, -1),
        outcome(sock.recv_into, b"read only"),
        outcome(sock.recv_into, bytearray(2), 5),
        outcome(sock.send, "text"),
        outcome(sock.sendmsg, [b"x"], [(1, 1, "no")]),
        outcome(sock.shutdown, 77),
        outcome(sock.sendall, array.array("i")),
        outcome(os.read, sock.fileno(), -1),
    ]


def _expire(sock: Any) -> Any:
    timeout = sock.gettimeout()
    sock.settimeout(0.002)
    try:
        return sock.recv(10)
    finally:
        sock.settimeout(timeout)


ALL = IN | OUT | select.POLLRDHUP | select.POLLPRI

PROBES: dict[str, Callable[[Any], Any]] = {
    "empty": lambda sock: _never_blocking(sock, lambda: sock.recv(10)),
    "recv 0": lambda sock: _never_blocking(sock, lambda: sock.recv(0)),
    "send nothing": lambda sock: (sock.send(b""), sock.sendall(b""), sock.sendmsg([]), os.write(sock.fileno(), b"")),
    "error": _error,
    "names": _names,
    "poll": lambda sock: hex(poll(sock, ALL, 0)),
    "select": lambda sock: hex(_select(sock, IN | OUT, 0)),
    "epoll": lambda sock: hex(epoll(sock, ALL, 0)),
    "poll out": lambda sock: hex(poll(sock, OUT, 0)),
    "refused": _refused,
    "options": _options,
    "state": _state,
    "arguments": _arguments,
    "expire": _expire,
    "peek": lambda sock: _never_blocking(sock, lambda: len(sock.recv(10, socket.MSG_PEEK))),
}


# The end


def _reset(sock: Any) -> None:
    import struct

    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _close_by_number(sock: Any) -> None:
    number = sock.fileno()
    os.close(number)
    sock.detach()


CLOSES: dict[str, Callable[[Any], Any]] = {
    "close": lambda sock: sock.close(),
    "detached": lambda sock: os.close(sock.detach()),
    "reset": _reset,
    "by number": _close_by_number,
}
