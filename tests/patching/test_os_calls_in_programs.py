"""os.read, os.write and their kin on fileno(), in a program that uses the module `socket`."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile

from fastsock.testing.outcomes import fill, outcome, receive, receive_all
from fastsock.testing.patterns import Pattern

MIB = 1 << 20


def test_read_and_write(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    number = near.fileno()
    assert os.write(number, b"by number") == 9
    assert far.run(receive, 9) == b"by number"
    far.sendall(b"answer")
    assert near.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"answer"
    assert os.read(number, 3) == b"ans"
    assert near.recv(3) == b"wer"
    far.shutdown(socket.SHUT_WR)
    assert os.read(number, 10) == b""


def test_vectors(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    assert os.writev(near.fileno(), [b"one", b"", bytearray(b"two")]) == 6
    assert far.run(receive, 6) == b"onetwo"
    far.sendall(b"0123456789")
    near.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
    first, second = bytearray(4), bytearray(8)
    assert os.readv(near.fileno(), [first, second]) == 10
    assert first + second[:6] == b"0123456789"


def test_modes(installed_pair):
    near = installed_pair.near
    number = near.fileno()
    os.set_blocking(number, False)
    assert outcome(os.read, number, 1) == "BlockingIOError EAGAIN"
    assert outcome(os.readv, number, [bytearray(1)]) == "BlockingIOError EAGAIN"
    total = fill(near)
    assert outcome(os.write, number, b"x") == "BlockingIOError EAGAIN"
    assert len(installed_pair.far.run(receive, total)) == total
    os.set_blocking(number, True)


def _read_by_number(sock, count):
    return os.read(sock.fileno(), count)


def _write_by_number(sock, size):
    data = memoryview(Pattern(1).at(0, size))
    while data:
        data = data[os.write(sock.fileno(), data) :]


def _write_to_closed(sock):
    try:
        for _ in range(1000):
            os.write(sock.fileno(), b"x")
    except OSError as error:
        return type(error).__name__
    return "never refused"


def test_blocking_read(installed_pair):
    reading = installed_pair.far.begin_run(_read_by_number, 100)
    installed_pair.far.until_blocked()
    installed_pair.near.sendall(b"woken")
    assert reading.result() == b"woken"


def test_much_by_number(installed_pair):
    size = 6 * MIB
    writing = installed_pair.far.begin_run(_write_by_number, size)
    received = bytearray()
    while len(received) < size:
        block = os.read(installed_pair.near.fileno(), 100_000)
        assert block
        received += block
    Pattern(1).verify(0, received)
    writing.result()


def test_write_to_closed(installed_pair):
    installed_pair.near.close()
    assert installed_pair.far.run(_write_to_closed) in ("BrokenPipeError", "ConnectionResetError")


def _file(size):
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(Pattern(2).at(0, size))
    file.flush()
    return file


def _digest(sock, size):
    Pattern(2).verify(0, receive(sock, size))


def test_os_sendfile(installed_pair):
    size = 3 * MIB + 1
    with _file(size) as file:
        receiving = installed_pair.far.begin_run(_digest, size)
        sent = 0
        while sent < size:
            count = os.sendfile(installed_pair.near.fileno(), file.fileno(), sent, size - sent)
            assert count
            sent += count
        receiving.result()
        assert os.sendfile(installed_pair.near.fileno(), file.fileno(), size, 10) == 0


def test_os_sendfile_without_blocking(installed_pair):
    size = 8 * MIB
    near = installed_pair.near
    near.setblocking(False)
    with _file(size) as file:
        sent = 0
        while True:
            count = outcome(os.sendfile, near.fileno(), file.fileno(), sent, size - sent)
            if isinstance(count, str):
                break
            assert count
            sent += count
            if sent == size:
                return
        assert count == "BlockingIOError EAGAIN"
    installed_pair.far.run(_digest, sent)


def test_dup(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    far.sendall(b"unread")
    assert near.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"unread"
    other = os.dup(near.fileno())
    try:
        assert os.read(other, 3) == b"unr"
        assert near.recv(3) == b"ead"
        os.write(other, b"by dup ")
        near.sendall(b"by socket")
        assert far.run(receive, 16) == b"by dup by socket"
        near.close()
        os.write(other, b"alone")
        assert far.run(receive, 5) == b"alone"
    finally:
        os.close(other)
    assert far.recv(1) == b""


def test_dup_by_fcntl(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    other = fcntl.fcntl(near.fileno(), fcntl.F_DUPFD_CLOEXEC, 50)
    try:
        assert other >= 50
        os.write(other, b"by dup")
        assert far.run(receive, 6) == b"by dup"
    finally:
        os.close(other)
    near.sendall(b"x")
    assert far.recv(1) == b"x"


def test_dup_to_a_number(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    target = os.open(os.devnull, os.O_RDWR)
    os.dup2(near.fileno(), target)
    try:
        near.close()
        os.write(target, b"at the number")
        assert far.run(receive, 13) == b"at the number"
        far.sendall(b"back")
        assert os.read(target, 4) == b"back"
    finally:
        os.close(target)
    assert far.recv(1) == b""


def test_dup_over_a_connection(installed_pair):
    """dup2 onto a connection's number closes the connection."""
    near, far = installed_pair.near, installed_pair.far
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(null, near.fileno())
        assert far.recv(1) == b""
        assert os.write(near.fileno(), b"gone") == 4
        assert os.read(near.fileno(), 1) == b""
    finally:
        os.close(null)


def test_closed_by_number(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    os.close(near.fileno())
    assert far.recv(1) == b""
    assert outcome(near.send, b"x") == "OSError EBADF"
    near.detach()


def test_closed_by_number_and_reused(installed_pair):
    """The number of a connection that os.close() closed belongs to the next file."""
    near, far = installed_pair.near, installed_pair.far
    number = near.fileno()
    reading, writing = os.pipe()
    os.close(number)
    near.detach()
    try:
        os.dup2(reading, number)
        os.write(writing, b"pipe")
        assert os.read(number, 10) == b"pipe"
        os.close(number)
    finally:
        os.close(reading)
        os.close(writing)
    assert far.recv(1) == b""


def test_file_object(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    far.sendall(b"line one\nline two\n")
    assert near.recv(18, socket.MSG_PEEK | socket.MSG_WAITALL)
    with os.fdopen(near.detach(), "r+b", buffering=0) as file:
        assert file.read(9) == b"line one\n"
        assert file.readline() == b"line two\n"
        file.write(b"answer")
        assert far.run(receive, 6) == b"answer"
    assert far.run(receive_all) == b""


def test_detached_number(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    far.sendall(b"unread")
    assert near.recv(6, socket.MSG_PEEK | socket.MSG_WAITALL) == b"unread"
    number = near.detach()
    try:
        assert os.read(number, 6) == b"unread"
        os.write(number, b"raw")
        assert far.run(receive, 3) == b"raw"
    finally:
        os.close(number)
    assert far.recv(1) == b""
