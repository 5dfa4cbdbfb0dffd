"""Connections whose meeting is under way. Their programs have not used them since they connected."""

from __future__ import annotations

import os
import sys
import weakref

from ..system.genuine import genuine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..meeting.offer import Offer
    from ..meeting.remote import RemoteOffer

_waiting: dict[int, weakref.ref[Any]] = {}


class Pending:
    """The connecting end's knowledge while its meeting is under way: its offer, and TCP's two addresses."""

    __slots__ = ("began", "begun", "local", "lock", "offer", "peer")

    def __init__(self, sock: Any, offer: Offer | RemoteOffer | RemoteOffer, local: Any, peer: Any) -> None:
        self.offer = offer
        self.local = local
        self.peer = peer
        self.lock = genuine.RLock()
        self.began = genuine.monotonic()
        self.begun = False
        _waiting[id(self)] = weakref.ref(sock, self._dropped)

    def _dropped(self, _: Any, is_ending: Any = sys.is_finalizing) -> None:
        if not is_ending():
            _waiting.pop(id(self), None)

    def withdraw(self) -> bool:
        """Ends the offer, unless the accepting end claimed the reservation. Says whether it ended."""
        with self.lock:
            ended = self.offer.withdraw()
            if ended:
                self.over()
            return ended

    def over(self) -> None:
        """The connection stays or has moved."""
        _waiting.pop(id(self), None)


def decide_all() -> None:
    """Called before a fork, because a reservation belongs to one process, and before a program closes every number."""
    for reference in _waiting.copy().values():
        sock = reference()
        if sock is not None:
            sock._fast_decide(may_go_ahead=False)


def _forked() -> None:
    """In a forked child: the offers are the parent's. Threads that the child lacks may hold their locks."""
    for reference in list(_waiting.values()):
        sock = reference()
        pending = None if sock is None else sock._fast_pending
        if pending is not None:
            pending.lock = genuine.RLock()
            pending.begun = False
            pending.offer.abandon()


os.register_at_fork(before=decide_all, after_in_child=_forked)
