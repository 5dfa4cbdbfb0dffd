"""Ports are opened and closed (MPI 4.1, section 11.9.1)."""

from __future__ import annotations

from .. import ranks
from ..constants import ERR_OTHER, ERR_PORT
from ..info import INFO_NULL, Info


def Open_port(info: Info = INFO_NULL) -> str:
    """Return the name of a new port: `host:port:token`. Who knows it can connect to this rank.

    It is reached from where this rank is: set FASTSOCK_MPJ_INTERFACE to an IP of this host for other hosts. Raises
    MPI.Exception (ERR_OTHER) where nothing can listen.
    """
    from .port import Port

    world = ranks.current()
    try:
        port = Port(world.job.interface)
    except OSError as error:
        raise world.everyone.fail(ERR_OTHER, f"no port can be opened at {world.job.interface}: {error}") from error
    world.ports[port.name] = port
    return port.name


def Close_port(port_name: str) -> None:
    """Close a port that this rank has opened. Raises MPI.Exception (ERR_PORT) where it has not, or closed it before."""
    world = ranks.current()
    port = world.ports.pop(port_name, None)
    if port is None:
        raise world.everyone.fail(ERR_PORT, f"this rank has no open port {port_name!r}")
    port.close()
