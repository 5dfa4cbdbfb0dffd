"""Groups that meet by a port: Accept and Connect (MPI 4.1, section 11.9)."""

from __future__ import annotations

from ..communicators.communicator_record import Communicator
from ..communicators.introduction import introduce
from ..constants import ERR_PORT
from ..exceptions import Exception as MPIException
from .beside import beside
from .line import StreamLine
from .port import connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def accept(communicator: Communicator, port_name: str, root: int) -> Communicator:
    """Returns the intercommunicator with the next group that connects. The port is the root's."""

    def dial() -> StreamLine:
        port = communicator.world.ports.get(port_name)
        if port is None:
            raise MPIException(ERR_PORT, f"rank {root} of {communicator.title} has no open port {port_name!r}")
        return await_one(communicator, port)

    communicator.root(root, communicator.size)
    return introduce(communicator, root, dial, first=True, error_class=ERR_PORT)


def await_one(communicator: Communicator, port: Any) -> StreamLine:
    """The line to whoever connects next. Raises PortError."""
    sock = beside(communicator.engine, port.accept, port.cancel, port.accept_at_once)
    return StreamLine(sock, port.token, communicator.engine)


def call(communicator: Communicator, port_name: str, root: int) -> Communicator:
    """Returns the intercommunicator with the group that accepts at the port."""

    def dial() -> StreamLine:
        sock, token = beside(communicator.engine, lambda: connect(port_name), _nothing)
        return StreamLine(sock, token, communicator.engine)

    communicator.root(root, communicator.size)
    return introduce(communicator, root, dial, first=False, error_class=ERR_PORT)


def _nothing() -> None:
    """The thread that connects ends by itself, at the latest with the process."""
