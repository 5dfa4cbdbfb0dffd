"""Faults: processes that die or are stopped at random moments, and listeners that go.

FASTSOCK_SOAK=1 runs the long forms (thousands of random moments).
"""

from __future__ import annotations

import errno
import os
import random
import select
import signal
import socket
from contextlib import ExitStack

from fastsock.testing import FarProcess, until_stopped
from fastsock.testing.names import names_of
from fastsock.testing.outcomes import describe, outcome, receive, receive_all
from fastsock.testing.patterns import Pattern

from .processes import LONG, MIB, RECEIVED, SENT, Progress, accept, connect, listen

KILLS = 3000 if LONG else 100
MEETINGS = 500 if LONG else 20
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
        address = server.run(listen, maker)
        accepting = server.begin(accept, maker)
        client.run(connect, maker, address)
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
        address = server.run(listen, near)
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
            address = server.run(listen, near)
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
        address = receiver.run(listen, near)
        accepting = receiver.begin(accept, near)
        sender.run(connect, near, address)
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


def test_listener_closed_before_it_accepted(near):
    """Clients that are connected, blocking and not, and wait for a byte when the listener goes."""
    with FarProcess() as server, ExitStack() as cleaning:
        address = server.run(listen, near)
        clients = [cleaning.enter_context(FarProcess()) for _ in range(4)]
        for client in clients:
            client.run(connect, near, address)
        waiting = []
        for _ in range(4):
            sock = cleaning.enter_context(near.sockets.socket(socket.AF_INET))
            sock.setblocking(False)
            assert sock.connect_ex(address) in (0, errno.EINPROGRESS)
            assert select.select([], [sock], [], 30)[1]
            waiting.append(sock)
        receiving = [client.begin(_receive_one) for client in clients]
        for client in clients:
            client.until_blocked()
        server.run(_close_listener)
        for pending in receiving:
            assert pending.result() == "ConnectionResetError ECONNRESET"
        for sock in waiting:
            sock.settimeout(30)
            assert outcome(sock.recv, 1) == "ConnectionResetError ECONNRESET"


def _receive_one(here):
    return outcome(here.sock.recv, 1)


def _close_listener(here):
    here.listener.close()


def test_nothing_is_left_behind(near):
    """After deaths, no name stays bound, and no more memory than what is kept for later connections."""
    names, before = names_of(os.getpid()).keys(), len(_kept())
    for seed in range(1000, 1010):
        Killing(near, seed).run()
    assert names_of(os.getpid()).keys() <= names
    assert len(_kept()) <= max(before, 16)


def _kept():
    with open("/proc/self/maps") as file:
        return [line for line in file if "memfd:fastsock" in line]
