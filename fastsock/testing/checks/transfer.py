"""Bytes arrive once and in order, whatever the sizes and whoever is waiting."""

from __future__ import annotations

import array
import mmap
import random
import socket
import threading
from typing import Any

from ..outcomes import like_plain_tcp, on_pair, on_sleeping_pair, receive
from ..pairs import Pair
from ..patterns import Pattern, receive_pattern, send_pattern

MIB = 1 << 20


@on_pair
def check_random_sizes_out(pair: Pair) -> None:
    sending = pair.far.begin_run(receive_pattern, 1, 24 * MIB)
    send_pattern(pair.near, 1, 24 * MIB)
    sending.result()


@on_pair
def check_random_sizes_in(pair: Pair) -> None:
    sending = pair.far.begin_run(send_pattern, 2, 24 * MIB)
    receive_pattern(pair.near, 2, 24 * MIB)
    sending.result()


def _cuts(number: int) -> list[bytes]:
    """The parts of a short message whose every byte is the same."""
    size, byte = 1 + number * 37 % 900, bytes([number & 255])
    if number % 4 == 0:
        return [byte * size]
    if number % 4 == 1:
        return [byte] * size
    return [b"", byte * (number % size), b"", byte * (size - number % size), b""]


def _send_message(sock: Any, number: int) -> int:
    parts = _cuts(number)
    if len(parts) == 1:
        sock.sendall(parts[0])
        return len(parts[0])
    sent: int = sock.sendmsg(parts)
    return sent


def _answer_whole_messages(sock: Any, first: int, count: int) -> list[tuple[int, int]]:
    """The messages of which something else came first, and how much."""
    torn = []
    for number in range(first, first + count):
        message = b"".join(_cuts(number))
        came = sock.recv(4096)
        if came != message:
            torn.append((number, len(came)))
            came += receive(sock, len(message) - len(came))
        assert came == message, number
        sock.sendall(b"k")
    return torn


@on_pair
def check_one_send_reaches_a_waiting_receiver_whole(pair: Pair) -> None:
    """Short ones: TCP promises nothing, but on one host it cuts none of them."""
    count = 1500
    for sock in (pair.near, pair.far):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answering = pair.far.begin_run(_answer_whole_messages, 0, count)
    for number in range(count):
        assert _send_message(pair.near, number) == len(b"".join(_cuts(number)))
        assert pair.near.recv(1) == b"k"
    assert answering.result() == []
    sending = pair.far.begin_run(_send_messages, count)
    assert _answer_whole_messages(pair.near, 0, count) == []
    sending.result()


def _send_messages(sock: Any, count: int) -> None:
    for number in range(count):
        _send_message(sock, number)
        assert sock.recv(1) == b"k"


def _both_ways(sock: Any, send_seed: int, receive_seed: int, total: int) -> None:
    failures: list[BaseException] = []

    def send() -> None:
        try:
            send_pattern(sock, send_seed, total)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    receive_pattern(sock, receive_seed, total)
    thread.join()
    if failures:
        raise failures[0]


@on_pair
def check_random_sizes_both_ways_at_once(pair: Pair) -> None:
    there = pair.far.begin_run(_both_ways, 3, 4, 12 * MIB)
    _both_ways(pair.near, 4, 3, 12 * MIB)
    there.result()


def _echo_exactly(sock: Any, sizes: list[int]) -> None:
    for size in sizes:
        sock.sendall(receive(sock, size))


@on_pair
def check_sizes_around_powers_of_two(pair: Pair) -> None:
    sizes = sorted({max(1, (1 << power) + extra) for power in range(21) for extra in (-1, 0, 1)})
    pattern = Pattern(5)
    echoing = pair.far.begin_run(_echo_exactly, sizes)
    for size in sizes:
        pair.near.sendall(pattern.at(size, size))
        pattern.verify(size, receive(pair.near, size))
    echoing.result()


@on_pair
def check_short_exchanges(pair: Pair) -> None:
    count = 3000
    echoing = pair.far.begin_run(_echo_exactly, [1] * count)
    for number in range(count):
        pair.near.send(bytes([number & 255]))
        assert pair.near.recv(100) == bytes([number & 255]), number
    echoing.result()


def _receive_whole(sock: Any, size: int, seed: int) -> list[int]:
    """Receive into one large buffer; the sizes of the pieces that came."""
    buffer = bytearray(size)
    pieces, start = [], 0
    with memoryview(buffer) as view:
        while start < size:
            count = sock.recv_into(view[start:])
            assert count, f"ended after {start} bytes"
            pieces.append(count)
            start += count
    Pattern(seed).verify(0, buffer)
    return pieces


@on_pair
def check_large_blocks_into_a_waiting_receiver(pair: Pair) -> None:
    for seed, size in enumerate([MIB, 2 * MIB + 1, 8 * MIB, 33 * MIB + 5]):
        receiving = pair.far.begin_run(_receive_whole, size, seed)
        pair.far.until_blocked()
        pair.near.sendall(Pattern(seed).at(0, size))
        receiving.result()


@on_pair
def check_large_blocks_in(pair: Pair) -> None:
    for seed, size in enumerate([MIB, 2 * MIB + 1, 8 * MIB, 33 * MIB + 5]):
        sending = pair.far.begin("sendall", Pattern(seed).at(0, size))
        _receive_whole(pair.near, size, seed)
        sending.result()


@on_sleeping_pair
def check_large_receive_takes_a_short_message(pair: Pair, until_waits: Any) -> None:
    """A receiver that waits with megabytes of room gets the few bytes that came."""
    for size in (1, 100, 70_000):
        receiving = pair.far.begin("recv", 4 * MIB)
        until_waits(pair.far)
        pair.near.sendall(bytes(size))
        got = len(receiving.result())
        assert 0 < got <= size
        while got < size:
            got += len(pair.far.recv(4 * MIB))


@on_pair
def check_small_after_large_keeps_its_place(pair: Pair) -> None:
    chooser, pattern = random.Random(6), Pattern(6)
    total = 0
    plan = [chooser.choice((1, 8, 3 * MIB, 64, 70_000, 2 * MIB)) for _ in range(24)]
    receiving = pair.far.begin_run(receive_pattern, 6, sum(plan), (MIB, 3 * MIB, 5))
    for size in plan:
        pair.near.sendall(pattern.at(total, size))
        total += size
    receiving.result()


@on_pair
def check_every_kind_of_buffer_is_sent(pair: Pair) -> None:
    numbers = array.array("d", [1.5, -2.0, 3e300])
    grid = memoryview(bytes(range(24))).cast("B", (4, 6))
    with mmap.mmap(-1, 4096) as pages:
        pages[:] = bytes(4095) + b"m"
        buffers = [b"bytes", bytearray(b"bytearray"), memoryview(b"xviewx")[1:-1], numbers, grid, pages]
        for buffer in buffers:
            raw = bytes(memoryview(buffer).cast("B")) if buffer is not pages else bytes(pages)
            assert pair.near.send(buffer) == len(raw)
            assert pair.far.run(receive, len(raw)) == raw
            assert pair.near.sendall(buffer) is None
            assert pair.far.run(receive, len(raw)) == raw


@like_plain_tcp
def check_refused_arguments(pair: Pair) -> Any:
    from ..outcomes import outcome

    near = pair.near
    strided = memoryview(bytes(10))[::2]
    return [
        outcome(near.send, "text"),
        outcome(near.sendall, "text"),
        outcome(near.send, strided),
        outcome(near.send, None),
        outcome(near.recv, -1),
        outcome(near.recv, "1"),
        outcome(near.recv_into, b"immutable"),
        outcome(near.recv_into, bytearray(4), 5),
        outcome(near.recv_into, bytearray(4), -1),
        outcome(near.recvmsg, -1),
        outcome(near.sendmsg, b"not a list of buffers"),
    ]


@on_pair
def check_empty_send_is_no_end_of_file(pair: Pair) -> None:
    near, far = pair.near, pair.far
    assert near.send(b"") == 0
    assert near.sendall(b"") is None
    assert near.sendmsg([]) == 0
    assert near.sendmsg([b"", b""]) == 0
    near.sendall(b"after")
    assert far.run(receive, 5) == b"after"


@on_pair
def check_receive_of_nothing_does_not_wait(pair: Pair) -> None:
    assert pair.near.recv(0) == b""
    assert pair.near.recv_into(bytearray()) == 0
    pair.far.sendall(b"x")
    assert pair.near.recv(0) == b""
    assert pair.near.recv(1) == b"x"


def _send_each(sock: Any, sizes: list[int]) -> int:
    return sum(sock.send(bytes(size)) for size in sizes)


@on_pair
def check_many_sends_are_one_stream(pair: Pair) -> None:
    sizes = [1, 2, 3, 500, 1, 60_000]
    assert pair.far.run(_send_each, sizes) == sum(sizes)
    assert len(pair.near.recv(sum(sizes), socket.MSG_WAITALL)) == sum(sizes)
