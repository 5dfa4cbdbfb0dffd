"""Which connections may leave TCP, for another host or for a path of another author, and their offer."""

from __future__ import annotations

import _socket

from .. import chain
from ..meeting import names, near
from ..transport import Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..meeting import remote

_Base: Any = _socket.socket
_family = _Base.family.__get__  # the plain number: the property of the standard class makes an enumeration's member


def offer_to(sock: Any, address: Any) -> tuple[near.NearOffer | remote.RemoteOffer | None, Refused | None]:
    """Reaches the listener at `address` by a path that takes the connection from TCP.

    Returns the offer, or None and the reason why the connection stays on TCP. It is (None, None) for a listener on this
    host that may be reached by memory.
    """
    if not chain.may_span() and not chain.may_meet():
        return None, None
    ip, port = resolved(sock, address)
    if ip is None:
        return None, Refused(Reason.SYSTEM_ERROR)
    try:
        offer, refused = near.offer_to(sock, ip, port) if chain.may_meet() else (None, None)
        if offer is not None or not chain.may_span():
            return offer, refused
        if chain.stays_on_tcp("connect", ip, port) is None and names.is_local(ip, _family(sock)):
            return None, refused
        path, why_not = chain.between_hosts("connect", ip, port)
        if path is None:
            return None, refused or Refused(why_not)
        from ..meeting import remote  # most hosts have no device for it

        far, reason = remote.offer_to(sock, ip, port)
    except Refused as error:
        return None, error
    except OSError as error:
        chain.log.debug("no offer to %s: %s", address, error)
        return None, Refused.by(error)
    return far, None if far is not None else Refused(reason)


def resolved(sock: Any, address: Any) -> tuple[str | None, int]:
    """The numeric address that connect() will use. It is (None, 0) if connect() itself must raise the error."""
    if type(address) is not tuple or len(address) < 2 or type(address[0]) is not str or type(address[1]) is not int:
        return None, 0
    host, port = address[0], address[1]
    try:
        names.packed(host)
        return host, port
    except (OSError, ValueError):
        pass
    if not host or host == "<broadcast>" or not 0 < port < 65536:
        return None, 0
    try:
        return str(_socket.getaddrinfo(host, port, _family(sock), _socket.SOCK_STREAM)[0][4][0]), port
    except (OSError, ValueError):
        return None, 0
