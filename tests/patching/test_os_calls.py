"""What replaces os.read and its kin, and what starts other processes: what each asks of the registry, and what not.

Real connections by number are in test_os_calls_in_programs.py and test_passing.py.
"""

from __future__ import annotations

import _posixsubprocess
import errno
import fcntl
import inspect
import os
import pickle
import shlex
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

from fastsock.patching import guards, os_calls, passing
from fastsock.patching.patches import Patches, is_replacement

from ..helpers.comparing import PACKAGE_PARENT, environment


class Channel(socket.socket):
    """A channel has sendmsg without ancillary data."""

    def sendmsg(self, buffers: list[Any], flags: int = 0) -> int:  # type: ignore[override]
        return super().sendmsg(buffers, (), flags)


class StandIn:
    """A registry whose fast connections carry their bytes beside the descriptor, in a socket pair."""

    def __init__(self) -> None:
        self._channels: dict[int, Channel] = {}
        self.channel_of = self._channels.get
        self.forgotten: list[int] = []

    def descriptors(self) -> list[int]:
        return list(self._channels)

    def attach(self, fd: int, channel: Channel) -> None:
        self._channels[fd] = channel

    def release(self, fd: int) -> None:
        channel = self._channels.pop(fd, None)
        if channel is not None:
            _dup2(channel.fileno(), fd, os.get_inheritable(fd))

    def share(self, fd: int) -> None:
        self.release(fd)

    def duplicated(self, fd: int, number: int) -> None:
        assert fd not in self._channels

    def forget(self, fd: int) -> None:
        del self._channels[fd]
        self.forgotten.append(fd)

    def is_fast(self, fd: int) -> bool:
        return fd in self._channels


_dup2 = os.dup2
_PLAIN = socket.socket


class Connection:
    """A descriptor ``fd`` that is fast by the stand-in's word, and the far end of what it carries."""

    def __init__(self, registry: StandIn) -> None:
        self.registry = registry
        self.bell, self.far_bell = socket.socketpair()
        channel, self.far = socket.socketpair()
        self.channel = Channel(fileno=channel.detach())
        self.fd = self.bell.fileno()
        registry.attach(self.fd, self.channel)

    def close(self) -> None:
        for sock in (self.bell, self.far_bell, self.channel, self.far):
            sock.close()


@pytest.fixture
def unguarded() -> Iterator[None]:
    """An earlier test of this process may have had a fast connection, for which these functions were replaced."""
    guarded = is_replacement(os.read)
    guards.withdraw()
    yield
    if guarded:
        guards.activate()


@pytest.fixture
def registry(unguarded: None) -> Iterator[StandIn]:
    made, patches = StandIn(), Patches()
    os_calls.patch(patches, made)
    passing.patch(patches, made)
    passing.patch_sendmsg(patches, _PLAIN, made)
    try:
        yield made
    finally:
        assert patches.undo() == []


@pytest.fixture
def fast(registry: StandIn) -> Iterator[Connection]:
    connection = Connection(registry)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


# Reading and writing


def test_read(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    assert os.read(fast.fd, 3) == b"pay"
    assert os.read(fast.fd, 100) == b"load"
    assert os.read(fast.fd, 0) == b""
    fast.far.close()
    assert os.read(fast.fd, 1) == b""


def test_write(fast: Connection) -> None:
    assert os.write(fast.fd, b"pay") == 3
    assert os.write(fast.fd, memoryview(b"load")) == 4
    assert fast.far.recv(100) == b"payload"


def test_a_raw_call_blocks_if_the_descriptor_does(fast: Connection) -> None:
    os.set_blocking(fast.fd, False)
    with pytest.raises(BlockingIOError):
        os.read(fast.fd, 1)
    with pytest.raises(BlockingIOError):
        os.readv(fast.fd, [bytearray(1)])
    with pytest.raises(BlockingIOError):
        while True:
            os.write(fast.fd, bytes(65536))
    with pytest.raises(BlockingIOError):
        os.writev(fast.fd, [bytes(65536)])


def test_readv_spreads_what_is_there(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    first, second, third = bytearray(3), bytearray(2), bytearray(b"......")
    assert os.readv(fast.fd, [first, memoryview(second).cast("H"), third]) == 7
    assert (first, second, third) == (b"pay", b"lo", b"ad....")


def test_readv_refuses_what_readv_refuses(fast: Connection, pipe: tuple[int, int]) -> None:
    fast.far.sendall(b"payload")
    strided = memoryview(bytearray(10))[::2]
    for buffers in ([b"read-only"], [bytearray(1), b"read-only"], [strided], None, 1, [1], iter([bytearray(1)])):
        with pytest.raises((TypeError, BufferError)) as plain:
            os.readv(pipe[0], buffers)
        with pytest.raises((TypeError, BufferError)) as guarded:
            os.readv(fast.fd, buffers)
        assert type(guarded.value) is type(plain.value)
    assert os.read(fast.fd, 100) == b"payload"


def test_writev(fast: Connection) -> None:
    assert os.writev(fast.fd, [b"pay", bytearray(b"lo"), memoryview(b"ad")]) == 7
    assert os.writev(fast.fd, (b"!",)) == 1
    assert fast.far.recv(100) == b"payload!"


@pytest.mark.parametrize("length", [-1, -(1 << 40)])
def test_negative_length(fast: Connection, pipe: tuple[int, int], length: int) -> None:
    for fd in (pipe[0], fast.fd):
        with pytest.raises(OSError, match="Invalid argument") as error:
            os.read(fd, length)
        assert error.value.errno == errno.EINVAL


def test_other_descriptors_are_left_alone(registry: StandIn, pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    assert os.write(writing, b"payload") == 7
    assert os.read(reading, 3) == b"pay"
    buffer = bytearray(10)
    assert os.readv(reading, [buffer]) == 4
    assert os.writev(writing, [b"a", b"b"]) == 2
    copy = os.dup(reading)
    assert os.read(copy, 2) == b"ab"
    assert os.dup2(writing, copy, inheritable=False) == copy
    os.close(fd=copy)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.read(copy, 1)


@pytest.mark.parametrize("fd", [[], {}, None, "x", 1.5, -1, 1 << 70])
def test_what_is_no_descriptor_is_refused_as_before(registry: StandIn, fd: Any) -> None:
    def refusals() -> list[str]:
        found = []
        calls = [
            lambda: os.read(fd, 1),
            lambda: os.write(fd, b"x"),
            lambda: os.readv(fd, [bytearray(1)]),
            lambda: os.writev(fd, [b"x"]),
            lambda: os.sendfile(fd, 0, 0, 1),
            lambda: os.dup(fd),
            lambda: os.dup2(fd, 1000),
            lambda: os.close(fd),
            lambda: os.fdopen(fd),
            lambda: fcntl.fcntl(fd, fcntl.F_DUPFD),
            lambda: socket.close(fd),
            lambda: socket.dup(fd),
        ]
        for call in calls:
            try:
                call()
                found.append("accepted")
            except (OSError, TypeError, ValueError, OverflowError) as error:
                found.append(f"{type(error).__name__}: {error}")
        return found

    source = textwrap.dedent(inspect.getsource(refusals))
    script = f"import os, fcntl, socket\nfd = {fd!r}\n{source}print(refusals())"
    unguarded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert f"{refusals()}\n" == unguarded.stdout


# sendfile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 4)
    fd = os.open(path, os.O_RDONLY)
    try:
        yield fd
    finally:
        os.close(fd)


CONTENT = bytes(range(256)) * 4


def test_sendfile_by_offset(fast: Connection, file: int) -> None:
    assert os.sendfile(fast.fd, file, 1000, 10_000) == 24
    assert os.sendfile(out_fd=fast.fd, in_fd=file, offset=2, count=3) == 3
    assert os.sendfile(fast.fd, file, 5000, 1) == 0
    assert os.sendfile(fast.fd, file, 0, 0) == 0
    assert fast.far.recv(1000) == CONTENT[1000:] + CONTENT[2:5]
    assert os.lseek(file, 0, os.SEEK_CUR) == 0


def test_sendfile_from_the_file_s_position(fast: Connection, file: int) -> None:
    os.lseek(file, 10, os.SEEK_SET)
    assert os.sendfile(fast.fd, file, None, 20) == 20
    assert os.lseek(file, 0, os.SEEK_CUR) == 30
    assert fast.far.recv(1000) == CONTENT[10:30]


def test_sendfile_stops_where_it_would_block(fast: Connection, tmp_path: Path) -> None:
    size = 8 << 20
    with open(tmp_path / "large", "wb+") as large:
        large.truncate(size)
        fast.bell.setblocking(False)
        sent = os.sendfile(fast.fd, large.fileno(), None, size)
        assert 0 < sent < size
        assert os.lseek(large.fileno(), 0, os.SEEK_CUR) == sent
        with pytest.raises(BlockingIOError):
            os.sendfile(fast.fd, large.fileno(), None, size)
        assert os.lseek(large.fileno(), 0, os.SEEK_CUR) == sent


def test_sendfile_refuses_what_the_kernel_refuses(fast: Connection, file: int, pipe: tuple[int, int]) -> None:
    near, far = socket.socketpair()
    with near, far:
        for out in (near.fileno(), fast.fd):
            with pytest.raises(OSError, match="Invalid argument"):
                os.sendfile(out, pipe[0], None, 1)
            with pytest.raises((OSError, ValueError), match=r"Invalid argument|cannot be negative"):
                os.sendfile(out, file, 0, -1)
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.sendfile(out, -1, 0, 1)


# After these the number alone must do


def test_dup(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    copy = os.dup(fast.fd)
    assert not fast.registry.is_fast(fast.fd)
    assert os.read(copy, 3) + os.read(fast.fd, 4) == b"payload"
    os.close(copy)


def test_dup_of_the_socket_module(fast: Connection) -> None:
    os.close(socket.dup(fast.fd))
    assert not fast.registry.is_fast(fast.fd)


def test_dup2_from(fast: Connection, pipe: tuple[int, int]) -> None:
    fast.far.sendall(b"payload")
    copy = os.dup(pipe[0])
    os.dup2(fast.fd, copy)
    assert os.read(copy, 100) == b"payload"
    os.close(copy)


def test_dup2_onto(fast: Connection, pipe: tuple[int, int]) -> None:
    os.dup2(pipe[0], fast.fd)
    assert fast.registry.forgotten == [fast.fd]
    os.write(pipe[1], b"pipe")
    assert os.read(fast.fd, 4) == b"pipe"


def test_dup2_onto_itself(fast: Connection) -> None:
    assert os.dup2(fast.fd, fast.fd) == fast.fd
    assert fast.registry.forgotten == []


def test_fdopen(fast: Connection) -> None:
    fast.far.sendall(b"a line\n")
    with os.fdopen(fast.fd, "rb", closefd=False) as stream:
        assert stream.readline() == b"a line\n"


@pytest.mark.parametrize("command", [fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC])
def test_fcntl_that_duplicates(fast: Connection, command: int) -> None:
    fast.far.sendall(b"payload")
    copy = fcntl.fcntl(fast.bell, command, 20)
    assert copy >= 20
    assert os.read(copy, 100) == b"payload"
    os.close(copy)


def test_fcntl_that_does_not(fast: Connection) -> None:
    flags = fcntl.fcntl(fast.fd, fcntl.F_GETFL)
    fcntl.fcntl(fast.fd, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    assert not os.get_blocking(fast.fd)
    assert fast.registry.is_fast(fast.fd)


@pytest.mark.skipif(not hasattr(os, "splice"), reason="needs os.splice")
def test_splice(fast: Connection, pipe: tuple[int, int]) -> None:
    fast.far.sendall(b"payload")
    assert os.splice(fast.fd, pipe[1], 100) == 7
    assert os.read(pipe[0], 100) == b"payload"


def test_closed_numbers_are_forgotten(registry: StandIn) -> None:
    for close in (os.close, socket.close, lambda fd: os.closerange(fd, fd + 1)):
        connection = Connection(registry)
        close(connection.fd)
        assert registry.forgotten.pop() == connection.fd
        assert registry.descriptors() == []
        connection.bell.detach()
        connection.close()


# What another process gets

READ_ONE = "import os, sys; fd = int(sys.argv[1]); os.write(1, os.read(fd, 100)); os.write(fd, b'answer')"


def child(fd: int) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", READ_ONE, str(fd)]


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_subprocess_standard_descriptors(fast: Connection, name: str) -> None:
    fast.far.sendall(b"payload")
    script = "import os, sys; fd = int(sys.argv[1]); assert os.read(fd, 100) == b'payload'; os.write(fd, b'answer')"
    number = ["stdin", "stdout", "stderr"].index(name)
    subprocess.run([sys.executable, "-c", script, str(number)], check=True, **{name: fast.bell})
    assert fast.far.recv(100) == b"answer"


def test_subprocess_passed_descriptors(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    done = subprocess.run(child(fast.fd), stdout=subprocess.PIPE, pass_fds=[fast.fd], check=True)
    assert done.stdout == b"payload"
    assert fast.far.recv(100) == b"answer"


def test_subprocess_inherited_descriptors(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    fast.bell.set_inheritable(True)
    done = subprocess.run(child(fast.fd), stdout=subprocess.PIPE, close_fds=False, check=True)
    assert done.stdout == b"payload"
    assert fast.far.recv(100) == b"answer"


def test_subprocess_without_it_leaves_it_fast(fast: Connection) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run([sys.executable, "-c", ""], close_fds=False, check=True)
    fast.bell.set_inheritable(True)
    subprocess.run([sys.executable, "-c", ""], check=True)
    assert fast.registry.is_fast(fast.fd)


def test_fork_exec_refuses_what_it_refused(registry: StandIn) -> None:
    for arguments in ((), (1, 2, 3), (None,) * 21):
        with pytest.raises((TypeError, ValueError)):
            _posixsubprocess.fork_exec(*arguments)


def waited(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_posix_spawn_inherits(fast: Connection) -> None:
    fast.bell.set_inheritable(True)
    fast.far.sendall(b"payload")
    to_null = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    assert waited(os.posix_spawn(sys.executable, child(fast.fd), os.environ, file_actions=to_null)) == 0
    assert fast.far.recv(100) == b"answer"


def test_posix_spawn_by_action(fast: Connection) -> None:
    fast.far.sendall(b"payload")
    script = "import os; assert os.read(0, 100) == b'payload'; os.write(0, b'answer')"
    actions = iter([(os.POSIX_SPAWN_DUP2, fast.fd, 0)])
    pid = os.posix_spawnp(sys.executable, [sys.executable, "-c", script], os.environ, file_actions=list(actions))
    assert waited(pid) == 0
    assert fast.far.recv(100) == b"answer"


@pytest.mark.skipif(not hasattr(os, "POSIX_SPAWN_CLOSEFROM"), reason="needs os.POSIX_SPAWN_CLOSEFROM")
def test_posix_spawn_that_closes_the_rest(fast: Connection) -> None:
    fast.bell.set_inheritable(True)
    actions = [(os.POSIX_SPAWN_CLOSEFROM, 3)]  # type: ignore[attr-defined]
    assert waited(os.posix_spawn(sys.executable, [sys.executable, "-c", ""], os.environ, file_actions=actions)) == 0
    assert fast.registry.is_fast(fast.fd)


@pytest.mark.parametrize("arguments", [((1, 2),), ([],), (5,), (((os.POSIX_SPAWN_DUP2, "a", 0),),)])
def test_posix_spawn_refuses_what_it_refused(registry: StandIn, arguments: Any) -> None:
    with pytest.raises(TypeError):
        os.posix_spawn(sys.executable, [sys.executable], os.environ, file_actions=[*arguments, 1])


def test_standard_descriptor_of_this_process(tmp_path: Path) -> None:
    """A connection whose number is 0 is every child's standard input."""
    script = """
import os, subprocess, sys
os.close(0)
from tests.patching.test_os_calls import Connection, Patches, StandIn, os_calls, passing
registry, patches = StandIn(), Patches()
os_calls.patch(patches, registry)
passing.patch(patches, registry)
fast = Connection(registry)
assert fast.fd == 0
fast.bell.set_inheritable(True)
fast.far.sendall(b"payload")
reading = "import os; assert os.read(0, 100) == b'payload'"
subprocess.run([sys.executable, "-c", reading], check=True)
fast.close()
"""
    subprocess.run([sys.executable, "-c", script], check=True, env=environment(), cwd=PACKAGE_PARENT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_spawn(fast: Connection) -> None:
    fast.bell.set_inheritable(True)
    script = f"import os; os.write({fast.fd}, b'answer')"
    assert os.spawnl(os.P_WAIT, sys.executable, sys.executable, "-c", script) == 0
    assert fast.far.recv(100) == b"answer"


def test_system(fast: Connection) -> None:
    fast.bell.set_inheritable(True)
    assert os.system(shlex.join([sys.executable, "-c", f"import os; os.write({fast.fd}, b'answer')"])) == 0
    assert fast.far.recv(100) == b"answer"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_exec(fast: Connection) -> None:
    fast.bell.set_inheritable(True)
    script = f"import os; os.write({fast.fd}, b'answer')"
    pid = os.fork()
    if pid == 0:
        try:
            os.execlp(sys.executable, sys.executable, "-c", script)
        finally:
            os._exit(99)
    assert waited(pid) == 0
    assert fast.far.recv(100) == b"answer"


def test_exec_leaves_what_is_not_inherited(fast: Connection) -> None:
    with pytest.raises(FileNotFoundError):
        os.execv("/nothing", ["nothing"])
    assert fast.registry.is_fast(fast.fd)


def test_sent_descriptors(fast: Connection) -> None:
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(near, [b"x"], [fast.fd])
        _, numbers, _, _ = socket.recv_fds(far, 1, 1)
    with _PLAIN(fileno=numbers[0]) as received:
        received.sendall(b"payload")
    assert fast.far.recv(100) == b"payload"


def test_ancillary_data_is_read_once(fast: Connection) -> None:
    near, far = socket.socketpair()
    rights = fast.fd.to_bytes(4, sys.byteorder)
    with near, far:
        near.sendmsg([b"x"], iter([(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]))
        _, ancillary, _, _ = far.recvmsg(1, 100)
    assert len(ancillary) == 1
    os.close(int.from_bytes(ancillary[0][2], sys.byteorder))
    assert not fast.registry.is_fast(fast.fd)


@pytest.mark.parametrize("ancillary", [None, 1, [1], [()], [(1, 2)], [(1, 2, 3)], [("a", "b", b"")]])
def test_malformed_ancillary_data_is_refused_as_before(registry: StandIn, ancillary: Any) -> None:
    near, far = socket.socketpair()
    with near, far:
        with pytest.raises((TypeError, OSError)) as guarded:
            near.sendmsg([b"x"], ancillary)
        with pytest.raises((TypeError, OSError)) as plain:
            socket.SocketType.sendmsg(near, [b"x"], ancillary)
    assert type(guarded.value) is type(plain.value)


# They pass for what they replace

BUILTINS = ["read", "write", "readv", "writev", "sendfile", "dup", "dup2", "close", "closerange", "splice", "execv"]
OTHERS = ["fdopen", "spawnv", "system", "execve"]
ORIGINALS = {name: getattr(os, name) for name in [*BUILTINS, *OTHERS] if hasattr(os, name)}


@pytest.mark.parametrize("name", ORIGINALS)
def test_replacement_looks_like_the_original(registry: StandIn, name: str) -> None:
    original, replacement = ORIGINALS[name], getattr(os, name)
    assert replacement is not original
    for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
        assert getattr(replacement, attribute) == getattr(original, attribute)
    assert inspect.isroutine(replacement)
    if name != "execv":
        mine, theirs = (list(inspect.signature(each).parameters) for each in (replacement, original))
        assert mine == theirs or name in ("execve", "system")


def test_replacement_is_not_bound_by_a_class(registry: StandIn, pipe: tuple[int, int]) -> None:
    class Reader:
        read = os.read

    os.write(pipe[1], b"x")
    assert Reader().read(pipe[0], 1) == b"x"


@pytest.mark.parametrize("name", ["read", "close", "fdopen", "spawnv"])
def test_replacement_can_be_pickled(registry: StandIn, name: str) -> None:
    replacement = getattr(os, name)
    assert pickle.loads(pickle.dumps(replacement)) == replacement
    assert pickle.loads(bytes(ForkingPickler.dumps(replacement))) == replacement


def everything() -> dict[str, object]:
    found: dict[str, object] = {}
    for module in (os, fcntl, socket, subprocess, _posixsubprocess):
        found.update({f"{module.__name__}.{name}": value for name, value in vars(module).items()})
    found.update({f"class.{name}": value for name, value in vars(_PLAIN).items()})
    return found


def test_undone_exactly(unguarded: None) -> None:
    before = everything()
    patches, registry = Patches(), StandIn()
    for _ in range(2):  # a second time finds everything replaced
        os_calls.patch(patches, registry)
        passing.patch(patches, registry)
        passing.patch_sendmsg(patches, _PLAIN, registry)
    changed = [name for name, value in everything().items() if before.get(name) is not value]
    assert "os.read" in changed
    assert sys.version_info < (3, 11) or "subprocess._fork_exec" in changed
    assert patches.undo() == []
    after = everything()
    assert after.keys() == before.keys()
    assert [name for name in before if before[name] is not after[name]] == []


def test_undo_leaves_what_somebody_else_has_replaced() -> None:
    class Target:
        value = 1

    patches = Patches()
    patches.replace(Target, "value", 2)
    patches.replace(Target, "other", 3)
    Target.value = 4
    assert patches.undo() == ["Target.value"]
    assert Target.value == 4
    assert not hasattr(Target, "other")
