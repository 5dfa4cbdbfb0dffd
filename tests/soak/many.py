"""Many short connections, one after the other, each of which changes its carrier where it likes; every byte is checked.

A number makes a plan, which both ends know: messages each way, how each end waits, what it does with its socket on the
way, and how the connection ends.  The two ends are programs of their own.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import fastsock
from fastsock.testing.patterns import Pattern

from ..helpers.paths import environment
from ..helpers.scripts import ROOT

STYLES = ("blocking", "timeout", "poll", "select", "epoll", "edge")
SIZES = (1, 7, 64, 1000, 4096, 30_000)
LARGE = 3_000_000  # more than a ring takes
AFTER = ("0", "1", "2", "5", "pays")  # FASTSOCK_UPGRADE_AFTER: of each end its own
PATIENCE = 60.0  # seconds, of one wait
PATTERN = Pattern(1)


class Plan:
    """What both ends do on connection `number`. The end that connects is 0."""

    def __init__(self, number: int) -> None:
        draw = random.Random(number)
        self.start = draw.randrange(1 << 20)
        self.messages = [(draw.randrange(2), draw.choice(SIZES)) for _ in range(draw.choice((1, 2, 4, 12)))]
        if draw.random() < 0.005:
            self.messages[-1] = self.messages[-1][0], LARGE
        self.styles = [draw.choice(STYLES) for _ in (0, 1)]
        self.attaches = draw.random() < 0.3
        # before which message an end takes its number to a plain socket, or goes on with a duplicate; or forks
        self.leaves = [draw.randrange(12) if draw.random() < 0.1 else None for _ in (0, 1)]
        self.doubles = [draw.randrange(12) if draw.random() < 0.1 else None for _ in (0, 1)]
        self.forks = [draw.randrange(12) if draw.random() < 0.003 else None for _ in (0, 1)]
        self.threads = [draw.random() < 0.03 for _ in (0, 1)]
        self.first = draw.randrange(2)  # the end that closes first
        self.shuts = draw.random() < 0.3


class End:
    """One end of a connection, as its plan has it."""

    def __init__(self, sock: Any, side: int, plan: Plan) -> None:
        self.sock, self.side, self.plan, self.style = sock, side, plan, plan.styles[side]
        self.watch: Any = None
        self.gained = False

    def play(self) -> None:
        plan, at = self.plan, self.plan.start
        if plan.attaches and not fastsock.attach(self.sock, PATIENCE) and hasattr(self.sock, "transport"):
            raise AssertionError(f"no memory: {fastsock.explain(self.sock)}")
        for number, (sender, size) in enumerate(plan.messages):
            self._step(number)
            self._begin_style()
            if sender != self.side:
                PATTERN.verify(at, self._receive(size))
            elif plan.threads[self.side]:
                thread = threading.Thread(target=self._send, args=(PATTERN.at(at, size),))
                thread.start()
                thread.join()
            else:
                self._send(PATTERN.at(at, size))
            at += size
        self.gained = getattr(self.sock, "transport", None) == "shm"
        self._end()

    def _step(self, number: int) -> None:
        plan, side = self.plan, self.side
        if number == plan.doubles[side]:
            self._drop_watch()
            old, self.sock = self.sock, self.sock.dup()
            old.close()
        if number == plan.forks[side]:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        if number == plan.leaves[side]:
            self._drop_watch()
            self.sock = socket.socket(fileno=self.sock.detach())

    def _begin_style(self) -> None:
        if self.watch is not None or self.style == "blocking":
            return
        self.sock.settimeout(PATIENCE if self.style == "timeout" else 0)
        self.watch = self.style
        if self.style == "poll":
            self.watch = select.poll()
            self.watch.register(self.sock, select.POLLIN)
        elif self.style in ("epoll", "edge"):
            self.watch = select.epoll()
            self.watch.register(self.sock, select.EPOLLIN | (select.EPOLLET if self.style == "edge" else 0))

    def _drop_watch(self) -> None:
        if self.style in ("epoll", "edge") and self.watch is not None:
            self.watch.close()
        self.watch = None

    def _wait(self) -> None:
        if self.style == "poll":
            told: Any = self.watch.poll(PATIENCE * 1000)
        elif self.style == "select":
            told = select.select([self.sock], [], [], PATIENCE)[0]
        else:
            told = self.watch.poll(PATIENCE)
        if not told:
            raise AssertionError(f"nothing to read by {self.style} in {PATIENCE} s")

    def _receive_some(self, most: int) -> bytes:
        if self.style in ("blocking", "timeout"):
            return bytes(self.sock.recv(most))
        while True:
            if self.style != "edge":  # which is told once: it reads first
                self._wait()
            try:
                return bytes(self.sock.recv(most))
            except BlockingIOError:
                if self.style == "edge":
                    self._wait()

    def _receive(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            part = self._receive_some(size - len(got))
            if not part:
                raise AssertionError(f"the end behind {len(got)} of {size} bytes")
            got += part
        return got

    def _send(self, data: bytes) -> None:
        while data:
            try:
                data = data[self.sock.send(data) :]
            except BlockingIOError:
                if not select.select([], [self.sock], [], PATIENCE)[1]:
                    raise AssertionError(f"no room in {PATIENCE} s") from None

    def _end(self) -> None:
        """One end closes, or shuts its half, when all is read; the other one reads to the end."""
        self._begin_style()
        if self.plan.first == self.side and not self.plan.shuts:
            self._drop_watch()
            return self.sock.close()
        if self.plan.first == self.side:
            self.sock.shutdown(socket.SHUT_WR)
        rest = self._receive_some(1)
        if rest:
            raise AssertionError(f"{rest!r} in place of the end")
        self._drop_watch()
        self.sock.close()


def _play(side: int, numbers: range) -> Iterator[int]:
    """In a program that is one end: of each connection whether it had memory in the end."""
    if side == 1:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            print(listener.getsockname()[1], flush=True)
            for number in numbers:
                yield _converse(listener.accept()[0], side, number)
    else:
        port = int(sys.stdin.readline())
        for number in numbers:
            yield _converse(socket.create_connection(("127.0.0.1", port)), side, number)


def _give_up(number: int, frame: object) -> None:
    raise AssertionError("it hangs")


def _converse(sock: Any, side: int, number: int) -> int:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else TCP waits 40 ms where one end sends twice
    end = End(sock, side, Plan(number))
    signal.setitimer(signal.ITIMER_REAL, 2 * PATIENCE)
    try:
        end.play()
    except BaseException as error:
        raise AssertionError(f"connection {number}, side {side}, {vars(end.plan)}: {error!r}") from error
    return int(end.gained)


def many(kind: str, numbers: range, after: Sequence[str] = ("0", "0")) -> dict[str, int]:
    """Plays connections between two programs. How many, and how many had memory at their end, at either side."""

    def program(side: int, **streams: Any) -> subprocess.Popen[str]:
        launcher = [] if kind == "plain" else ["-m", "fastsock.launcher"]
        variables = environment(kind) | {"FASTSOCK_UPGRADE_AFTER": after[side]}
        return subprocess.Popen(
            [sys.executable, *launcher, "-m", "tests.soak.many", str(side), str(numbers.start), str(numbers.stop)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, **variables}, **streams,
        )  # fmt: skip

    told = []
    with program(1) as serving, program(0, stdin=subprocess.PIPE) as asking:
        assert serving.stdout is not None and asking.stdin is not None
        with asking.stdin:
            asking.stdin.write(serving.stdout.readline())
        for each in (asking, serving):
            assert each.stdout is not None
            said = each.stdout.read()
            if each.wait() != 0:
                serving.kill()
                raise AssertionError(f"an end of the connections {numbers} ended with {each.returncode}")
            told.append(json.loads(said))
    return {"connections": told[0][0], "gained": told[0][1], "gained there": told[1][1]}


def many_by_turns(kind: str, first: int, count: int, each: int = 10_000) -> Iterator[str]:
    """The same with every pair of thresholds by turns, in programs that live for `each` connections. Tells the sums."""
    sums: dict[str, int] = {}
    for turn, start in enumerate(range(first, first + count, each)):
        after = random.Random(turn).choices(AFTER, k=2)
        for name, value in many(kind, range(start, min(start + each, first + count)), after).items():
            sums[name] = sums.get(name, 0) + value
        yield f"{sums}, the last with thresholds {after}"


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _give_up)
    chosen, first, last = (int(argument) for argument in sys.argv[1:4])
    print(json.dumps([last - first, sum(_play(chosen, range(first, last)))]))
