"""An echo between two processes, each of a kind: echoes.py KIND KIND CERTIFICATE [CONNECTIONS [ROUNDS]]

The kind says who serves, or talks: sockets of Python's class, asyncio, uvloop, sockets of the class that C code of
ctypes uses by their numbers, or each call by another one of these. With "tls" behind it OpenSSL is between.
Ends with how many bytes came back, all of which were looked at.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import socket
import ssl
import sys
import threading
from typing import Any

SIZES = (1, 17, 300, 4096, 70_000, 5, 200_000, 64)
libc = ctypes.CDLL(None, use_errno=True)
libc.recv.restype = libc.send.restype = libc.read.restype = libc.write.restype = ctypes.c_ssize_t


def payload(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


class Plain:
    """A socket that is used by its own calls."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def take(self, most: int) -> bytes:
        return self.sock.recv(most)

    def put(self, data: bytes) -> int:
        return self.sock.send(data)


class ByNumber(Plain):
    """By C code that has its number."""

    def take(self, most: int) -> bytes:
        room = ctypes.create_string_buffer(most)
        return self.checked(libc.recv(self.sock.fileno(), room, ctypes.c_size_t(most), 0), room)

    def put(self, data: bytes) -> int:
        count = libc.send(self.sock.fileno(), data, ctypes.c_size_t(len(data)), 0)
        if count < 0:
            raise OSError(ctypes.get_errno(), "send")
        return int(count)

    def checked(self, count: int, room: Any) -> bytes:
        if count < 0:
            raise OSError(ctypes.get_errno(), "recv")
        return bytes(room.raw[:count])


class ByTurns(ByNumber):
    """Each call by another one."""

    calls = 0

    def take(self, most: int) -> bytes:
        self.calls += 1
        match self.calls % 4:
            case 0:
                return self.sock.recv(most)
            case 1:
                return super().take(most)
            case 2:
                return os.read(self.sock.fileno(), most)
        room = ctypes.create_string_buffer(most)
        return self.checked(libc.read(self.sock.fileno(), room, ctypes.c_size_t(most)), room)

    def put(self, data: bytes) -> int:
        self.calls += 1
        match self.calls % 4:
            case 0:
                return self.sock.send(data)
            case 1:
                return super().put(data)
            case 2:
                return os.write(self.sock.fileno(), data)
        return int(libc.write(self.sock.fileno(), data, ctypes.c_size_t(len(data))))


WAYS = {"class": Plain, "number": ByNumber, "turns": ByTurns}


def echo(way: Plain) -> None:
    while came := way.take(100_000):
        while came:
            came = came[way.put(came) :]


def talk(way: Plain, seed: int, rounds: int) -> int:
    count = 0
    for turn in range(rounds):
        data = payload(seed + turn, SIZES[turn % len(SIZES)])
        sender = threading.Thread(target=put_all, args=(way, data))
        sender.start()
        came = b""
        while len(came) < len(data):
            came += way.take(len(data) - len(came)) or sys.exit("the stream ended")
        sender.join()
        assert came == data, (seed, turn)
        count += len(came)
    return count


def put_all(way: Plain, data: bytes) -> None:
    while data:
        data = data[way.put(data) :]


def contexts(certificate: str, tls: bool) -> tuple[Any, Any]:
    if not tls:
        return None, None
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(certificate)
    client.load_verify_locations(certificate)
    client.check_hostname = False
    return server, client


def serve(kind: str, listener: socket.socket, context: Any, connections: int) -> None:
    if kind not in WAYS:
        run(kind, serve_loop(listener, context, connections))
        return

    def one(stream: socket.socket) -> None:
        with stream if context is None else context.wrap_socket(stream, server_side=True) as wrapped:
            echo(WAYS[kind](wrapped))

    threads = [threading.Thread(target=one, args=(listener.accept()[0],)) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def serve_loop(listener: socket.socket, context: Any, connections: int) -> None:
    ended = asyncio.Semaphore(0)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while came := await reader.read(100_000):
            writer.write(came)
            await writer.drain()
        writer.close()
        ended.release()

    async with await asyncio.start_server(one, sock=listener, ssl=context):
        for _ in range(connections):
            await ended.acquire()


def client(kind: str, address: Any, context: Any, connections: int, rounds: int) -> int:
    if kind not in WAYS:
        return run(kind, talk_loop(address, context, connections, rounds))
    counts = []

    def one(seed: int) -> None:
        plain = socket.create_connection(address)
        with plain if context is None else context.wrap_socket(plain) as stream:
            counts.append(talk(WAYS[kind](stream), seed, rounds))

    threads = [threading.Thread(target=one, args=(1000 * i,)) for i in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


async def talk_loop(address: Any, context: Any, connections: int, rounds: int) -> int:
    async def one(seed: int) -> int:
        reader, writer = await asyncio.open_connection(*address, ssl=context)
        count = 0
        for turn in range(rounds):
            data = payload(seed + turn, SIZES[turn % len(SIZES)])
            writer.write(data)
            assert await reader.readexactly(len(data)) == data, (seed, turn)
            count += len(data)
        writer.close()
        await writer.wait_closed()
        return count

    return sum(await asyncio.gather(*(one(1000 * i) for i in range(connections))))


def run(kind: str, task: Any) -> Any:
    if kind == "uvloop":
        import uvloop

        return uvloop.run(task)
    return asyncio.run(task)


def main(server: str, talker: str, certificate: str, connections: str = "3", rounds: str = "60") -> None:
    tls = server.endswith("tls")
    (ours, theirs), many = contexts(certificate, tls), int(connections)
    server, talker = server.removesuffix("tls"), talker.removesuffix("tls")
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    child = os.fork()
    if child == 0:
        listener.close()
        print(client(talker, address, theirs, many, int(rounds)), flush=True)
        raise SystemExit
    with listener:
        serve(server, listener, ours, many)
    assert os.waitpid(child, 0)[1] == 0


main(*sys.argv[1:])
