"""Large messages that both ends copy past the ring: nothing else may differ."""

from __future__ import annotations

import hashlib
import os
import random
import select
import socket as plain
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy
import pytest

import fastsock
from fastsock import config, socket

from ..helpers.paths import preferring, settle, why_not

pytestmark = pytest.mark.skipif(bool(why_not("shm")), reason=why_not("shm") or "")

MIB = 1 << 20


@contextmanager
def connected(direct_min: int | str) -> Iterator[tuple[Any, Any]]:
    with preferring("shm"):
        config.configure(direct_min=direct_min)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepted: list[Any] = []
            accepting = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
            accepting.start()
            client = socket.create_connection(listener.getsockname())
            accepting.join()
        with client, accepted[0] as server:
            settle(client, server)
            assert client.transport == server.transport == "shm"
            yield client, server


def in_thread(body: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=body)
    thread.start()
    return thread


def fill(sock: Any, target: memoryview) -> None:
    done = 0
    while done < len(target):
        got = sock.recv_into(target[done:])
        assert got > 0
        done += got


def stream(sender: Any, receiver: Any, messages: list[memoryview]) -> None:
    """Sends them in a thread and receives each into a buffer of its size, checked."""

    def send() -> None:
        for message in messages:
            sender.sendall(message)

    sending = in_thread(send)
    for message in messages:
        target = memoryview(bytearray(len(message)))
        fill(receiver, target)
        assert target == message
    sending.join()


def pool() -> memoryview:
    return memoryview(random.Random(5).randbytes(8 * MIB))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="both ends on one core copy nothing directly")
def test_large_messages_are_copied_directly() -> None:
    source = pool()
    with connected("64K") as (client, server):
        for _ in range(1000):
            stream(client, server, [source] * 4)
            if fastsock.explain(client).bytes_direct:
                break
        sent, received = fastsock.explain(client), fastsock.explain(server)
        assert 0 < sent.bytes_direct == received.bytes_direct < sent.bytes_sent == received.bytes_received


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="both ends on one core copy nothing directly")
def test_explain_tells_how_a_large_block_was_copied() -> None:
    source = pool()
    ways = {"ring", "receiver copied", "both ends copied"}
    with connected("64K") as (client, server):
        assert fastsock.explain(client).large_sent is fastsock.explain(server).large_received is None
        for _ in range(1000):
            stream(client, server, [source])
            assert fastsock.explain(client).large_sent in ways
            assert fastsock.explain(server).large_received in ways
            if fastsock.explain(server).bytes_direct:
                break
        assert fastsock.explain(server).large_sent is fastsock.explain(client).large_received is None
    with connected(0) as (client, server):
        stream(client, server, [source])
        assert fastsock.explain(client).large_sent is fastsock.explain(server).large_received is None


@pytest.mark.parametrize("direct_min", [0, 1, "256K"])
def test_random_sizes(direct_min: int | str) -> None:
    source = pool()
    sizes = random.Random(11)
    messages = []
    for _ in range(60):
        at = sizes.randrange(4 * MIB)
        messages.append(source[at : at + sizes.choice([1, 5000, 70_000, MIB, 4 * MIB]) + sizes.randrange(3000)])
    with connected(direct_min) as (client, server):
        stream(client, server, messages)
        stream(server, client, messages)
        if direct_min == 0:
            assert fastsock.explain(client).bytes_direct == 0


def test_both_ways_at_once() -> None:
    source = pool()
    with connected("64K") as (client, server):
        other_way = in_thread(lambda: stream(server, client, [source] * 5))
        stream(client, server, [source] * 5)
        other_way.join()


def test_receiver_with_another_size() -> None:
    source = pool()
    with connected("64K") as (client, server):
        sending = in_thread(lambda: [client.sendall(source) for _ in range(4)] and client.shutdown(plain.SHUT_WR))
        seen, target = hashlib.sha256(), memoryview(bytearray(5 * MIB))
        sizes = random.Random(3)
        while got := server.recv_into(target[: sizes.choice([100, 70_000, MIB, 5 * MIB])]):
            seen.update(target[:got])
        sending.join()
        assert seen.digest() == hashlib.sha256(bytes(source) * 4).digest()


def test_ends_that_do_not_block() -> None:
    source = pool()
    with connected("64K") as (client, server):
        client.setblocking(False)
        server.setblocking(False)

        def send() -> None:
            for _ in range(6):
                done = 0
                while done < len(source):
                    select.select([], [client], [])
                    with suppress(BlockingIOError):
                        done += client.send(source[done:])

        sending = in_thread(send)
        target = memoryview(bytearray(len(source)))
        for _ in range(6):
            done = 0
            while done < len(target):
                select.select([server], [], [])
                with suppress(BlockingIOError):
                    done += server.recv_into(target[done:])
            assert target == source
        sending.join()


def test_recv_of_much_at_once() -> None:
    source = pool()
    with connected("64K") as (client, server):
        sending = in_thread(lambda: [client.sendall(source) for _ in range(4)] and client.shutdown(plain.SHUT_WR))
        parts = list(iter(lambda: server.recv(4 * MIB), b""))
        sending.join()
        assert b"".join(parts) == bytes(source) * 4


def test_scattered_and_arrays() -> None:
    source = numpy.frombuffer(pool(), dtype=numpy.int64)
    with connected("64K") as (client, server):
        sending = in_thread(lambda: [client.send_array(source.reshape(1024, -1)[:, ::2]) for _ in range(4)] and None)
        for _ in range(4):
            assert (server.recv_array() == source.reshape(1024, -1)[:, ::2]).all()
        sending.join()
        parts = [pool()[: 3 * MIB], pool()[MIB : 5 * MIB]]
        sending = in_thread(lambda: client.sendmsg(parts) and None)
        target = memoryview(bytearray(7 * MIB))
        fill(server, target)
        assert target == b"".join(parts)
        sending.join()


def test_sender_does_not_wait_for_a_receiver_that_went_away_from_its_call() -> None:
    """It once had a large buffer ready; then it receives no more, and buffers take what they take, as TCP's do."""
    with connected("64K") as (client, server):
        server.settimeout(0.01)
        with pytest.raises(TimeoutError):
            server.recv_into(bytearray(8 * MIB))
        client.settimeout(0.2)
        assert client.send(pool()) >= MIB
        with pytest.raises(TimeoutError):
            for _ in range(16):
                client.sendall(pool())
        assert fastsock.explain(client).bytes_direct == 0


def test_after_a_fork_everything_arrives() -> None:
    source = pool()
    with connected("64K") as (client, server):
        stream(client, server, [source])
        process = os.fork()
        if process == 0:
            try:
                client.sendall(source)
            finally:
                os._exit(0)
        target = memoryview(bytearray(len(source)))
        fill(server, target)
        assert target == source
        assert os.waitpid(process, 0)[1] == 0
        stream(client, server, [source])
