"""Two ranks on one RDMA device: `ibvdev`, and `iodev` over TCP beside it."""

from __future__ import annotations

import sys
from collections.abc import Callable

from . import mpi
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


def calls(peer: mpi.Mpi, sizes: list[int], cores: tuple[int, int]) -> dict[int, float]:
    """For each size, the system calls of both ranks for a message there and back. Raises Broken."""
    words = ["--cores", ",".join(map(str, cores)), "--sizes", ",".join(map(str, sizes))]
    return {entry["size"]: entry["value"] for entry in mpi.run(peer, 2, "system_calls", words, _TIMEOUT)}
