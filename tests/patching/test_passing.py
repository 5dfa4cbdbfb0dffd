"""Connections that are given to other processes: SCM_RIGHTS, multiprocessing, exec, subprocess.

Each program runs in plain Python, which is the reference, and under the launcher on each path.
"""

from __future__ import annotations

import shutil

import pytest

from ..helpers.paths import carriers_of
from ..helpers.scripts import Script

_CONNECT = """
import array, hashlib, os, socket, subprocess, sys
def exactly(sock, count):
    data = b""
    while len(data) < count:
        block = sock.recv(count - len(data))
        if not block: break
        data += block
    return data
"""

# A client that speaks a fixed dialogue with whoever serves it, and tells which path it took.
_CLIENT = (
    _CONNECT
    + """
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
tell(getattr(sock, "transport", "plain"))
sock.sendall(b"before")
hear()
sock.sendall(b"after")
tell(exactly(sock, 5).decode())
big = bytes(range(256)) * 8192
sock.sendall(big)
sock.shutdown(socket.SHUT_WR)
digest = hashlib.sha1()
count = 0
while block := sock.recv(65536):
    digest.update(block)
    count += len(block)
tell([count, digest.hexdigest() == hashlib.sha1(big).hexdigest()])
"""
)

# What the process that was given the connection does with it.
_SERVE = """
def serve(sock):
    assert exactly(sock, 11) == b"beforeafter"
    sock.sendall(b"hello")
    while block := sock.recv(65536):
        sock.sendall(block)
    sock.close()
"""

# The same by descriptor number 0 in a program that imports no socket.
_SERVE_STANDARD_INPUT = """
import os
def exactly(count):
    data = b""
    while len(data) < count:
        data += os.read(0, count - len(data))
    return data
assert exactly(11) == b"beforeafter"
os.write(0, b"hello")
while block := os.read(0, 65536):
    while block:
        block = block[os.write(0, block):]
"""


def _converse(kind, server_text, *arguments, may_stay=False):
    """A client's dialogue with a server program that accepts one connection and gives it away.

    may_stay: whether the connection may stay on TCP.
    """
    with Script(kind, _CONNECT + _SERVE + server_text, *arguments) as server:
        port = server.hear()
        with Script(kind, _CLIENT, str(port)) as client:
            took = client.hear()
            assert took in carriers_of(kind) or (may_stay and took == "tcp")
            server.hear()
            client.tell("go on")
            assert client.hear() == "hello"
            assert client.hear() == [256 * 8192, True]
            assert client.finish() == 0
        assert server.finish() == 0


_ACCEPT = """
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
sock, _ = listener.accept()
assert sock.recv(1, socket.MSG_PEEK)
"""


def test_rights_to_another_process(kind):
    """SCM_RIGHTS over an AF_UNIX socket pair, with bytes unread."""
    _converse(
        kind,
        _ACCEPT
        + """
here, there = socket.socketpair()
pid = os.fork()
if not pid:
    status = 1
    try:
        here.close()
        listener.close()
        sock.close()
        _, descriptors, _, _ = socket.recv_fds(there, 10, 4)
        serve(socket.socket(fileno=descriptors[0]))
        status = 0
    finally:
        os._exit(status)
there.close()
socket.send_fds(here, [b"take"], [sock.fileno()])
sock.close()
tell("given")
assert os.waitpid(pid, 0)[1] == 0
""",
    )


def test_rights_by_sendmsg(kind):
    _converse(
        kind,
        _ACCEPT
        + """
here, there = socket.socketpair()
pid = os.fork()
if not pid:
    status = 1
    try:
        here.close()
        sock.close()
        data, ancillary, _, _ = there.recvmsg(1, socket.CMSG_SPACE(4))
        number = array.array("i", ancillary[0][2])[0]
        serve(socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM))
        status = 0
    finally:
        os._exit(status)
rights = array.array("i", [sock.fileno()])
here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
sock.close()
tell("given")
assert os.waitpid(pid, 0)[1] == 0
""",
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(kind, method, tmp_path):
    """A socket as an argument of a Process and through a Pipe, by each way of starting."""
    module = tmp_path / "serving.py"
    module.write_text(
        "import socket\n"
        + _CONNECT
        + _SERVE
        + "def child(pipe):\n    serve(pipe.recv())\ndef direct(sock):\n    serve(sock)\n"
    )
    for through_pipe in (True, False):
        giving = (
            "process = context.Process(target=serving.child, args=(there,)); process.start(); "
            "there.close(); here.send(sock)"
            if through_pipe
            else "process = context.Process(target=serving.direct, args=(sock,)); process.start()"
        )
        _converse(
            kind,
            _ACCEPT
            + f"""
import multiprocessing
sys.path.insert(0, {str(tmp_path)!r})
os.environ["PYTHONPATH"] = {str(tmp_path)!r} + os.pathsep + os.environ["PYTHONPATH"]
import serving
context = multiprocessing.get_context({method!r})
here, there = context.Pipe()
{giving}
tell("given")
process.join()
assert process.exitcode == 0, process.exitcode
sock.close()
""",
        )


def test_standard_input_of_a_python_child(kind):
    _converse(
        kind,
        _ACCEPT
        + f"""
child = subprocess.Popen([sys.executable, "-c", {_SERVE_STANDARD_INPUT!r}], stdin=sock)
sock.close()
tell("given")
assert child.wait() == 0
""",
    )


@pytest.mark.parametrize("program", ["cat", "sh"])
def test_standard_streams_of_a_program(kind, program):
    """cat and a shell echo what they read from the connection: nothing of Python in them."""
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    command = ["cat"] if program == "cat" else ["sh", "-c", "exec cat"]
    _converse(
        kind,
        _ACCEPT
        + f"""
tell("given")
assert exactly(sock, 11) == b"beforeafter"
sock.sendall(b"hello")
child = subprocess.Popen({command!r}, stdin=sock, stdout=sock)
sock.close()
assert child.wait() == 0
""",
    )


def test_inherited_over_exec(kind):
    """The server replaces itself by another program that goes on with the number."""
    text = (
        _CONNECT
        + _SERVE
        + """
os.write(int(sys.argv[2]), b'"given"\\n')
serve(socket.socket(fileno=int(sys.argv[1])))
"""
    )
    _converse(
        kind,
        _ACCEPT
        + f"""
for number in (sock.fileno(), _TELLING):
    os.set_inheritable(number, True)
os.execv(sys.executable, [sys.executable, "-c", {text!r}, str(sock.fileno()), str(_TELLING)])
""",
    )


def test_inherited_over_exec_by_a_program(kind):
    _converse(
        kind,
        _ACCEPT
        + """
tell("given")
assert exactly(sock, 11) == b"beforeafter"
sock.sendall(b"hello")
number = sock.fileno()
os.set_inheritable(number, True)
os.execvp("sh", ["sh", "-c", f"exec cat <&{number} >&{number}"])
""",
    )


def test_passed_descriptor(kind):
    text = _CONNECT + _SERVE + "serve(socket.socket(fileno=int(sys.argv[1])))"
    _converse(
        kind,
        _ACCEPT
        + f"""
number = sock.fileno()
child = subprocess.Popen([sys.executable, "-c", {text!r}, str(number)], pass_fds=[number])
sock.close()
tell("given")
assert child.wait() == 0
""",
    )


def test_passed_to_plain_python(kind):
    """The child does not know fastsock at all (-I ignores the environment)."""
    text = _CONNECT + _SERVE + "serve(socket.socket(fileno=int(sys.argv[1])))"
    _converse(
        kind,
        _ACCEPT
        + f"""
number = sock.fileno()
child = subprocess.Popen([sys.executable, "-I", "-c", {text!r}, str(number)], pass_fds=[number])
sock.close()
tell("given")
assert child.wait() == 0
""",
    )


def test_spawned_with_file_actions(kind):
    _converse(
        kind,
        _ACCEPT
        + f"""
pid = os.posix_spawn(
    sys.executable,
    [sys.executable, "-c", {_SERVE_STANDARD_INPUT!r}],
    os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, sock.fileno(), 0)],
)
sock.close()
tell("given")
assert os.waitpid(pid, 0)[1] == 0
""",
    )


def test_client_gives_its_connection_away(kind):
    """The connecting end is handed to a child instead."""
    with Script(
        kind,
        _CONNECT
        + _SERVE
        + """
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
sock, _ = listener.accept()
tell(getattr(sock, "transport", "plain"))
serve(sock)
""",
    ) as server:
        port = server.hear()
        dialogue = """
import os
os.write(0, b"beforeafter")
data = b""
while len(data) < 5:
    data += os.read(0, 5 - len(data))
assert data == b"hello", data
os.write(0, b"x" * 100_000)
data = b""
while len(data) < 100_000:
    data += os.read(0, 65536)
assert data == b"x" * 100_000
"""
        with Script(
            kind,
            _CONNECT
            + f"""
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
child = subprocess.Popen([sys.executable, "-c", {dialogue!r}], stdin=sock)
sock.close()
tell(child.wait())
""",
            str(port),
        ) as client:
            assert server.hear() in carriers_of(kind)
            assert client.hear() == 0
        assert server.finish() == 0


def test_listener_given_to_a_child(kind):
    """A listener's descriptor passed on, as by a supervisor: the child accepts on it."""
    text = (
        _CONNECT
        + _SERVE
        + """
listener = socket.socket(fileno=int(sys.argv[1]))
sock, _ = listener.accept()
serve(sock)
"""
    )
    _converse(
        kind,
        f"""
listener = socket.create_server(("127.0.0.1", 0))
number = listener.fileno()
child = subprocess.Popen([sys.executable, "-c", {text!r}, str(number)], pass_fds=[number])
port = listener.getsockname()[1]
listener.close()
tell(port)
tell("given")
assert child.wait() == 0
""",
        may_stay=True,
    )
