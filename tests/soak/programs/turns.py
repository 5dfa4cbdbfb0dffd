"""A socket whose calls go by turns: by Python's class, by C code that has the number, by the system calls of `os`."""

from __future__ import annotations

import ctypes
import os
import random
import select
import socket

libc = ctypes.CDLL(None, use_errno=True)
libc.recv.restype = libc.send.restype = libc.read.restype = libc.write.restype = ctypes.c_ssize_t


class PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


def checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)


def _read(number: int, most: int, call: str) -> bytes:
    room = ctypes.create_string_buffer(most)
    rest = (0,) if call == "recv" else ()
    count = checked(getattr(libc, call)(number, room, ctypes.c_size_t(most), *rest))
    return room.raw[:count]


def _write(number: int, data: bytes, call: str) -> int:
    rest = (0,) if call == "send" else ()
    return checked(getattr(libc, call)(number, data, ctypes.c_size_t(len(data)), *rest))


def take(sock: socket.socket, most: int, chooser: random.Random) -> bytes:
    way = chooser.choice(("class", "os", "recv", "read"))
    if way == "class":
        return sock.recv(most)
    return os.read(sock.fileno(), most) if way == "os" else _read(sock.fileno(), most, way)


def put(sock: socket.socket, data: bytes | memoryview, chooser: random.Random) -> int:
    way = chooser.choice(("class", "os", "send", "write"))
    if way == "class":
        return sock.send(data)
    return os.write(sock.fileno(), data) if way == "os" else _write(sock.fileno(), bytes(data), way)


def wait(sock: socket.socket, seconds: float, chooser: random.Random) -> None:
    """For something to read, by one of the pollers of either, or not at all."""
    ms, way = int(seconds * 1000), chooser.choice(("none", "none", "class", "select", "poll"))
    if way == "class":
        poller = select.poll()
        poller.register(sock, select.POLLIN)
        poller.poll(ms)
    elif way == "select":
        select.select([sock], [], [], seconds)
    elif way == "poll":
        one = PollFd(sock.fileno(), select.POLLIN, 0)
        checked(libc.poll(ctypes.byref(one), 1, ms))
