"""Either end is killed at random moments: a buffer is never lost, and never in two hands."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import time

import pytest

from fastsock import attach, buffers, core, socket

from ..helpers.paths import preferring, why_not

pytestmark = [
    pytest.mark.skipif(not core.available, reason=core.why_not),
    pytest.mark.skipif(bool(why_not("shm")), reason=why_not("shm") or ""),
]

ROUNDS = int(os.environ.get("FASTSOCK_BUFFER_KILLS", "150"))


def borrow(address):
    """Takes buffers, marks them all over, checks that nobody else did, gives them back."""
    sock = socket.create_connection(address)
    attach(sock, 30)
    mine = os.getpid() % 200 + 50
    while True:
        received = buffers.recv_buffer(sock)
        view = received.view("u1")
        view[:] = mine
        if not (view == mine).all():
            os._exit(3)
        del view
        received.release()


def test_a_borrower_is_killed():
    """Its owner has each buffer again, and sees nothing change in it from then on."""
    chance = random.Random(5)
    with preferring("shm"), socket.create_server(("127.0.0.1", 0)) as listener:
        mine = [buffers.RegisteredBuffer(1 << 14) for _ in range(3)]
        handed = 0
        for round_ in range(ROUNDS):
            child = os.fork()
            if child == 0:
                try:
                    borrow(listener.getsockname())
                finally:
                    os._exit(4)
            with listener.accept()[0] as sock:
                attach(sock, 30)
                end = time.monotonic() + chance.random() * 0.02
                try:
                    while time.monotonic() < end or handed == 0:
                        for buffer in mine:
                            if buffer.is_home:
                                buffer.view("u1")[:] = 1
                                handed += buffers.send_buffer(sock, buffer)
                except ConnectionError:
                    pass
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                assert os.WIFSIGNALED(status), (round_, status)
                for buffer in mine:
                    buffer.wait(10)
                    view = buffer.view("u1")
                    view[:] = 2
                    assert (view == 2).all()
                    del view
        assert handed > ROUNDS


def lend(address, count):
    sock = socket.create_connection(address)
    pool = buffers.Pool(4, 1 << 14)
    number = 0
    while True:
        buffer = pool.take()
        view = buffer.view("u8")
        view[:] = number
        del view
        buffers.send_buffer(sock, buffer, lend=bool(count & 1))
        number += 1
        while count & 1 and not buffer.is_home:
            buffer.wait()
        buffer.release()


def test_an_owner_is_killed():
    """What it had sent arrives whole and in order, and stays as long as it is used."""
    chance = random.Random(6)
    arrived = 0
    with preferring("shm"), socket.create_server(("127.0.0.1", 0)) as listener:
        for round_ in range(ROUNDS):
            child = os.fork()
            if child == 0:
                try:
                    lend(listener.getsockname(), round_)
                finally:
                    os._exit(4)
            with listener.accept()[0] as sock:
                buffers.expect(sock)
                expected = 0
                end = time.monotonic() + chance.random() * 0.02
                is_alive = True
                while True:
                    if is_alive and time.monotonic() > end:
                        os.kill(child, signal.SIGKILL)
                        _, status = os.waitpid(child, 0)
                        assert os.WIFSIGNALED(status), status
                        is_alive = False
                    try:
                        received = buffers.recv_buffer(sock)
                    except (EOFError, ConnectionError):
                        break
                    view = received.view("u8", readonly=True)
                    assert (view == expected).all(), (round_, expected, view[0])
                    expected += 1
                    del view
                    received.release()
                arrived += expected
    assert arrived > ROUNDS


def hold(address, told):
    sock = socket.create_connection(address)
    attach(sock, 30)
    buffers.expect(sock)
    os.write(told[1], b"ready ")
    received = buffers.recv_buffer(sock)
    keeper = os.fork()  # its memory is inherited, and may be written to after its parent's death
    if keeper == 0:
        view = received.get_memory().address
        os.close(told[0])
        parent = os.getppid()
        os.write(told[1], b"begun ")
        while os.getppid() == parent:
            ctypes.memset(view, 0xEE, 100)
        ctypes.memset(view, 0xEE, 100)
        os.write(told[1], b"written")
        os._exit(0)
    while True:
        signal.pause()


def test_nobody_writes_to_memory_that_came_back_by_a_death():
    """A child of the killed borrower still has the mapping: so the owner has other memory from then on."""
    told = os.pipe()
    with preferring("shm"), socket.create_server(("127.0.0.1", 0)) as listener:
        child = os.fork()
        if child == 0:
            try:
                hold(listener.getsockname(), told)
            finally:
                os._exit(4)
        os.close(told[1])
        with listener.accept()[0] as sock:
            attach(sock, 30)
            buffer = buffers.RegisteredBuffer(100)
            assert os.read(told[0], 6) == b"ready "
            assert buffers.send_buffer(sock, buffer)
            assert os.read(told[0], 6) == b"begun "
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            buffer.wait(10)
            view = buffer.view("u1")
            view[:] = 1
            with os.fdopen(told[0], "rb") as answer:
                assert answer.read() == b"written"
            assert (view == 1).all()
