"""Faults: death at random moments, stopping, no memory, no descriptors, another user, squatted and disturbed names.

FASTSOCK_SOAK=1 runs the long forms (thousands of random moments).
"""

from __future__ import annotations

import contextlib
import ctypes
import encodings.idna  # noqa: F401  (another user may not be able to load it later)
import errno
import mmap
import os
import random
import resource
import select
import signal
import socket
import struct
from contextlib import ExitStack

import pytest

from fastsock.shm import MOST_KEPT
from fastsock.testing import PLAIN, FarProcess, PairMaker, until_stopped
from fastsock.testing.names import names_of
from fastsock.testing.outcomes import describe, outcome, receive, receive_all
from fastsock.testing.patterns import Pattern

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
KILLS = 3000 if LONG else 100
MEETINGS = 500 if LONG else 20
HOSTILE = 1000 if LONG else 10
MIB = 1 << 20


@pytest.fixture
def near(kind) -> PairMaker:
    """Makes connections of each kind."""
    return PLAIN if kind == "plain" else PairMaker("fastsock.socket", transport=kind)


class Progress:
    """Numbers that processes count up in memory that they share."""

    def __init__(self, count=4):
        self.memory = mmap.mmap(-1, 8 * count)

    def set(self, index, value):
        struct.pack_into("q", self.memory, 8 * index, value)

    def get(self, index):
        return struct.unpack_from("q", self.memory, 8 * index)[0]


SENT, RECEIVED = 0, 1


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def _accept(here, maker):
    here.sock, _ = here.listener.accept()
    maker.check(here.sock)


def _connect(here, maker, address):
    here.sock = maker.connect(address)
    maker.check(here.sock)


SIZES = (1, 100, 4096, 65_536, 300_000, 2 * MIB)


def _send_for_ever(here, seed):
    """Send a pattern until the peer has gone; how it ended."""
    pattern, chooser, sent = Pattern(seed), random.Random(seed), 0
    try:
        while True:
            size = chooser.choice(SIZES)
            here.sock.sendall(pattern.at(sent, size))
            sent += size
            here.progress.set(SENT, sent)
    except OSError as error:
        return describe(error)


def _receive_for_ever(here, seed):
    """Verify a pattern until the peer has gone; how many bytes came and how it ended."""
    pattern, chooser, received = Pattern(seed), random.Random(seed + 1), 0
    try:
        while data := here.sock.recv(chooser.choice(SIZES)):
            pattern.verify(received, data)
            received += len(data)
            here.progress.set(RECEIVED, received)
    except OSError as error:
        return received, describe(error)
    return received, "EOF"


class Killing:
    """Two processes stream; one of them is killed at a random moment."""

    def __init__(self, maker, seed):
        self.chooser = random.Random(seed)
        self.seed = seed
        self.progress = Progress()
        self.cleaning = ExitStack()
        self.sender = self.cleaning.enter_context(FarProcess(progress=self.progress))
        self.receiver = self.cleaning.enter_context(FarProcess(progress=self.progress))
        server, client = (self.sender, self.receiver) if seed % 2 else (self.receiver, self.sender)
        address = server.run(_listen, maker)
        accepting = server.begin(_accept, maker)
        client.run(_connect, maker, address)
        accepting.result()

    def random_moment(self):
        """Return after a random number of bytes and of turns of an empty loop."""
        limit = self.chooser.choice((1, 10_000, 200_000, 3 * MIB, 10 * MIB))
        while self.progress.get(RECEIVED) < limit:
            os.sched_yield()
        for _ in range(self.chooser.randrange(3000)):
            pass

    def run(self):
        with self.cleaning:
            sending = self.sender.begin(_send_for_ever, self.seed)
            receiving = self.receiver.begin(_receive_for_ever, self.seed)
            self.random_moment()
            if self.chooser.random() < 0.5:
                self.sender.kill()
                self.sender.wait()
                received, end = receiving.result()
                assert end in ("EOF", "ConnectionResetError ECONNRESET"), end
                assert received >= self.progress.get(SENT), "bytes that had been sent were lost"
            else:
                self.receiver.kill()
                self.receiver.wait()
                end = sending.result()
                assert end in ("BrokenPipeError EPIPE", "ConnectionResetError ECONNRESET"), end


def test_killed_at_a_random_moment(near):
    """What arrived is right, all that the dead process had sent arrived, and the survivor is told."""
    for seed in range(KILLS if near.transport else 20):
        try:
            Killing(near, seed).run()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error


def _serve_for_ever(here, maker):
    """Echo one message for each connection; nobody's death may stop it."""
    while True:
        sock, _ = here.listener.accept()
        with sock:
            try:
                data = receive(sock, 5)
                if data == b"stop!":
                    return "stopped"
                sock.sendall(data)
                receive_all(sock)
            except ConnectionError:
                continue


def _connect_for_ever(here, maker, address):
    count = 0
    try:
        while True:
            with maker.connect(address) as sock:
                sock.sendall(b"hello")
                if receive(sock, 5) != b"hello":
                    return "ended"
                count += 1
                here.progress.set(RECEIVED, count)
    except OSError as error:
        return describe(error)


def test_killed_while_connecting(near):
    """Clients die at random moments of the meeting; the server serves the next one, by the same path."""
    chooser = random.Random(1)
    with FarProcess() as server:
        address = server.run(_listen, near)
        serving = server.begin(_serve_for_ever, near)
        for _ in range(MEETINGS):
            progress = Progress()
            with FarProcess(progress=progress) as client:
                client.begin(_connect_for_ever, near, address)
                wanted = chooser.randrange(1, 4)
                while progress.get(RECEIVED) < wanted:
                    os.sched_yield()
                for _ in range(chooser.randrange(6000)):
                    pass
                client.kill()
                client.wait()
        with near.connect(address) as sock:
            near.check(sock)
            sock.sendall(b"hello")
            assert receive(sock, 5) == b"hello"
        with near.connect(address) as sock:
            sock.sendall(b"stop!")
            assert serving.result() == "stopped"


def test_server_killed_while_clients_connect(near):
    """The server dies at random moments of the meeting; the client gets an error or an end, and never hangs."""
    chooser = random.Random(2)
    for _ in range(MEETINGS):
        progress = Progress()
        with FarProcess() as server, FarProcess(progress=progress) as client:
            address = server.run(_listen, near)
            server.begin(_serve_for_ever, near)
            connecting = client.begin(_connect_for_ever, near, address)
            wanted = chooser.randrange(1, 4)
            while progress.get(RECEIVED) < wanted:
                os.sched_yield()
            for _ in range(chooser.randrange(6000)):
                pass
            server.kill()
            server.wait()
            assert connecting.result() in (
                "ended",
                "ConnectionResetError ECONNRESET",
                "BrokenPipeError EPIPE",
                "ConnectionRefusedError ECONNREFUSED",
            )


def test_stopped_and_continued(near):
    """Both ends are stopped and continued at random moments: the stream is whole."""
    chooser, size = random.Random(3), 24 * MIB
    progress = Progress()
    with FarProcess(progress=progress) as sender, FarProcess(progress=progress) as receiver:
        address = receiver.run(_listen, near)
        accepting = receiver.begin(_accept, near)
        sender.run(_connect, near, address)
        accepting.result()
        sending = sender.begin(_send_and_shut, size)
        receiving = receiver.begin(_receive_for_ever, 3)
        while progress.get(RECEIVED) < size:
            before = progress.get(RECEIVED)
            victims = chooser.choice(([sender], [receiver], [sender, receiver]))
            for victim in victims:
                victim.kill(signal.SIGSTOP)
                until_stopped(victim.pid)
            for victim in victims:
                victim.kill(signal.SIGCONT)
            while progress.get(RECEIVED) == before < size:
                os.sched_yield()
        sending.result()
        assert receiving.result() == (size, "EOF")


def _send_and_shut(here, size):
    here.sock.sendall(Pattern(3).at(0, size))
    here.sock.shutdown(socket.SHUT_WR)


# Scarcity


MESSAGE = Pattern(4).at(0, 30_000)


def _exchange(here, maker, address):
    """Connect, exchange a little and much; the path that it took."""
    with maker.connect(address) as sock:
        sock.sendall(b"hello")
        assert receive(sock, 5) == b"hello"
        transport = getattr(sock, "transport", "plain")
        sock.sendall(MESSAGE)
        sock.shutdown(socket.SHUT_WR)
        assert receive(sock, len(MESSAGE)) == MESSAGE
        assert sock.recv(1) == b""
    return transport


def _serve_once(here, maker):
    sock, _ = here.listener.accept()
    with sock:
        transport = getattr(sock, "transport", "plain")
        sock.sendall(receive(sock, 5))
        while data := sock.recv(10_000):
            sock.sendall(data)
    return transport


def _little_memory(here):
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    # Enough for Python to go on, too little for a ring each way.
    limit = pages * mmap.PAGESIZE + 1_500_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _no_files(here):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _tiny_dev_shm(here):
    """A /dev/shm of one page, in a mount namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private, recursive = 0x00020000, 1 << 18, 1 << 14
    if libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private | recursive, None):
        return os.strerror(ctypes.get_errno())
    if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=4k"):
        return os.strerror(ctypes.get_errno())
    return None


SCARCITIES = (_little_memory, _no_files, _tiny_dev_shm)


@pytest.mark.parametrize("poor", ["server", "client", "both"])
@pytest.mark.parametrize("scarcity", SCARCITIES, ids=lambda function: function.__name__.strip("_"))
def test_scarce_memory(near, scarcity, poor):
    """Where the memory cannot be had, another path carries the bytes."""
    with FarProcess() as server, FarProcess() as client:
        for process in [server] * (poor != "client") + [client] * (poor != "server"):
            reason = process.run(scarcity)
            if reason:
                pytest.skip(f"needs the right to mount: {reason}")
        address = server.run(_listen, near)
        for _ in range(3):
            serving = server.begin(_serve_once, near)
            took = client.run(_exchange, near, address)
            assert serving.result() == took
            if near.transport:
                assert took in ("shm", "unix", "tcp")


def _limit_descriptors(here, spare):
    """Leave room for so many descriptors: what the next `spare` calls that open one will get."""
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    while spare:
        number += 1
        spare -= not _is_open(number - 1)
    while _is_open(number):
        number += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _exchange_with_spare(here, maker, address, spare):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, spare)
    try:
        return outcome(_exchange, here, maker, address)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


def _serve_with_spare(here, maker, spare):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, spare)
    try:
        return outcome(_serve_once, here, maker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


@pytest.mark.parametrize("spare", range(1, 9))
def test_scarce_descriptors_of_a_client(near, spare):
    """One descriptor is enough for plain TCP; so it is here."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen, near)
        serving = server.begin(_serve_once, near)
        took = client.run(_exchange_with_spare, near, address, spare)
        assert took in ("plain", "shm", "unix", "tcp"), took
        assert serving.result() == took
        # The limit gone, the path is taken as ever, and nothing was leaked.
        serving = server.begin(_serve_once, near)
        assert client.run(_exchange, near, address) == (near.transport or "plain")
        serving.result()


@pytest.mark.parametrize("spare", range(1, 9))
def test_scarce_descriptors_of_a_server(near, spare):
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen, near)
        serving = server.begin(_serve_with_spare, near, spare)
        took = client.run(_exchange, near, address)
        assert serving.result() == took, took
        # A listener that let an offer lapse may be remembered for a while.
        serving = server.begin(_serve_once, near)
        assert client.run(_exchange, near, address) in (near.transport or "plain", "tcp")
        serving.result()


@pytest.mark.parametrize("spare", range(1, 5))
def test_scarce_descriptors_of_a_server_that_was_met_before(near, spare):
    """What earlier connections let both ends agree on must not be counted on when the descriptors are gone."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen, near)
        for _ in range(5):
            serving = server.begin(_serve_once, near)
            took = client.run(_exchange, near, address)
            assert serving.result() == took
        serving = server.begin(_serve_with_spare, near, spare)
        took = client.run(_exchange, near, address)
        assert serving.result() == took, took


def test_server_that_closes_what_it_does_not_know(near):
    """A daemon closes every number but its own, those that fastsock holds among them."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen, near)
        for round_number in range(8):
            if round_number == 5:
                server.run(_close_process_descriptors)
            serving = server.begin(_serve_once, near)
            took = client.run(_exchange, near, address)
            assert serving.result() == took


def _close_process_descriptors(here):
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "pidfd" in os.readlink(f"/proc/self/fd/{name}"):
                os.close(int(name))


def test_no_descriptor_at_all(near):
    """accept() and socket() fail as plain ones do, and the connection can be accepted later."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen, near)
        exchanging = client.begin(_exchange, near, address)
        answer = server.run(_serve_with_spare, near, 0)
        assert answer == "OSError EMFILE"
        serving = server.begin(_serve_once, near)
        assert serving.result() == exchanging.result()


def test_listening_without_a_spare_descriptor(near):
    """The listener's own descriptor is the last one: it listens, plainly."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen_as_the_last, near)
        serving = server.begin(_serve_once, near)
        took = client.run(_exchange, near, address)
        assert serving.result() == took


def _listen_as_the_last(here, maker):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, 1)
    try:
        return _listen(here, maker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


# Other users and names

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def _become_nobody(here):
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@needs_root
@pytest.mark.parametrize("foreign", ["server", "client"])
def test_another_user(near, foreign):
    """Two users do not share memory: TCP carries the bytes, and the reason is told."""
    with FarProcess() as server, FarProcess() as client:
        (server if foreign == "server" else client).run(_become_nobody)
        address = server.run(_listen, near)
        for _ in range(3):
            serving = server.begin(_serve_once, near)
            took = client.run(_exchange, near, address)
            assert serving.result() == took == ("tcp" if near.transport else "plain")
        if near.transport not in (None, "tcp"):
            serving = server.begin(_serve_once, near)
            assert client.run(_reason, near, address) == "other_user"
            serving.result()


def _reason(here, maker, address):
    import fastsock

    with maker.connect(address) as sock:
        sock.sendall(b"hello")
        assert receive(sock, 5) == b"hello"
        return str(fastsock.explain(sock).reason)


def _squat(here, names):
    """Hold names, listen on those that are of streams, and answer whoever connects with nonsense."""
    import threading

    here.squatting = []
    for name, kind in names.items():
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.bind(name)
        here.squatting.append(sock)
        if kind == socket.SOCK_DGRAM:
            continue
        sock.listen()
        threading.Thread(target=_answer_nonsense, args=(sock,), daemon=True).start()


def _answer_nonsense(listener):
    while True:
        sock, _ = listener.accept()
        with sock:
            outcome(sock.send, os.urandom(64), socket.MSG_DONTWAIT)


@needs_root
@pytest.mark.parametrize("who", ["another user", "the same user"])
def test_name_is_taken(near, who):
    """A process holds the name of a listener's presence before it listens, and answers nonsense."""
    before = names_of(os.getpid())
    with near.listener() as listener:
        address = listener.getsockname()
        names = {name: kind for name, kind in names_of(os.getpid()).items() if name not in before}
    if near.transport in (None, "tcp"):
        return
    assert names, "listening left no name to take"
    with FarProcess() as squatter, FarProcess() as server, FarProcess() as client:
        if who == "another user":
            squatter.run(_become_nobody)
        squatter.run(_squat, names)
        assert server.run(_listen_on, near, address[1]) == address
        for _ in range(3):
            serving = server.begin(_serve_once, near)
            took = client.run(_exchange, near, address)
            assert serving.result() == took


def _listen_on(here, maker, port):
    here.listener = maker.listener(port=port)
    return here.listener.getsockname()


def _disturb(here, names, count):
    """Connect to every name and say nonsense, with a descriptor now and then."""
    chooser = random.Random(5)
    for _ in range(count):
        for name, kind in names.items():
            with socket.socket(socket.AF_UNIX, kind) as sock:
                sock.setblocking(False)
                try:
                    sock.connect(name)
                except OSError:
                    continue
                data = chooser.randbytes(chooser.choice((0, 1, 16, 100, 4096)))
                if chooser.random() < 0.3:
                    outcome(socket.send_fds, sock, [data or b"x"], [0, 1, 2][: chooser.randrange(4)])
                else:
                    outcome(sock.send, data)


@pytest.mark.parametrize("who", ["another user", "the same user"])
def test_nonsense_at_the_names(near, who):
    """Strangers connect to every name that a listener and waiting clients have bound: all are served."""
    if who == "another user" and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with FarProcess() as stranger, FarProcess() as server, FarProcess() as client:
        if who == "another user":
            stranger.run(_become_nobody)
        address = server.run(_listen, near)
        for _ in range(5):
            connecting = client.begin(_exchange, near, address)
            client.until_blocked()
            names = names_of(server.pid) | names_of(client.pid)
            stranger.run(_disturb, names, 3)
            serving = server.begin(_serve_once, near)
            took = connecting.result()
            assert serving.result() == took
        # Left alone again, the path is taken.
        serving = server.begin(_serve_once, near)
        server.until_blocked()
        assert client.run(_exchange, near, address) in (near.transport or "plain", "tcp")
        serving.result()


def _scribble_for_ever(here, seed):
    """Write nonsense all over what this process can reach of the shared memory, and use the socket in between."""
    chooser = random.Random(seed)
    with open("/proc/self/maps") as file:
        starts = [int(line.partition("-")[0], 16) for line in file if "memfd:fastsock" in line]
    here.sock.settimeout(0)
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        while True:
            for _ in range(chooser.randrange(1, 20)):
                value = chooser.choice((0, 1, 2, os.getpid(), chooser.getrandbits(16), chooser.getrandbits(64)))
                memory.seek(chooser.choice(starts) + 8 * chooser.randrange(2048 // 8))
                memory.write(struct.pack("Q", value))
            outcome(here.sock.send, bytes(chooser.choice((1, 5000))))
            outcome(here.sock.recv, 5000)
            here.progress.set(RECEIVED, here.progress.get(RECEIVED) + 1)


def _endure(here):
    """Use the socket in every way until it ends; each call must come back."""
    here.sock.settimeout(0.05)
    buffer = bytearray(300_000)
    calls = (
        lambda: here.sock.recv_into(buffer),
        lambda: here.sock.send(buffer),
        lambda: here.sock.recv(10, socket.MSG_PEEK),
        lambda: here.sock.recv(70_000),
        lambda: here.sock.send(b"x"),
        lambda: select.select([here.sock], [here.sock], [], 0),
    )
    ends = 0
    while ends < 10:
        for call in calls:
            found = outcome(call)
            ends += found == b"" or str(found).startswith(("ConnectionReset", "BrokenPipe", "ProtocolViolation"))
    here.sock.close()


def test_hostile_memory(near):
    """What the other end writes into the shared memory can end its own connection; it crashes and hangs nobody."""
    if near.transport != "shm":
        pytest.skip("no shared memory")
    for seed in range(HOSTILE):
        progress = Progress()
        with FarProcess() as server, FarProcess(progress=progress) as client:
            address = server.run(_listen, near)
            accepting = server.begin(_accept, near)
            client.run(_connect, near, address)
            accepting.result()
            enduring = server.begin(_endure)
            client.begin(_scribble_for_ever, seed)
            while progress.get(RECEIVED) < 50:
                os.sched_yield()
            client.kill()
            client.wait()
            enduring.result()
            accepting = server.begin(_accept, near)  # others are served as ever
            with near.connect(address) as sock:
                accepting.result()
                near.check(sock)


# Listeners


def test_listener_closed_with_offers_pending(near):
    """Clients that wait for an answer, blocking and not, when the listener goes."""
    with FarProcess() as server, ExitStack() as cleaning:
        address = server.run(_listen, near)
        clients = [cleaning.enter_context(FarProcess()) for _ in range(4)]
        connecting = [client.begin(_connect_and_wait, near, address) for client in clients]
        waiting = []
        for _ in range(4):
            sock = cleaning.enter_context(near.sockets.socket(socket.AF_INET))
            sock.setblocking(False)
            assert sock.connect_ex(address) in (0, errno.EINPROGRESS)
            waiting.append(sock)
        for client in clients:
            client.until_blocked()
        server.run(_close_listener)
        for pending in connecting:
            assert pending.result() == "ConnectionResetError ECONNRESET"
        for sock in waiting:
            sock.settimeout(30)
            assert outcome(sock.recv, 1) == "ConnectionResetError ECONNRESET"


def _connect_and_wait(here, maker, address):
    return outcome(lambda: maker.connect(address).recv(1))


def _close_listener(here):
    here.listener.close()


def test_nothing_is_left_behind(near):
    """After deaths, no name stays bound, and no more memory than what is kept for later connections."""
    names = names_of(os.getpid()).keys()
    for seed in range(1000, 1010):
        Killing(near, seed).run()
    assert names_of(os.getpid()).keys() <= names
    with open("/proc/self/maps") as file:
        kept = [line for line in file if "memfd:fastsock" in line]
    assert len(kept) <= 2 * MOST_KEPT
