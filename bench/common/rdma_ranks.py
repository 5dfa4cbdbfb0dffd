"""Two ranks on one RDMA device: `ibvdev`, and `iodev` over TCP beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from . import mpi, system_calls
from .exchange import PING_PONG, STREAM

IBVDEV, IODEV = "ibvdev", "ranks over tcp"
_KINDS = {PING_PONG: "latency", STREAM: "bandwidth"}
_TIMEOUT = 240.0  # seconds: a Python starts slowly on an emulated processor


def peers(device: str) -> list[mpi.Mpi]:
    """How the ranks of each kind are started."""
    run = (sys.executable, "-m", "fastsock.mpj.run", "-n", "{ranks}", "--as-mpi4py", "--device")
    return [
        mpi.Mpi(IODEV, (*run, "iodev"), sys.executable, (("FASTSOCK_TRANSPORTS", "tcp"),)),
        mpi.Mpi(IBVDEV, (*run, "ibvdev"), sys.executable, (("FASTSOCK_MPJ_RDMA_DEVICE", device),)),
    ]


class Turn:
    """What ranks reach in one turn: one start of them measures every size, when the first is asked for."""

    def __init__(self, peer: mpi.Mpi, sizes: list[int], cores: tuple[int, int], sent: Callable[[], None]) -> None:
        self._peer, self._sizes, self._cores = peer, sizes, cores
        self._sent = sent
        self._found: dict[tuple[str, int], float] = {}

    def value(self, what: str, size: int) -> float:
        """Microseconds a round trip, or gigabytes a second. Raises Broken."""
        if not self._found:
            cores = ",".join(map(str, self._cores))
            words = ["--cores", cores, "--seconds", "0.05", "--what", ",".join(_KINDS.values())]
            words += ["--sizes", ",".join(map(str, self._sizes))]
            for entry in mpi.run(self._peer, 2, "point_to_point", words, _TIMEOUT):
                self._found[entry["what"], entry["size"]] = entry["value"]
            self._sent()
        return self._found[_KINDS[what], size]


def calls(peer: mpi.Mpi, size: int, messages: int, cores: tuple[int, int]) -> float:
    """System calls of both ranks for a message there and back. Raises Unusable, Broken."""

    def total(count: int) -> int:
        with TemporaryDirectory(prefix="fastsock-bench-") as folder:
            file = Path(folder) / "calls"
            traced = mpi.Mpi(peer.name, (*system_calls.tracer(file), *peer.command), peer.python, peer.environment)
            mpi.run(traced, 2, "exchange", [str(size), str(count), ",".join(map(str, cores))], _TIMEOUT)
            return system_calls.total(file)

    few, many = (total(count) for count in (messages, 5 * messages))
    return (many - few) / (4 * messages)  # what the start costs falls out
