"""What docs/how-to/containers.md says that two programs in containers must share: in namespaces, as containers have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from ..helpers import hosts
from ..helpers.paths import environment

DEADLINE = 60
# Files of its own, where a container has its own; the network is the one that it is started in.
OWN_FILES = 'mount -t tmpfs none /dev/shm && mount -t tmpfs none /run && exec "$@"'
CONTAINER = ("unshare", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
ONE_LIST_OF_PROCESSES = ("unshare", "--mount", "--ipc", "--uts")
MAPPED = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
HERE: tuple[str, ...] = ()


def _is_permitted(*command: str) -> bool:
    done = subprocess.run([*command, "true"], capture_output=True) if shutil.which(command[0]) else None
    return done is not None and done.returncode == 0


pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces and become another user"),
    pytest.mark.skipif(not _is_permitted(*CONTAINER), reason="namespaces are refused here"),
]

PROGRAM = """
import ctypes, os, struct, sys, encodings.idna
import dataclasses, fastsock.reporting.explanation, fastsock.socket
role, ip, port, user, refused = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
if refused:  # seccomp: this system call is an error, all others go on
    words = [(0x20, 0, 0, 0), (0x15, 0, 1, refused), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(words), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program) == 0, ctypes.get_errno()
if user:
    os.setgroups([]); os.setgid(user); os.setuid(user)
if role == "server":
    listener = fastsock.socket.create_server((ip, 0))
    print(listener.getsockname()[1], flush=True)
    sock = listener.accept()[0]
else:
    sock = fastsock.socket.create_connection((ip, port))
fastsock.attach(sock, 2)
for size in (1, 100_000, 3_000_000):
    data, got = bytes(range(251)) * (size // 251 + 1), bytearray()
    if role == "client":
        sock.sendall(data)
    while len(got) < len(data):
        got += sock.recv(1 << 20)
    assert got == data
    if role == "server":
        sock.sendall(data)
told = fastsock.explain(sock)
print(told.transport, told.reason, told.bytes_direct or 0, flush=True)
sock.recv(1) if role == "server" else sock.close()
"""
MEMFD_CREATE = {"x86_64": 319, "aarch64": 279}


def _command(within: Sequence[str], role: str, ip: str, port: int, user: int, refused: int) -> list[str]:
    inside = [*within, "sh", "-c", OWN_FILES, "sh"] if "--mount" in within else [*within]
    return [*inside, sys.executable, "-c", PROGRAM, role, ip, *map(str, (port, user, refused))]


class Ends:
    """What both ends said: transport, reason, bytes past the ring."""

    def __init__(self, server: str, client: str) -> None:
        self.server, self.client = server.split(), client.split()

    def paths(self) -> set[tuple[str, str]]:
        return {(told[0], told[1]) for told in (self.server, self.client)}


@contextmanager
def _running(command: list[str], variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        try:
            yield process
        finally:
            process.kill()


def talk(
    server: Sequence[str], client: Sequence[str], *, ip: str = "127.0.0.1", users: tuple[int, int] = (0, 0),
    peers: tuple[str, str] = ("same-user", "same-user"), refused: tuple[int, int] = (0, 0),
) -> Ends:  # fmt: skip
    variables = [os.environ | environment("shm") | {"FASTSOCK_PEERS": each} for each in peers]
    with _running(_command(server, "server", ip, 0, users[0], refused[0]), variables[0]) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        command = _command(client, "client", ip, port, users[1], refused[1])
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=variables[1])
        assert done.returncode == 0, done.stderr
        return Ends(process.stdout.readline(), done.stdout)


@pytest.mark.parametrize(
    ("server", "client"),
    [(CONTAINER, CONTAINER), (CONTAINER, HERE), (HERE, CONTAINER), (ONE_LIST_OF_PROCESSES, ONE_LIST_OF_PROCESSES)],
    ids=["apart", "server", "client", "one-list-of-processes"],
)
def test_one_network_and_one_user_are_enough(server: Sequence[str], client: Sequence[str]) -> None:
    ends = talk(server, client)
    assert ends.paths() == {("shm", "joined")}
    if server == client == CONTAINER:
        assert ends.server[2] == ends.client[2] == "0"  # neither can name the other's process


def test_a_user_that_is_mapped_in_both_namespaces_is_one_user() -> None:
    if not _is_permitted(*MAPPED):
        pytest.skip("user namespaces are refused here")
    assert talk(MAPPED, MAPPED).paths() == {("shm", "joined")}
    assert talk(MAPPED, CONTAINER).paths() == {("shm", "joined")}


@pytest.mark.parametrize(
    ("peers", "paths"),
    [
        (("same-user", "same-user"), {("tcp", "other_user")}),
        (("any", "any"), {("shm", "joined")}),
    ],
)
def test_two_users_meet_where_both_say_so(peers: tuple[str, str], paths: set[tuple[str, str]]) -> None:
    assert talk(CONTAINER, CONTAINER, users=(1001, 1002), peers=peers).paths() == paths


def test_two_users_stay_on_tcp_where_one_alone_would_meet() -> None:
    ends = talk(CONTAINER, CONTAINER, users=(1001, 1002), peers=("any", "same-user"))
    assert (ends.server[0], *ends.client[:2]) == ("tcp", "tcp", "other_user")
    ends = talk(CONTAINER, CONTAINER, users=(1001, 1002), peers=("same-user", "any"))
    assert ends.server[:2] == ["tcp", "other_user"]
    assert ends.client[:2] == ["tcp", "peer_did_not_join"]  # it offered memory, and offered it again


def test_containers_with_a_network_each_stay_on_tcp() -> None:
    reason = hosts.why_not()
    if reason:
        pytest.skip(reason)
    with hosts.Hosts(2) as network:
        ends = talk((*network.inside(0), *CONTAINER), (*network.inside(1), *CONTAINER), ip=network.ip(0))
        assert ends.paths() == {("tcp", "peer_not_local")}


@pytest.mark.parametrize(("which", "paths"), [("client", {("tcp", "system_error")}), ("server", {("shm", "joined")})])
def test_a_filter_that_refuses_memory_to_the_end_that_connects_leaves_tcp(
    which: str, paths: set[tuple[str, str]]
) -> None:
    number = MEMFD_CREATE.get(os.uname().machine)
    if number is None:
        pytest.skip("the number of memfd_create is not known here")
    ends = talk(CONTAINER, CONTAINER, refused=(number, 0) if which == "server" else (0, number))
    assert {(ends.client[0], ends.client[1])} == paths, ends.server


def test_the_doctor_runs_in_a_container() -> None:
    command = [*CONTAINER, "sh", "-c", OWN_FILES, "sh", sys.executable, "-m", "fastsock", "doctor", "--no-measure"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr


CONNECTED = """
import sys, threading, fastsock.socket
listener = fastsock.socket.create_server(("127.0.0.1", 0))
client = fastsock.socket.create_connection(listener.getsockname())
server = listener.accept()[0]
thread = threading.Thread(target=fastsock.attach, args=(server, 20))
thread.start()
fastsock.attach(client, 20)
thread.join()
print(client.transport, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("with_its_files", "carriers"), [(True, {"shm"}), (False, {"tcp"})])
def test_top_sees_what_processes_show_in_the_dev_shm_that_it_has(with_its_files: bool, carriers: set[str]) -> None:
    variables = os.environ | environment("shm")
    apart = [*ONE_LIST_OF_PROCESSES, "sh", "-c", OWN_FILES, "sh"]
    command = [*apart, sys.executable, "-c", CONNECTED]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=variables, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "shm\n"
        where = ["nsenter", "--target", str(process.pid), "--mount"] if with_its_files else apart
        top = [*where, sys.executable, "-m", "fastsock", "top", "--once", "--json", "--pid", str(process.pid)]
        done = subprocess.run([*top, "--seconds", "0.1"], capture_output=True, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["connections"]
        assert {row["carrier"] for row in rows} == carriers
        process.stdin.close()
