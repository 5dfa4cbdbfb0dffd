"""What if the server also computes? A busy Python thread beside it, 64 B: the round trip, and what the thread loses.

The thread counts its loop's turns. What it loses is told against the same server with its connection idle: the serving
thread blocked in recv, the busy one alone.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from common import question, summary, table
from common.interleave import Turns
from common.pair import Pair
from common.peers.catalogue import choose
from common.peers.stream_sockets import SocketPeer
from common.placement import Placement
from common.process import Broken, Unusable
from common.question import Options
from common.target import Result

SIZE = 64
SHM, TCP = "fastsock shm", "tcp"
EXCHANGING, IDLE = "exchanging", "idle"


class BusyEnd:
    """A socket peer's end; the serving one has a busy thread while it serves."""

    def __init__(self, peer: SocketPeer) -> None:
        self.peer = peer
        self.turns = 0
        self.running = False

    def listen(self) -> Any:
        return self.peer.listen()

    def accept(self) -> None:
        self.peer.accept()

    def connect(self, address: Any) -> None:
        self.peer.connect(address)

    def serve(self) -> float:
        """Answer until stopped; returns the busy thread's turns a second meanwhile."""
        self.running = True
        thread = threading.Thread(target=self._count)
        thread.start()
        turns, start = self.turns, time.perf_counter()
        self.peer.pong_until_stopped(SIZE)
        found = (self.turns - turns) / (time.perf_counter() - start)
        self.running = False
        thread.join()
        return found

    def exchange(self, seconds: float) -> float:
        """Microseconds a round trip."""
        count, elapsed = self.peer.ping_for(SIZE, seconds)
        return elapsed / count * 1e6

    def rest(self, seconds: float) -> float:
        """Leave the connection idle for so long."""
        time.sleep(seconds)
        self.peer.stop(SIZE)
        return 0.0

    def _count(self) -> None:
        while self.running:
            self.turns += 1


def measure(options: Options) -> list[Result]:
    seconds = options.pick(0.4, 1.0)
    taken = Turns(Placement(options.cores), options.skipped)
    speeds: dict[tuple[str, str], list[float]] = {}  # the busy thread's
    for _ in range(options.times(1, 2)):
        pairs = _open(options)
        for _ in range(options.times(2, 4)):
            for doing in (IDLE, EXCHANGING):
                runs = [(name, _run(pair, doing, seconds, speeds)) for name, pair in pairs.items()]
                taken.take(doing, SIZE, runs)
        for pair in pairs.values():
            pair.close()
    faster = summary.compare(taken.samples, EXCHANGING, SIZE, SHM, TCP)
    note = summary.medians(taken.samples, EXCHANGING, SIZE)
    return [
        question.ratio("busy server, 64 B, times faster than TCP", faster, options.skipped, SHM,
                       at_least=100, cores=summary.placements(taken.samples, EXCHANGING, SIZE), note=note),
        _loss(speeds, SHM, options, at_most=10),
        _loss(speeds, TCP, options),
    ]  # fmt: skip


def _open(options: Options) -> dict[str, Pair]:
    pairs = {}
    for name, make in choose("tcp,shm").items():
        if name in options.skipped:
            continue
        try:
            pairs[name] = Pair(make(), options.cores, BusyEnd)  # type: ignore[arg-type]
        except (Broken, Unusable) as error:
            options.skipped.add(name, str(error))
    return pairs


def _run(pair: Pair, doing: str, seconds: float, speeds: dict[tuple[str, str], list[float]]) -> Any:
    def run() -> float:
        pair.other.start("serve")
        value = pair.near.call("exchange" if doing == EXCHANGING else "rest", seconds)
        speeds.setdefault((pair.peer.name, doing), []).append(pair.other.finish())
        return value

    return run


def _loss(
    speeds: dict[tuple[str, str], list[float]], peer: str, options: Options, at_most: float | None = None
) -> Result:
    alone, beside = speeds.get((peer, IDLE)), speeds.get((peer, EXCHANGING))
    what = f"busy server, what its thread loses over {peer}"
    if not alone or not beside:
        return Result(what, None, "%", at_most=at_most, note=options.skipped.get(peer, "not measured"))
    lost = summary.median([(1 - b / a) * 100 for a, b in zip(alone, beside, strict=False)])
    turns = [table.number(summary.median(x) / 1e6) for x in (alone, beside)]
    return Result(what, lost, "%", at_most=at_most, note=f"{turns[0]} million turns a second alone, {turns[1]} beside")


if __name__ == "__main__":
    question.run(measure, __doc__)
