"""Both ends fork: each connection is a forked child's of the server, and the client's two processes talk by turns.

Each turn is by the class or by C code that has the number. Ends with how many bytes came back. Each was looked at.
"""

from __future__ import annotations

import ctypes
import os
import random
import socket
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.recv.restype = libc.send.restype = ctypes.c_ssize_t
CONNECTIONS, TURNS = 3, 12


def put(sock: socket.socket, data: bytes, by_number: bool) -> None:
    while data:
        if by_number:
            count = libc.send(sock.fileno(), data, ctypes.c_size_t(len(data)), 0)
            assert count > 0, os.strerror(ctypes.get_errno())
        else:
            count = sock.send(data)
        data = data[count:]


def take(sock: socket.socket, most: int, by_number: bool) -> bytes:
    if not by_number:
        return sock.recv(most)
    room = ctypes.create_string_buffer(most)
    count = libc.recv(sock.fileno(), room, ctypes.c_size_t(most), 0)
    assert count >= 0, os.strerror(ctypes.get_errno())
    return bytes(room.raw[:count])


def serve(listener: socket.socket) -> None:
    children = []
    for i in range(CONNECTIONS):
        stream, _ = listener.accept()
        child = os.fork()
        if child == 0:
            turn = 0
            while came := take(stream, 65536, turn % 3 == i % 3):
                put(stream, came, turn % 2 == 0)
                turn += 1
            os._exit(0)
        stream.close()
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0


def talk(sock: socket.socket, seed: int, by_number: bool) -> int:
    count = 0
    for turn in range(TURNS):
        data = random.Random(seed + turn).randbytes((1, 300, 5000, 60_000)[turn % 4])
        put(sock, data, by_number)
        came = b""
        while len(came) < len(data):
            came += take(sock, len(data) - len(came), by_number ^ (turn % 2 == 0))
        assert came == data, (seed, turn)
        count += len(came)
    return count


def client(address: tuple[str, int]) -> int:
    """Each connection is talked by from this process, from a forked child, and from here again."""
    count = 0
    for i in range(CONNECTIONS):
        with socket.create_connection(address) as sock:
            for turn in range(4):
                count += talk(sock, 100 * i + turn, turn % 2 == 0)
                child = os.fork()
                if child == 0:
                    talk(sock, 7000 + turn, turn % 2 == 1)
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
            threads = []
            lock = threading.Lock()

            def one(seed: int, sock: socket.socket = sock, lock: threading.Lock = lock) -> None:
                with lock:
                    talk(sock, seed, seed % 2 == 0)

            for turn in range(4):
                threads.append(threading.Thread(target=one, args=(turn,)))
                threads[-1].start()
            for thread in threads:
                thread.join()
    return count


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        address = listener.getsockname()
        listener.close()
        print(client(address), flush=True)
        raise SystemExit
    with listener:
        serve(listener)
    assert os.waitpid(child, 0)[1] == 0


main()
