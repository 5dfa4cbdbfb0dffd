"""Watches many connections, with room for few events: python fair_poller.py CLASS|ALONE CONNECTIONS ROOM KIND

CLASS: it installs fastsock itself. Prints the paths of the connections. Ends with an error where an event that stands
is not told within so many waits.
"""

from __future__ import annotations

import os
import select
import sys

if sys.argv[1] == "CLASS":
    import fastsock

    fastsock.install()
import socket

COUNT, ROOM, KIND = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
MOST = 5_000  # waits: the kernel would need COUNT / ROOM


def pairs() -> list[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0), backlog=COUNT) as server:
        near = [socket.create_connection(server.getsockname()) for _ in range(COUNT)]
        by_name = {one.getsockname(): one for one in near}
        made = []
        for _ in range(COUNT):
            far, name = server.accept()
            made.append((by_name[name], far))
    for one in (end for pair in made for end in pair):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a byte comes before those before it were read
    return made


def await_event(epoll: select.epoll, wanted: int | None, what: str) -> int:
    """The number. (Who asks a socket for it may watch it unseen: then the connection stays on TCP.)"""
    for _ in range(MOST):
        for number, events in epoll.poll(10, ROOM):
            if wanted in (None, number) and events & select.EPOLLIN:
                return number
    sys.exit(f"{what}: nothing was told in {MOST} waits")


def main() -> None:
    ends = pairs()
    epoll = select.epoll()
    for near, _ in ends:
        epoll.register(near, select.EPOLLIN)
    numbers: dict[socket.socket, int] = {}
    for _ in range(30):  # they gain memory, and are heard of in each way there is
        for near, far in ends:
            far.sendall(b"x")
            numbers[near] = await_event(epoll, numbers.get(near), "while it gains memory")
            assert near.recv(1) == b"x"
            near.sendall(b"y")
            assert far.recv(1) == b"y"
    print({getattr(near, "transport", "none") for near, _ in ends}, flush=True)
    others = ends
    if KIND == "writable":  # all of them, all the time
        for near, _ in ends:
            epoll.modify(near, select.EPOLLIN | select.EPOLLOUT)
    else:  # some are never read to their end
        for _, far in ends[: COUNT // 2]:
            far.sendall(bytes(100))
        others = ends[COUNT // 2 :]
    for turn in range(20):
        for i, (near, far) in enumerate(others):
            far.sendall(b"z")
            await_event(epoll, numbers[near], f"turn {turn}, connection {i}")
            assert near.recv(1) == b"z"
    reader, writer = os.pipe()
    epoll.register(reader, select.EPOLLIN | select.EPOLLONESHOT)
    for turn in range(20):
        os.write(writer, b"!")
        epoll.modify(reader, select.EPOLLIN | select.EPOLLONESHOT)
        await_event(epoll, reader, f"turn {turn}, a pipe")
        assert os.read(reader, 1) == b"!"


main()
