"""Connects to a `fastsock://` address."""

from __future__ import annotations

import _socket
import asyncio
import errno

from distributed.comm.addressing import parse_host_port, unparse_host_port
from distributed.comm.core import CommClosedError, Connector
from distributed.comm.tcp import RequireEncryptionMixin

from .. import socket as fast
from .comm import FastComm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NUMERIC = _socket.AI_NUMERICHOST | _socket.AI_NUMERICSERV


class FastConnector(Connector, RequireEncryptionMixin):
    """Makes the comm of a connecting end."""

    prefix = "fastsock://"
    comm_class = FastComm
    encrypted = False

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> FastComm:
        """Raises CommClosedError where nobody listens there, RuntimeError where dask's settings ask for encryption."""
        self._check_encryption(address, connection_args)
        host, port = parse_host_port(address)
        sock = await self._connected(address, host, port)
        try:
            local = self.prefix + unparse_host_port(*sock.getsockname()[:2])
            return self.comm_class(sock, local, self.prefix + address, deserialize)
        except OSError as error:  # the other end has closed it already
            sock.close()
            raise self._error(address, error) from error

    async def _connected(self, address: str, host: str, port: int) -> fast.socket:
        """By the first of the host's addresses where somebody listens."""
        failure: OSError = OSError(errno.EADDRNOTAVAIL, "the name has no address")
        try:
            found = await _resolve(host, port)
        except OSError as error:
            raise self._error(address, error) from error
        for family, place in found:
            sock = fast.socket(family, _socket.SOCK_STREAM)
            try:
                sock.setblocking(False)
                sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
                await asyncio.get_running_loop().sock_connect(sock, place)
                return sock
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
        raise self._error(address, failure) from failure

    def _error(self, address: str, error: OSError) -> CommClosedError:
        return CommClosedError(f"cannot connect to {self.prefix}{address}: {type(error).__name__}: {error}")


async def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    """A name is looked up in another thread, a number at once."""
    try:
        found: Any = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM, 0, _NUMERIC)
    except _socket.gaierror as error:
        if error.errno != _socket.EAI_NONAME:
            raise
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=_socket.SOCK_STREAM)
    return [(family, place) for family, _, _, _, place in found]
