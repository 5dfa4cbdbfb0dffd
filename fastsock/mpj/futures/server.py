"""The main program of workers: ranks that an executor has spawned, or that wait for one.

    python -m fastsock.mpj.run -n 4 -m fastsock.mpj.futures.server --service NAME
    python -m fastsock.mpj.run -n 4 -m fastsock.mpj.futures.server --bind HOST --port NUMBER

They work for one executor, until it is shut down: `MPIPoolExecutor(service=NAME)`, or `service=(HOST, NUMBER)`.
"""

from __future__ import annotations

import os
import sys

from ..runner.aborting import set_abort_status
from . import worker
from .spawned import server_port, service_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OPTIONS = ("--bind", "--port", "--service", "--info")


def main() -> None:
    """Work for who has spawned this rank, else for who connects."""
    from .. import MPI
    from ..communicators.comm import Comm

    try:
        between = Comm.Get_parent()
        if between == MPI.COMM_NULL:
            between = _accept(_options(sys.argv[1:]), MPI.COMM_WORLD)
        worker.serve(between, MPI.COMM_WORLD)
        between.Disconnect()
    except BaseException:
        set_abort_status(1)
        raise


def _options(words: list[str]) -> dict[str, str]:
    found = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in _OPTIONS or not (equals or rest):
            sys.exit(f"mpi4py.futures.server: {name!r} is no option with a value: there are {', '.join(_OPTIONS)}")
        found[name] = value if equals else rest.pop(0)
    return found


def _accept(options: dict[str, str], workers: Any) -> Any:
    """The communicator with the executor that connects first."""
    from ..dynamic.names import Publish_name, Unpublish_name
    from ..dynamic.opening import Close_port, Open_port

    port, service = "", ""
    if workers.rank == 0:
        port = Open_port()
        if "--bind" in options or "--port" in options:
            _tell(port, options)
        else:
            service = options.get("--service") or service_name()
            Publish_name(service, port)
    between = workers.Accept(port)
    if workers.rank == 0:
        if service:
            Unpublish_name(service, port)
        Close_port(port)
    return between


def _tell(port: str, options: dict[str, str]) -> None:
    """Tells one client that connects to a plain port where the workers wait."""
    import socket

    from ..communicators.comm import Comm

    host = options.get("--bind") or os.environ.get("MPI4PY_FUTURES_SERVER_BIND", "")
    with socket.create_server((host, int(options.get("--port") or server_port()))) as listener:
        sock, _ = listener.accept()
    with sock:
        peer = Comm.Join(sock.fileno())
    peer.send(port, 0)
    peer.Disconnect()


if __name__ == "__main__":
    main()
