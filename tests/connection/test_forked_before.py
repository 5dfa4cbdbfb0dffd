"""A socket that a forked child or a duplicate has before it is connected: whatever goes by either is TCP's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..helpers.comparing import Programs

# Three processes: a server, the one that connects, and a child that got the socket before.
PROGRAM = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    stream, _ = server.accept()
    for _ in range(60):
        stream.sendall(stream.recv(1))
    stream.settimeout(20)
    got = stream.recv(4, socket.MSG_WAITALL)
    stream.sendall(got.upper())
    assert stream.recv(1) == b""
    os._exit(got != b"line")
stream = socket.socket()
reads, writes = os.pipe()
if os.fork() == 0:
    os.close(writes)
    os.read(reads, 1)
    FIRST
    stream.send(b"line")
    os._exit(0)
SECOND
for _ in range(60):
    stream.send(b"x")
    assert stream.recv(1) == b"x"
os.write(writes, b"g")
print(stream.recv(4, socket.MSG_WAITALL))
stream.close()
print(sorted(os.wait()[1] for _ in range(2)))
"""


@pytest.mark.parametrize(
    "second", ["stream.connect(server.getsockname())", "assert stream.connect_ex(server.getsockname()) == 0"]
)
def test_what_the_child_sends_comes(second: str, tmp_path: Path) -> None:
    programs = Programs.inside_of(tmp_path)
    programs.variables["FASTSOCK_UPGRADE_AFTER"] = "3"
    programs.write("app.py", PROGRAM.replace("FIRST", "pass").replace("SECOND", second))
    expected = programs.run("app.py")
    assert expected.stdout == "b'LINE'\n[0, 0]\n"
    seen = programs.launched("app.py")
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, expected.stdout, "")


def test_a_socket_that_was_made_after_the_fork_gains_memory(tmp_path: Path) -> None:
    programs = Programs.inside_of(tmp_path)
    programs.variables["FASTSOCK_UPGRADE_AFTER"] = "3"
    text = PROGRAM.replace("FIRST", "os._exit(0)").replace(
        "SECOND", "stream.close(); stream = socket.create_connection(server.getsockname())"
    )
    gate = 'os.write(writes, b"g")'
    text = text.replace(gate, f'print(stream.transport); stream.send(b"line"); {gate}')
    programs.write("app.py", text)
    seen = programs.launched("app.py")
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "shm\nb'LINE'\n[0, 0]\n", "")


DUPLICATES = """
import os, socket
server = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    stream, _ = server.accept()
    for _ in range(60):
        stream.sendall(stream.recv(1))
    stream.settimeout(20)
    stream.sendall(stream.recv(4, socket.MSG_WAITALL).upper())
    os._exit(stream.recv(1) != b"")
stream = socket.socket()
MADE
stream.connect(server.getsockname())
for _ in range(60):
    stream.send(b"x")
    assert stream.recv(1) == b"x"
other.settimeout(20)
other.send(b"line")
print(other.recv(4, socket.MSG_WAITALL))
other.close()
stream.close()
print(os.wait()[1])
"""


@pytest.mark.parametrize(
    "made",
    [
        "other = stream.dup()",
        "other = socket.socket(fileno=os.dup(stream.fileno()))",
        "stream, other = stream.dup(), stream",
    ],
)
def test_a_duplicate_that_was_made_before(made: str, tmp_path: Path) -> None:
    programs = Programs.inside_of(tmp_path)
    programs.variables["FASTSOCK_UPGRADE_AFTER"] = "3"
    programs.write("app.py", DUPLICATES.replace("MADE", made))
    seen = programs.launched("app.py")
    assert (seen.returncode, seen.stdout, seen.stderr) == (0, "b'LINE'\n0\n", "")
