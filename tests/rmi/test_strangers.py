"""Nobody without the key gets a byte read; who has it is still not believed."""

from __future__ import annotations

import os
import random
import socket
import struct

import pytest

from fastsock import rmi
from fastsock.rmi.wire import frames, hello, keys
from fastsock.system import proof, user_key

from .conftest import KEY


def raw(served):
    sock = socket.create_connection(served.address, timeout=30)
    return sock


def ends(sock):
    """Whether the other end closes."""
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("seed", range(10))
def test_garbage_in_place_of_a_hello(served, store, seed):
    with raw(served) as sock:
        sock.sendall(random.Random(seed).randbytes(hello.MESSAGE_BYTES))
        assert ends(sock)
    assert store.add(1, 2) == 3


def test_a_wrong_key(served):
    with pytest.raises(rmi.Refused, match="another key"):
        served.connect(key="another key than that")


def test_a_recorded_hello_is_worth_nothing(served):
    end = hello.Connector(KEY.encode())
    with raw(served) as sock:
        first = end.start()
        sock.sendall(first)
        proved = end.feed(sock.recv(hello.MESSAGE_BYTES, socket.MSG_WAITALL))
        sock.sendall(proved)
        end.feed(sock.recv(hello.MESSAGE_BYTES, socket.MSG_WAITALL))
        assert end.done
    with raw(served) as sock:
        sock.sendall(first)
        sock.recv(hello.MESSAGE_BYTES, socket.MSG_WAITALL)
        sock.sendall(proved)
        assert b"another key" in sock.recv(hello.MESSAGE_BYTES, socket.MSG_WAITALL)
        assert ends(sock)


def test_a_daemon_without_the_key_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        import threading

        def pretend():
            sock, _ = listener.accept()
            with sock:
                sock.recv(hello.MESSAGE_BYTES, socket.MSG_WAITALL)
                sock.sendall(b"FSRMICHA" + bytes([1]) + bytes(hello.MESSAGE_BYTES - 9))
                sock.recv(32, socket.MSG_WAITALL)
                sock.sendall(b"FSRMIWEL" + bytes(hello.MESSAGE_BYTES - 8))
                ends(sock)

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(rmi.Refused, match="did not prove"):
            rmi.connect(f"rmi://127.0.0.1:{listener.getsockname()[1]}/x")
        thread.join()


def test_silent_strangers_stop_nobody(served):
    strangers = [raw(served) for _ in range(50)]
    assert served.connect().add(1, 2) == 3
    for each in strangers:
        each.close()


def proved(served):
    """A plain socket that has proved the key."""
    sock = raw(served)
    end = hello.Connector(KEY.encode())
    proof.drive(sock, end, end.start(), 30)
    return sock


def frame(kind, number=1, object_number=0, method=0, body=b"", flags=0, segments=0, length=None):
    size = len(body) if length is None else length
    return frames.HEADER.pack(size, kind, flags, segments, number, object_number, method) + body


def answer(sock):
    head = sock.recv(16, socket.MSG_WAITALL)
    length, kind = struct.unpack_from("<IB", head)
    sock.recv(length, socket.MSG_WAITALL)
    return kind


NO_ARGUMENTS = b"\0\xa0"


def test_forged_numbers_of_objects_and_methods_are_told(served, store):
    with proved(served) as sock:
        sock.sendall(frame(frames.CALL, object_number=77, body=NO_ARGUMENTS))
        assert answer(sock) == frames.ERROR
        sock.sendall(frame(frames.CALL, method=77, body=NO_ARGUMENTS))
        assert answer(sock) == frames.ERROR
    assert store.add(1, 2) == 3


@pytest.mark.parametrize(
    "bad",
    [
        frame(99),
        frame(frames.CALL, length=0xFFFFFFFF),
        frame(frames.CALL, length=16, segments=60000),
        frame(frames.CALL, body=b""),
        frame(frames.CALL, body=b"\0" + b"\xff" * 20),
        frame(frames.CALL, body=b"\0\xb0"),
        frame(frames.CALL, body=b"\0\xa0\xa0"),
        frame(frames.CALL, segments=1, body=NO_ARGUMENTS + struct.pack("<Q", 1 << 55)),
        frame(frames.CREDIT, body=b"\0\xa0\xa0"),
        frame(frames.RELEASE, body=b"\0\xa2\x01\x01"),
        frame(frames.CALL, body=b"\0" + b"\xa1" * 1_000_000),
    ],
    ids=["kind", "length", "segments", "empty", "garbage", "a list", "more", "2^55", "credit", "release", "nesting"],
)
def test_bad_frames_end_that_connection_alone(served, store, bad):
    with proved(served) as sock:
        sock.sendall(bad)
        assert ends(sock)
    assert store.add(1, 2) == 3


def test_a_truncated_frame(served, store):
    with proved(served) as sock:
        sock.sendall(frame(frames.CALL, length=100)[:20])
    assert store.add(1, 2) == 3


def test_the_key_file(tmp_path, monkeypatch):
    monkeypatch.delenv(user_key.VARIABLE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = keys.key_of()
    assert keys.key_of() == key
    path = user_key.path_of_file()
    assert os.stat(path).st_mode & 0o777 == 0o600
    for mode in (0o640, 0o604, 0o660):
        os.chmod(path, mode)
        with pytest.raises(rmi.Refused, match="chmod 600"):
            keys.key_of()
    os.chmod(path, 0o600)
    assert keys.key_of() == key


def test_a_short_key_is_refused():
    with pytest.raises(rmi.Refused, match="at least 16"):
        keys.key_of("short")
