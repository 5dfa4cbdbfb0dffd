"""The calls that move data, other than send and recv themselves."""

from __future__ import annotations

import io
import os
import pickle
import select
import socket
import tempfile
import weakref
from typing import Any

from ..outcomes import like_plain_tcp, on_pair, outcome, receive, receive_all
from ..pairs import Pair
from ..patterns import Pattern, digest
from ..waiting import until_readable

MIB = 1 << 20


@like_plain_tcp
def check_recv_into(pair: Pair) -> Any:
    near = pair.near
    pair.far.sendall(b"0123456789abcdef")
    assert len(near.recv(16, socket.MSG_PEEK | socket.MSG_WAITALL)) == 16
    seen: list[Any] = []
    buffer = bytearray(b"........")
    seen.append((near.recv_into(buffer, 3), bytes(buffer)))
    seen.append((near.recv_into(memoryview(buffer)[4:]), bytes(buffer)))
    seen.append((near.recv_into(buffer, 0), bytes(buffer)))
    seen.append((near.recv_into(memoryview(buffer)[:0]), bytes(buffer)))
    seen.append((near.recv_into(buffer, nbytes=1), bytes(buffer)))
    return seen


@like_plain_tcp
def check_recvfrom_and_sendto(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    far.sendall(b"0123456789")
    near.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
    buffer = bytearray(4)
    seen = [near.recvfrom(3), near.recvfrom_into(buffer), bytes(buffer), near.recvfrom(3, socket.MSG_PEEK)]
    seen.append(outcome(near.sendto, b"to", ("127.0.0.1", 9)))
    seen.append(outcome(near.sendto, b"wards", 0, ("127.0.0.1", 9)))
    return [*seen, far.run(receive, 7)]


@like_plain_tcp
def check_recvmsg(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    far.sendall(b"0123456789")
    near.recv(10, socket.MSG_PEEK | socket.MSG_WAITALL)
    first, second = bytearray(2), bytearray(3)
    seen: list[Any] = [
        near.recvmsg(4),
        near.recvmsg(1, 1024),
        near.recvmsg(1, 1024, socket.MSG_PEEK),
        near.recvmsg_into([first, second], 64),
        (bytes(first), bytes(second)),
    ]
    far.shutdown(socket.SHUT_WR)
    return [*seen, near.recvmsg(4), near.recvmsg_into([first, second])]


@like_plain_tcp
def check_sendmsg(pair: Pair) -> Any:
    near, far = pair.near, pair.far
    seen: list[Any] = [
        near.sendmsg([b"ab", bytearray(b"cd"), memoryview(b"ef")]),
        near.sendmsg(buffer for buffer in (b"g", b"", b"hi")),
        near.sendmsg([b"jk"], [], socket.MSG_NOSIGNAL),
        outcome(near.sendmsg, ["text"]),
        outcome(near.sendmsg, [b"x"] * 1025),
    ]
    return [*seen, far.run(receive, 11)]


@on_pair
def check_sendmsg_of_many_and_large(pair: Pair) -> None:
    pattern, sizes = Pattern(8), [0, 1, 100_000, 7, 0, 3 * MIB, 4096] + [11] * 500
    total, buffers = 0, []
    for size in sizes:
        buffers.append(memoryview(pattern.at(total, size)))
        total += size
    receiving = pair.far.begin_run(_digest_of, total)
    while buffers:
        sent = pair.near.sendmsg(buffers)
        while buffers and sent >= len(buffers[0]):
            sent -= len(buffers.pop(0))
        if sent:
            buffers[0] = buffers[0][sent:]
    assert receiving.result() == digest(8, total)


def _digest_of(sock: Any, total: int) -> str:
    import hashlib

    return hashlib.sha1(receive(sock, total)).hexdigest()


@on_pair
def check_recvmsg_into_of_many(pair: Pair) -> None:
    pattern, total, start = Pattern(9), 5 * MIB, 0
    sending = pair.far.begin("sendall", pattern.at(0, total))
    buffers = [bytearray(size) for size in (1, 70_000, 0, 13, 300_000)]
    while start < total:
        count, ancillary, _, _ = pair.near.recvmsg_into(buffers)
        assert count and not ancillary
        joined = b"".join(buffers)[:count]
        pattern.verify(start, joined)
        start += count
    sending.result()


@like_plain_tcp
def check_descriptors_do_not_travel_over_tcp(pair: Pair) -> Any:
    """SCM_RIGHTS on a TCP stream is ignored; it must not work by accident either."""
    import array

    with tempfile.TemporaryFile() as file:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file.fileno()]))]
        seen = [outcome(pair.near.sendmsg, [b"x"], rights)]
    return [*seen, pair.far.recvmsg(10, 1024)]


def _file(size: int, seed: int) -> Any:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(Pattern(seed).at(0, size))
    file.seek(0)
    return file


@on_pair
def check_sendfile(pair: Pair) -> None:
    size = 3 * MIB + 17
    with _file(size, 10) as file:
        receiving = pair.far.begin_run(_digest_of, size)
        assert pair.near.sendfile(file) == size
        assert file.tell() == size
        assert receiving.result() == digest(10, size)
        assert pair.near.sendfile(file, offset=100, count=1000) == 1000
        assert file.tell() == 1100
        assert pair.far.run(receive, 1000) == Pattern(10).at(100, 1000)
        assert pair.near.sendfile(file, offset=size) == 0
        assert outcome(pair.near.sendfile, file, 0, -1) == "ValueError"


@on_pair
def check_sendfile_with_a_timeout(pair: Pair) -> None:
    size = 5 * MIB
    pair.near.settimeout(20)
    with _file(size, 11) as file:
        receiving = pair.far.begin_run(_digest_of, size)
        assert pair.near.sendfile(file) == size
        assert receiving.result() == digest(11, size)


@on_pair
def check_sendfile_begins_at_the_offset(pair: Pair) -> None:
    """sendfile(2) does not ask how far the file was read or written."""
    with _file(1000, 15) as file:
        file.seek(600)
        assert pair.near.sendfile(file) == 1000
        assert file.tell() == 1000
        assert pair.far.run(receive, 1000) == Pattern(15).at(0, 1000)


@like_plain_tcp
def check_sendfile_refusals(pair: Pair) -> Any:
    near = pair.near
    with _file(10, 12) as file:
        text = io.TextIOWrapper(io.BytesIO(b"x"))
        seen = [outcome(near.sendfile, text)]
        near.setblocking(False)
        seen.append(outcome(near.sendfile, file))
    return seen


@on_pair
def check_sendfile_of_no_real_file(pair: Pair) -> None:
    data = Pattern(13).at(0, 200_000)
    receiving = pair.far.begin_run(_digest_of, len(data))
    assert pair.near.sendfile(io.BytesIO(data)) == len(data)
    assert receiving.result() == digest(13, len(data))


@on_pair
def check_sendfile_in_order_with_sends(pair: Pair) -> None:
    with _file(100_000, 14) as file:
        receiving = pair.far.begin_run(receive, 100_010)
        pair.near.sendall(b"first")
        pair.near.sendfile(file)
        pair.near.sendall(b"after")
        assert receiving.result() == b"first" + Pattern(14).at(0, 100_000) + b"after"


@on_pair
def check_makefile_lines(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with near.makefile("rwb") as stream:
        far.sendall(b"one\ntwo\nthree")
        assert stream.readline() == b"one\n"
        assert stream.readline() == b"two\n"
        stream.write(b"answer\n")
        stream.flush()
        assert far.run(receive, 7) == b"answer\n"
        far.shutdown(socket.SHUT_WR)
        assert stream.readline() == b"three"
        assert stream.readline() == b""


@on_pair
def check_makefile_text_and_modes(pair: Pair) -> None:
    near, far = pair.near, pair.far
    with near.makefile("w", encoding="utf-8", newline="\n") as out:
        assert out.mode == "w"
        print("grüße", file=out)
    assert far.run(receive, 8) == "grüße\n".encode()
    far.sendall("später\n".encode())
    with near.makefile(encoding="utf-8") as lines:
        assert next(iter(lines)) == "später\n"
    with near.makefile("rb", buffering=0) as raw:
        far.sendall(b"abc")
        assert raw.readable() and not raw.writable() and not raw.seekable()
        assert raw.fileno() == near.fileno()
        buffer = bytearray(2)
        assert raw.readinto(buffer) == 2 and buffer == b"ab"
        assert raw.read(5) == b"c"
    assert outcome(near.makefile, "x") == "ValueError"


@on_pair
def check_makefile_keeps_the_connection(pair: Pair) -> None:
    near, far = pair.near, pair.far
    stream = near.makefile("rwb")
    near.close()
    stream.write(b"still here")
    stream.flush()
    assert far.run(receive, 10) == b"still here"
    far.sendall(b"reply")
    assert stream.read(5) == b"reply"
    stream.close()
    assert far.recv(1) == b""


@on_pair
def check_makefile_timeout(pair: Pair) -> None:
    pair.near.settimeout(0.02)
    with pair.near.makefile("rb") as stream:
        assert outcome(stream.read, 1) == "TimeoutError"
        try:
            stream.read(1)
        except OSError as error:
            assert "timed out" in str(error)


@on_pair
def check_makefile_reads_much(pair: Pair) -> None:
    size = 7 * MIB + 3
    sending = pair.far.begin("sendall", Pattern(15).at(0, size))
    with pair.near.makefile("rb") as stream:
        Pattern(15).verify(0, stream.read(size))
    sending.result()
    with pair.near.makefile("wb") as stream:
        receiving = pair.far.begin_run(_digest_of, size)
        stream.write(Pattern(16).at(0, size))
        stream.flush()
    assert receiving.result() == digest(16, size)


@like_plain_tcp
def check_object_manners(pair: Pair) -> Any:
    near, sockets = pair.near, pair.maker.sockets
    assert isinstance(near, sockets.socket)
    assert isinstance(near, socket.socket)
    assert weakref.ref(near)() is near
    assert bool(near) and hash(near) == hash(near)
    text = repr(near)
    assert f"fd={near.fileno()}" in text and "family=" in text and "laddr=" in text and "raddr=" in text
    return [
        near.family,
        near.type,
        near.proto,
        near.get_inheritable(),
        outcome(pickle.dumps, near),
        sorted(name for name in dir(socket.socket) if not hasattr(near, name)),
    ]


@on_pair
def check_context_manager_closes(pair: Pair) -> None:
    with pair.near as entered:
        assert entered is pair.near
    assert pair.near.fileno() == -1
    assert "[closed]" in repr(pair.near)
    assert pair.far.recv(1) == b""


@on_pair
def check_garbage_closes(pair: Pair) -> None:
    """The last reference going away closes the connection, with the ResourceWarning that sockets give."""
    import gc
    import warnings

    with pair.maker.listener() as listener:
        connecting = pair.far.process.begin(_connect_more, pair.maker.away, listener.getsockname())
        accepted = listener.accept()[0]
        connecting.result()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del accepted
        gc.collect()
    assert [each.category for each in caught] == [ResourceWarning]
    assert pair.far.process.run(_receive_more) == b""


@on_pair
def check_garbage_gives_its_memory_back(pair: Pair) -> None:
    """What is dropped keeps no memory, and the other end hears of it in a call that does not wait."""
    import gc
    import warnings

    def mapped() -> int:
        with open("/proc/self/maps") as file:
            return sum("memfd:" in line for line in file)

    with pair.maker.listener() as listener, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for number in range(2 * ENOUGH_DROPPED):
            connecting = pair.far.process.begin(_connect_more, pair.maker.away, listener.getsockname())
            accepted = listener.accept()[0]
            connecting.result()
            if number == ENOUGH_DROPPED:
                before = mapped()
            del accepted
            gc.collect()
            assert pair.far.process.run(_receive_once_more) == b""
    assert mapped() <= before + 2


ENOUGH_DROPPED = 20  # more than the segments that are kept for the next connection


def _receive_once_more(here: Any) -> bytes:
    with here.more:
        until_readable(here.more)
        return here.more.recv(1, socket.MSG_DONTWAIT)


def _connect_more(here: Any, maker: Any, address: Any) -> None:
    here.more = maker.connect(address)


def _receive_more(here: Any) -> bytes:
    with here.more:
        return receive_all(here.more)


@like_plain_tcp
def check_read_and_write_by_descriptor_polls(pair: Pair) -> Any:
    """select.select takes the object itself."""
    readable, writable, _ = select.select([pair.near], [pair.near], [], 0)
    pair.far.sendall(b"x")
    later, _, _ = select.select([pair.near], [], [], 10)
    return len(readable), len(writable), len(later), os.fstat(pair.near.fileno()).st_mode
