"""fastsock.install() and uninstall(): what they change, what they warn of, what they put back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..helpers.comparing import Programs, environment


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.inside_of(tmp_path)


SNAPSHOT = """
import builtins, fcntl, os, socket, subprocess, sys, _posixsubprocess
def everything():
    found = {}
    for module in (os, fcntl, socket, subprocess, _posixsubprocess, builtins):
        found.update({(module.__name__, name): value for name, value in vars(module).items()})
    found.update({("class", name): value for name, value in vars(plain[0]).items()})
    found.update({("environ", name): value for name, value in os.environ.items()})
    found["sys.path"] = list(sys.path)
    return found
plain = [socket.socket]
def differences(before, after):
    return sorted(map(str, (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))))
"""


def run(script: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", script]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=60)


def check(script: str, *options: str, **variables: str) -> None:
    """Run a script of assertions in a process of its own, with warnings as errors."""
    done = run(script, "-W", "error", *options, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_replaces_the_class_alone() -> None:
    """The module's functions look the class, and each other, up there when they are called: a test may mock one."""
    check("""
import socket, fastsock
from fastsock import socket as fast
before = dict(vars(socket))
fastsock.install()
assert socket.socket is fast.socket
changed = {name for name, value in vars(socket).items() if before.get(name) is not value}
assert changed == {"socket", "dup", "close"}, changed
with socket.socket() as sock: assert isinstance(sock, before["socket"])
""")


def test_sockets_of_every_maker_are_fast() -> None:
    check("""
import fastsock; fastsock.install()
import socket, threading
from fastsock.socket import socket as fast
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    accepted, _ = server.accept()
    for sock in (server, client, accepted): assert type(sock) is fast
    accepted.close()
for sock in socket.socketpair(): assert type(sock) is fast; sock.close()
""")


def test_uninstall_puts_everything_back() -> None:
    check(
        SNAPSHOT
        + """
import fastsock
before = everything()
for _ in range(3):
    fastsock.install()
    assert socket.socket is not plain[0]
    assert differences(before, everything())
    fastsock.uninstall()
    after = everything()
    assert not differences(before, after), differences(before, after)
"""
    )


def test_both_are_idempotent() -> None:
    check(
        SNAPSHOT
        + """
import fastsock
before = everything()
fastsock.uninstall()
assert not differences(before, everything())
fastsock.install()
once = everything()
fastsock.install()
assert not differences(once, everything())
fastsock.uninstall()
fastsock.uninstall()
assert not differences(before, everything())
"""
    )


def test_what_was_imported_meanwhile_is_put_back() -> None:
    check("""
import sys, fastsock
fastsock.install()
import subprocess, multiprocessing.reduction as reduction, _posixsubprocess, socket
fast = socket.socket
assert fast in reduction.ForkingPickler._extra_reducers
fastsock.uninstall()
if sys.version_info >= (3, 11):
    assert subprocess._fork_exec is _posixsubprocess.fork_exec
assert type(_posixsubprocess.fork_exec) is type(len)
assert socket.socket in reduction.ForkingPickler._extra_reducers
assert fast not in reduction.ForkingPickler._extra_reducers
""")


def test_guards_stay_while_a_connection_needs_them() -> None:
    check(
        """
import os, fastsock
original = os.read
fastsock.install()
import socket
from fastsock import core
from fastsock.patching import descriptor_table
if core.available:
    with socket.create_server(("127.0.0.1", 0)) as server:
        import threading
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(server.accept()[0]))
        thread.start()
        with socket.create_connection(server.getsockname()) as client:
            thread.join()
            fast = bool(descriptor_table.descriptors())
            fastsock.uninstall()
            accepted[0].sendall(b"payload")
            assert os.read(client.fileno(), 7) == b"payload"
            assert (os.read is original) == (not fast)
            fastsock.install()
        accepted[0].close()
fastsock.uninstall()
assert os.read is original
""",
        FASTSOCK_MEETING_MS="10000",
    )


def test_guards_without_installing() -> None:
    """A program that only uses fastsock.socket gets them with its first fast connection, and only once."""
    check(
        """
import os, threading
original = os.read
from fastsock import attach, core, socket
assert os.read is original
if core.available:
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = []
        thread = threading.Thread(target=lambda: accepted.append(server.accept()[0]))
        thread.start()
        with socket.create_connection(server.getsockname()) as client:
            thread.join()
            settling = threading.Thread(target=attach, args=(accepted[0], 30))
            settling.start()
            attach(client, 30)
            settling.join()
            assert client.transport == "shm", client.transport
            accepted[0].sendall(b"payload")
            assert os.read(client.fileno(), 7) == b"payload"
            guarded = os.read
            assert guarded is not original
            import fastsock
            fastsock.install()
            assert os.read is guarded
            fastsock.uninstall()
            assert os.read is guarded
        accepted[0].close()
""",
        FASTSOCK_MEETING_MS="10000",
    )


def test_warns_of_modules_that_have_the_plain_class() -> None:
    done = run("""
import sys, types, ssl, socketserver, http.client, asyncio
from socket import socket as Taken
mine = types.ModuleType("mine")
mine.Sock = Taken
sys.modules["mine"] = mine
class Sub(Taken): pass
class Deeper(Sub): pass
import logging; logging.basicConfig(format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
import warnings
import fastsock
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fastsock.install()
    fastsock.install()
[warning] = caught
print(warning.category.__module__, warning.category.__name__, warning.filename, warning.lineno)
print(warning.message)
assert issubclass(warning.category, RuntimeWarning)
""")
    assert done.stderr == ""
    logged, where, text = done.stdout.splitlines()
    for name in ("__main__.Taken", "mine.Sock", "ssl.socket", "class ssl.SSLSocket", "class __main__.Sub", ".Deeper"):
        assert name in text
    for name in ("asyncio", "socketserver", "http", "_socket", "fastsock.socket", "socket.socket"):
        assert f" {name}" not in text.replace(" fastsock.install()", "")
    assert "python -m fastsock.launcher" in text
    assert logged == f"fastsock WARNING {text}"
    assert where.startswith("fastsock LateInstallWarning")


def test_warning_names_the_caller() -> None:
    done = run("import ssl\nimport fastsock\n\nfastsock.install()\n")
    assert "<string>:4: LateInstallWarning" in done.stderr or "<stdin>:4" in done.stderr, done.stderr


def test_no_warning_when_nothing_was_taken() -> None:
    check("""
import socket, selectors, select, threading, subprocess, multiprocessing.reduction, fastsock
fastsock.install()
import ssl
assert ssl.socket is socket.socket
assert issubclass(ssl.SSLSocket, socket.socket)
""")


def test_a_warning_made_an_error_leaves_nothing_changed() -> None:
    check(
        SNAPSHOT
        + """
import ssl, fastsock
from fastsock import LateInstallWarning
before = everything()
try:
    fastsock.install()
except LateInstallWarning:
    pass
else:
    raise AssertionError
assert not differences(before, everything()), differences(before, everything())
"""
    )


def test_a_wrong_setting_leaves_nothing_changed() -> None:
    check(
        SNAPSHOT
        + """
import fastsock
from fastsock.config import ConfigError
os.environ["FASTSOCK_TRANSPORTS"] = "nonsense"
before = everything()
try:
    fastsock.install()
except ConfigError as error:
    assert "nonsense" in str(error)
else:
    raise AssertionError
assert not differences(before, everything()), differences(before, everything())
"""
    )


def test_what_somebody_else_replaced_since_is_left() -> None:
    done = run("""
import logging, sys; logging.basicConfig(format="%(message)s", stream=sys.stdout)
import socket, fastsock
fastsock.install()
class Theirs(socket.socket): pass
socket.socket = Theirs
fastsock.uninstall()
assert socket.socket is Theirs
import os
assert type(os.read) is type(len)
""")
    assert (done.returncode, done.stderr) == (0, "")
    assert "socket.socket" in done.stdout


def test_children_of_an_installing_program_are_covered(programs: Programs) -> None:
    text = """
import os, subprocess, sys, fastsock
show = [sys.executable, "-c", "import socket; print('fastsock.' * hasattr(socket.socket, 'transport') + 'socket')"]
fastsock.install()
subprocess.run(show, check=True)
fastsock.uninstall()
subprocess.run(show, check=True)
from importlib import import_module
import_module("fastsock.launching.installation").install(children=False)
subprocess.run(show, check=True)
"""
    programs.write("app.py", text)
    outcome = programs.run("app.py")
    assert outcome.stdout.split() == ["fastsock.socket", "socket", "socket"], outcome.stderr


@pytest.mark.parametrize("module", ["ssl", "asyncio", "multiprocessing.connection", "http.server", "xmlrpc.client"])
def test_modules_imported_afterwards_use_it(module: str) -> None:
    check(f"""
import fastsock; fastsock.install()
import {module}, sys, socket
held = [v for v in vars(sys.modules[{module!r}]).values() if isinstance(v, type) and v.__name__ == "socket"]
assert all(v is socket.socket for v in held), held
""")


MAPPED = """
import ctypes, sys
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks u f k".split()]
library = ctypes.CDLL(None)
if not hasattr(library, "mallinfo2"):
    sys.exit(77)
library.mallinfo2.restype = Info
before = library.mallinfo2().hblks
kept = bytes(256 << 10)  # as asyncio's receive asks for
print(library.mallinfo2().hblks - before)
"""


@pytest.mark.parametrize(
    ("first", "variables", "mapped"),
    [
        ("", {}, "1"),
        ("import fastsock; fastsock.install()", {}, "0"),
        ("import fastsock; fastsock.install()", {"MALLOC_TRIM_THRESHOLD_": "131072"}, "1"),
    ],
    ids=["plain", "installed", "the user decides"],
)
def test_the_memory_of_a_receive_is_kept_for_the_next(first: str, variables: dict[str, str], mapped: str) -> None:
    done = run(f"{first}\n{MAPPED}", **variables)
    if done.returncode == 77:
        pytest.skip("this C library does not tell what it has mapped")
    assert (done.stdout, done.stderr) == (f"{mapped}\n", "")
