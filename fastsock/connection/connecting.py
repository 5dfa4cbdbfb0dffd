"""Decides whether a new connection may leave TCP, and makes its offer."""

from __future__ import annotations

import _socket

from .. import chain
from ..meeting import custody, history, names, ports, presence, waiting
from ..meeting.offer import Offer
from ..transport import Reason, Refused
from . import fallback
from .elsewhere import resolved
from .foreign import takes_descriptor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..meeting import remote

_Base: Any = _socket.socket
_EXCLUDED = (Reason.EXCLUDED_BY_SETTING, Reason.EXCLUDED_BY_RULE)
_NOBODY_HERE = (*_EXCLUDED, Reason.NO_LISTENER_PRESENCE, Reason.PEER_NOT_LOCAL)
_family = _Base.family.__get__  # the plain number: the property of the standard class makes an enumeration's member


def offer_to(sock: Any, address: Any) -> tuple[Offer | remote.RemoteOffer | None, Reason]:
    """Makes an offer to the listener at `address`: on this host, if one with fastsock is there, else on another host.

    Returns the offer, or None and the reason why the connection stays on TCP.
    """
    try:
        nothing_else = chain.nothing_but_tcp()
        if nothing_else is not None:
            return None, nothing_else
        ip, port = resolved(sock, address)
        if ip is None:
            return None, Reason.SYSTEM_ERROR
        offer, reason = _offer_here(sock, address, ip, port)
        if offer is not None or reason not in _NOBODY_HERE:
            return offer, reason
        path, why_not = chain.between_hosts("connect", ip, port)
        if path is not None:
            from ..meeting import remote  # most hosts have no device for it

            return remote.offer_to(sock, ip, port)
        return None, why_not if reason in _EXCLUDED else reason
    except Refused as refused:
        return None, refused.reason
    except OSError as error:
        chain.log.debug("no offer to %s: %s", address, error)
        reason = Refused.by(error).reason
        return None, Reason.NO_PORT if reason is Reason.SYSTEM_ERROR else reason


def _offer_here(sock: Any, address: Any, ip: str, port: int) -> tuple[Offer | None, Reason]:
    paths, reason = chain.candidates("connect", ip, port)
    if not paths:
        return None, reason
    if history.has_short_connections((ip, port), fallback.last(address)):
        return None, Reason.SHORT_LIVED_BEFORE
    if not presence.has_presence(ip, port):
        local = names.is_loopback(ip) or names.is_local(ip, _family(sock))
        return None, Reason.NO_LISTENER_PRESENCE if local else Reason.PEER_NOT_LOCAL
    if not names.is_local(ip, _family(sock)):
        return None, Reason.PEER_NOT_LOCAL
    custody.learn((ip, port))
    if history.lets_offers_lapse((ip, port)):
        return None, Reason.LISTENER_LAPSED_BEFORE
    if sock._fast_watched:  # a poller follows the open file, and the move closes that file
        return None, Reason.DESCRIPTOR_WATCHED
    bound = ports.take(sock)
    ahead = _Base.gettimeout(sock) == 0 and custody.is_possible(paths) and not waiting.has_patience()
    if ahead and takes_descriptor(sock):
        return None, Reason.DESCRIPTOR_TAKEN
    return Offer(bound, ip, port, paths, ahead, ports.hold(sock)), Reason.JOINED
