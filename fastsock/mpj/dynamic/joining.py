"""Two processes that have a connected socket become two groups of one (MPI 4.1, section 11.10)."""

from __future__ import annotations

import _socket
import struct

from fastsock.system.originals import originals
from fastsock.system.reading import exactly

from ..communicators.communicator_record import Communicator
from ..communicators.introduction import introduce
from ..constants import ERR_OTHER
from .beside import beside
from .line import StreamLine
from .port import Port, connect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TOKEN = struct.Struct("!8s16s")
_MAGIC = b"FSJOIN1\0"
_LENGTH = struct.Struct("!H")


def join(world: Any, descriptor: int) -> Communicator:
    """Returns the intercommunicator with the process at the other end; a collective call of both."""
    sock = _socket.socket(fileno=originals.dup(descriptor))
    engine = world.engine

    def meet() -> tuple[Any, bytes, bool]:
        """The connection of the two, what its ends know, and whether this one comes first."""
        sock.setblocking(True)
        own = originals.urandom(16)
        sock.sendall(_TOKEN.pack(_MAGIC, own))
        magic, other = _TOKEN.unpack(exactly(sock, _TOKEN.size))
        if magic != _MAGIC or own == other:
            raise ConnectionError("the other end of the socket does not call Join")
        if own < other:
            port = Port(world.job.interface)
            try:
                name = port.name.encode()
                sock.sendall(_LENGTH.pack(len(name)) + name)
                return port.accept(), port.token, True
            finally:
                port.close()
        name = exactly(sock, _LENGTH.unpack(exactly(sock, _LENGTH.size))[0])
        return *connect(name.decode()), False

    try:
        made, secret, first = beside(engine, meet, lambda: sock.shutdown(_socket.SHUT_RDWR))
    except OSError as error:
        raise world.alone.fail(ERR_OTHER, f"Join: {error}") from error
    finally:
        sock.close()
    return introduce(world.alone, 0, lambda: StreamLine(made, secret, engine), first=first)
