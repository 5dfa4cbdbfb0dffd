"""Workers of one executor alone: ranks that it spawns, or those of a server that it connects to."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from ...launching.options import interpreter_options
from ..communicators.comm import Comm
from ..dynamic.names import Lookup_name
from ..info import Info
from .run import Run, Work, WorkerPool
from .worker_pool import Ranks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SERVICE = "mpi4py.futures"
HOST, PORT = "localhost", 31415
_MODULE = "fastsock.mpj.futures.server"


class OwnRanks(WorkerPool):
    """Workers that are there from an executor's first task to its end. `meet` gives the communicator with them."""

    def __init__(self, size: int, meet: Callable[[], Any]) -> None:
        """`size`: how many there will be, 0 where only `meet` tells."""
        self.size = size
        self._meet = meet

    def begin(self, run: Run) -> Work:
        """Meet the workers, and set them up. Raises what `meet` raises."""
        between = self._meet()
        ranks = Ranks(between, imports=True)
        self.size = ranks.size
        return _Ending(ranks.begin(run), ranks)


class _Ending(Work):
    """As another work; the workers go home at its end."""

    def __init__(self, work: Work, ranks: Ranks) -> None:
        self._work, self._ranks = work, ranks

    @property
    def busy(self) -> bool:
        return bool(self._work.busy)

    def step(self) -> bool:
        return self._work.step()

    def wants_more(self) -> bool:
        return self._work.wants_more()

    def end(self) -> None:
        self._ranks.stop()
        self._ranks.comm.Disconnect()


def spawned(
    alone: Any, count: int, python_exe: str | None, python_args: Sequence[str] | None, hints: Mapping[str, str] | None
) -> OwnRanks:
    """So many workers that are spawned. `alone`: COMM_SELF."""
    options, _ = interpreter_options(sys.orig_argv)
    words = [*options, *(python_args or ()), "-m", _MODULE]

    def meet() -> Any:
        info = Info.Create(hints or {})
        return alone.Spawn(python_exe or sys.executable, words, count, info)

    return OwnRanks(count, meet)


def served(alone: Any, service: Any, hints: Mapping[str, str] | None) -> OwnRanks:
    """The workers of a server: of the name of a service, or of a pair of host and port."""

    def meet() -> Any:
        if isinstance(service, (list, tuple)):
            import socket

            host, number = service
            address = host or os.environ.get("MPI4PY_FUTURES_SERVER_HOST", HOST), int(number or server_port())
            with socket.create_connection(address) as sock:
                peer = Comm.Join(sock.fileno())
            port = peer.recv(None, 0)
            peer.Disconnect()
        else:
            port = Lookup_name(service or service_name())
        return alone.Connect(port, Info.Create(hints or {}))

    return OwnRanks(0, meet)


def service_name() -> str:
    """The name of the service where none is told."""
    return os.environ.get("MPI4PY_FUTURES_SERVICE", SERVICE)


def server_port() -> int:
    """The port of a server where none is told."""
    return int(os.environ.get("MPI4PY_FUTURES_SERVER_PORT", PORT))


def before_exit(act: Callable[[], None]) -> None:
    """Calls back when the main thread has ended, before threads are waited for: as `concurrent.futures` does."""
    register: Any = getattr(threading, "_register_atexit")  # noqa: B009
    register(act)
