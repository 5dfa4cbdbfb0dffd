"""Many short connections, one after the other, each of which changes its carrier where it likes; every byte is checked.

The two ends are programs of their own. A number makes a plan, which both know (`many_plan.py`, `many_ends.py`).
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ..helpers.paths import environment
from ..helpers.scripts import ROOT
from .many_ends import PATIENCE, End
from .many_plan import Plan

AFTER = ("0", "1", "2", "5", "pays")  # FASTSOCK_UPGRADE_AFTER: of each end its own
AFTER_FOR_MEMORY = ("0", "1", "2")


def _play(side: int, numbers: range, gaining: bool) -> Iterator[int]:
    """In a program that is one end: of each connection whether memory carried it, till it ended or was given away."""
    if side == 1:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            print(listener.getsockname()[1], flush=True)
            for number in numbers:
                yield _converse(listener.accept()[0], side, Plan(number, gaining))
    else:
        port = int(sys.stdin.readline())
        for number in numbers:
            yield _converse(socket.create_connection(("127.0.0.1", port)), side, Plan(number, gaining))


def _give_up(number: int, frame: object) -> None:
    raise AssertionError("it hangs")


def _converse(sock: Any, side: int, plan: Plan) -> int:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else TCP waits 40 ms where one end sends twice
    end = End(sock, side, plan)
    signal.setitimer(signal.ITIMER_REAL, 2 * PATIENCE)
    try:
        end.play()
    except BaseException as error:
        raise AssertionError(f"connection {plan.number}, side {side}, {plan}: {error!r}") from error
    return int(end.gained)


def many(kind: str, numbers: range, after: Sequence[str] = ("0", "0"), gaining: bool = False) -> dict[str, int]:
    """Plays connections between two programs. How many, and how many gained memory, as each side saw it."""

    span = str(numbers.start), str(numbers.stop), str(int(gaining))

    def program(side: int, **streams: Any) -> subprocess.Popen[str]:
        launcher = [] if kind == "plain" else ["-m", "fastsock.launcher"]
        variables = environment(kind) | {"FASTSOCK_UPGRADE_AFTER": after[side]}
        return subprocess.Popen(
            [sys.executable, *launcher, "-m", "tests.soak.many", str(side), *span],
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


def many_by_turns(kind: str, first: int, count: int, gaining: bool, each: int = 10_000) -> Iterator[str]:
    """The same with every pair of thresholds by turns, in programs that live for `each` connections. Tells the sums."""
    sums: dict[str, int] = {}
    for start in range(first, first + count, each):
        after = random.Random(start).choices(AFTER_FOR_MEMORY if gaining else AFTER, k=2)
        for name, value in many(kind, range(start, min(start + each, first + count)), after, gaining).items():
            sums[name] = sums.get(name, 0) + value
        yield f"{sums}, the last with thresholds {after}"


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _give_up)
    chosen, first, last, gains = (int(argument) for argument in sys.argv[1:5])
    print(json.dumps([last - first, sum(_play(chosen, range(first, last), bool(gains)))]))
