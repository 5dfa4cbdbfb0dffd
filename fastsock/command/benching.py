"""The client and the server that `fastsock bench` runs, plain and under `fastsock run`. They know sockets alone."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS = 0.2  # of a turn
_HEAD = struct.Struct("=?I")  # whether it is answered; bytes of a message
_AT_ONCE = 16  # messages that nobody answers, between two looks at the clock


class Task:
    """Messages of that size, there and back or one way."""

    def __init__(self, name: str, size: int, is_answered: bool) -> None:
        self.name = name
        self.size = size
        self.is_answered = is_answered
        self.unit = "round trips/s" if is_answered else "MB/s"


TASKS = (
    Task("64 bytes there and back", 64, True),
    Task("4 KiB there and back", 4 << 10, True),
    Task("64 KiB there and back", 64 << 10, True),
    Task("64 KiB one way", 64 << 10, False),
    Task("1 MiB one way", 1 << 20, False),
)


def main() -> None:
    """The client: a line of standard input names a task, and a line of standard output is its rate."""
    with subprocess.Popen([sys.executable, "-m", __spec__.name, "serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            connections = {task.name: _connect(port, task) for task in TASKS}
            tasks = {task.name: task for task in TASKS}
            for task in TASKS:  # so that all of them are warm
                _measure(connections[task.name], task)
            for line in sys.stdin:
                what = line.strip()
                answer = _transport(connections) if what == "transport" else _measure(connections[what], tasks[what])
                print(answer, flush=True)
        finally:
            server.kill()


def _connect(port: int, task: Task) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_HEAD.pack(task.is_answered, task.size))
    return connection


def _transport(connections: dict[str, Any]) -> str:
    """What all of them use; TCP if one of them does."""
    used = {getattr(connection, "transport", "tcp") for connection in connections.values()}
    return used.pop() if len(used) == 1 else "tcp"


def _measure(connection: socket.socket, task: Task) -> float:
    message, buffer = bytes(task.size), bytearray(task.size)
    count = 0
    start = time.perf_counter()
    while (seconds := time.perf_counter() - start) < _SECONDS:
        if task.is_answered:
            connection.sendall(message)
            _receive(connection, buffer)
            count += 1
        else:
            for _ in range(_AT_ONCE):
                connection.sendall(message)
            _receive(connection, memoryview(buffer)[:1])  # all of them have come
            count += _AT_ONCE
    return count / seconds if task.is_answered else count * task.size / seconds / 1e6


def _receive(connection: socket.socket, buffer: Any) -> None:
    view = memoryview(buffer)
    while view:
        got = connection.recv_into(view)
        if not got:
            raise ConnectionError("the other end is gone")
        view = view[got:]


def serve() -> None:
    """The server: a thread for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            threading.Thread(target=_serve_one, args=(listener.accept()[0],), daemon=True).start()


def _serve_one(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = bytearray(_HEAD.size)
    try:
        _receive(connection, head)
        is_answered, size = _HEAD.unpack(head)
        buffer = bytearray(size)
        while True:
            for _ in range(1 if is_answered else _AT_ONCE):
                _receive(connection, buffer)
            connection.sendall(buffer if is_answered else b"x")
    except OSError:  # the client has ended
        return


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
