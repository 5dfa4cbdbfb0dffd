"""A server and a client that talk over TCP, in two processes: a program that has never heard of fastsock.

    python examples/unmodified_echo.py

Calls a server many times with 64 bytes, then sends it 1 MiB blocks, and prints one line of JSON: the median time of
a call in microseconds, and the bandwidth in GB/s. By itself it uses TCP; `python -m fastsock.launcher` changes that.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import statistics
import struct
import time

CALL_BYTES = 64
BLOCK_BYTES = 1 << 20
WARM_UP = 200
SECONDS = 0.12  # for each of the two measurements
REQUEST = struct.Struct("!?Q")  # whether the bytes are wanted back, how many follow


def receive(sock: socket.socket, target: memoryview) -> bool:
    """Fills `target`; False where the other end closed instead."""
    filled = 0
    while filled < len(target):
        count = sock.recv_into(target[filled:])
        if count == 0:
            return False
        filled += count
    return True


def serve(listener: socket.socket) -> None:
    """Answers one client: with the same bytes, or with one byte that says that they arrived."""
    sock, _ = listener.accept()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    header, room = bytearray(REQUEST.size), bytearray(BLOCK_BYTES)
    with sock:
        while receive(sock, memoryview(header)):
            wanted_back, length = REQUEST.unpack(header)
            data = memoryview(room)[:length]
            if not receive(sock, data):
                return
            sock.sendall(data if wanted_back else b"!")


def median_call_us(sock: socket.socket) -> float:
    request = REQUEST.pack(True, CALL_BYTES) + bytes(CALL_BYTES)
    answer = memoryview(bytearray(CALL_BYTES))
    times: list[float] = []
    deadline = time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < deadline or len(times) <= WARM_UP:
        sock.sendall(request)
        if not receive(sock, answer):
            raise ConnectionError("the server left")
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP:]) * 1e6


def bandwidth_gb_s(sock: socket.socket) -> float:
    header, block = REQUEST.pack(False, BLOCK_BYTES), bytes(BLOCK_BYTES)
    answer = memoryview(bytearray(1))
    start = time.perf_counter()
    blocks = 0
    while time.perf_counter() - start < SECONDS:
        for _ in range(8):  # under way at once
            sock.sendall(header)
            sock.sendall(block)
        for _ in range(8):
            if not receive(sock, answer):
                raise ConnectionError("the server left")
        blocks += 8
    return blocks * BLOCK_BYTES / (time.perf_counter() - start) / 1e9


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = multiprocessing.Process(target=serve, args=(listener,), daemon=True)
        server.start()
        with socket.create_connection(listener.getsockname()) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            print(json.dumps({"call_us": median_call_us(sock), "gb_s": bandwidth_gb_s(sock)}))
        server.join()


if __name__ == "__main__":
    main()
