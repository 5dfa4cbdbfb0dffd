"""Lets the standard selectors look at the rings before they block, because a sleep is their main cost.

Under the launcher the standard selectors, and so asyncio, spin on the rings for a moment. If the other ends run on the
same core, they hand the core over instead. While they watch a non-blocking connection, its doorbell may stay rung
("lazy"). Then an exchange costs no system call. The doorbell is made exact ("settled") before they block. Selectors
that are not patched always see exact doorbells.
"""

from __future__ import annotations

import selectors

from .. import core
from ..config import settings
from ..system.genuine import genuine
from . import numbers
from .patches import Patches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_READ = selectors.EVENT_READ
_KERNEL_EVERY = 16  # other descriptors must be heard even while the rings are busy
_POOR_SUCCESS = 0.3
_PROBE_EVERY = 16
_LOOK_EVERY = 0.001  # seconds: how long the death of a peer may hide behind a doorbell that was left rung


class _Watch:
    """The fast connections that one selector watches for reading."""

    __slots__ = ("by_descriptor", "channels", "patience", "settled_at", "skipped", "success", "turn", "writers")

    def __init__(self) -> None:
        self.by_descriptor: dict[int, core.Channel] = {}
        self.channels: list[core.Channel] = []
        self.patience = core.Patience() if settings().spin_us > 0 else None
        self.settled_at = 0.0
        self.writers = 0
        self.turn = 0
        self.success = 1.0
        self.skipped = 0

    def add(self, key: Any) -> None:
        if key.events & selectors.EVENT_WRITE:
            self.writers += 1
        channel = numbers.channel_of(key.fd)
        # The descriptor of any other path is always exact, because the kernel speaks for it.
        if isinstance(channel, core.Channel) and key.events & _READ:
            self.by_descriptor[key.fd] = channel
            self.channels = list(self.by_descriptor.values())
            channel.set_lazy(channel.is_non_blocking())

    def drop(self, key: Any) -> None:
        if key.events & selectors.EVENT_WRITE:
            self.writers -= 1
        channel = self.by_descriptor.pop(key.fd, None)
        if channel is not None:
            self.channels = list(self.by_descriptor.values())
            channel.set_lazy(False)
            if channel.fileno() >= 0:
                channel.settle()

    def budget(self, timeout: float | None) -> float:
        """How many microseconds to spin. It is 0 if spinning has mostly found nothing of late."""
        if timeout is not None and timeout <= 0:
            return 0.0
        if self.success < _POOR_SUCCESS:
            self.skipped += 1
            if self.skipped % _PROBE_EVERY:
                return 0.0
        spin: float = settings().spin_us
        return spin if timeout is None else min(spin, timeout * 1e6)


def patch(patches: Patches) -> None:
    """Lets the selectors of the standard library spin on rings. Needs the native core."""
    if not core.available:
        return
    for name in ("SelectSelector", "PollSelector", "EpollSelector"):
        kind = getattr(selectors, name, None)
        if kind is not None:
            patches.replace(kind, "register", _register(kind.register))
            patches.replace(kind, "unregister", _unregister(kind.unregister))
            patches.replace(kind, "modify", _modify(kind.modify))
            patches.replace(kind, "select", _select(kind.select))


def _watch_of(selector: Any) -> _Watch:
    watch: _Watch | None = selector.__dict__.get("_fast_watch")
    if watch is None:
        watch = selector._fast_watch = _Watch()
    return watch


def _like(original: Any, replacement: Any) -> Any:
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(replacement, name, getattr(original, name))
    return replacement


def _register(original: Any) -> Any:
    def register(self, fileobj, events, data=None):  # type: ignore[no-untyped-def]
        key = original(self, fileobj, events, data)
        _watch_of(self).add(key)
        return key

    return _like(original, register)


def _unregister(original: Any) -> Any:
    def unregister(self, fileobj):  # type: ignore[no-untyped-def]
        key = original(self, fileobj)
        _watch_of(self).drop(key)
        return key

    return _like(original, unregister)


def _modify(original: Any) -> Any:
    def modify(self, fileobj, events, data=None):  # type: ignore[no-untyped-def]
        watch = _watch_of(self)
        before = self._fd_to_key.get(self._fileobj_lookup(fileobj))
        # the base class's modify() goes through register() and unregister(), which keep the books already
        calls_others = original.__qualname__.startswith("_BaseSelectorImpl")
        key = original(self, fileobj, events, data)
        if before is not None and before.events != key.events and not calls_others:
            watch.drop(before)
            watch.add(key)
        return key

    return _like(original, modify)


def _without_stale(watch: _Watch, found: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The events that the kernel found, except those of doorbells that were left rung."""
    kept = []
    for key, events in found:
        channel = watch.by_descriptor.get(key.fd)
        if channel is not None and events & _READ and channel.is_stale():
            events &= ~_READ
        if events:
            kept.append((key, events))
    return kept


def _select(original: Any) -> Any:
    ready_among, settle_all = core.ready_among, core.settle_all

    def select(self, timeout=None):  # type: ignore[no-untyped-def]
        watch = self.__dict__.get("_fast_watch")
        if watch is None or not watch.channels:
            return original(self, timeout)
        watch.turn += 1
        budget = watch.budget(timeout)
        may_wait = timeout is None or timeout > 0
        ready = ready_among(watch.channels, budget, watch.patience if may_wait else None)
        if budget:
            watch.success += ((1.0 if ready else 0.0) - watch.success) / 8
        if not ready:
            if not may_wait and genuine.monotonic() - watch.settled_at < _LOOK_EVERY:
                return _without_stale(watch, original(self, timeout))
            if not settle_all(watch.channels):
                watch.settled_at = genuine.monotonic()
                return original(self, timeout)
            ready = ready_among(watch.channels, 0.0)
        found = {}  # by descriptor: what a program attached to its key need not be hashable
        for channel in ready:
            key = self._fd_to_key.get(channel.fileno())
            if key is not None and key.events & _READ:
                found[key.fd] = (key, _READ)
        if watch.writers or not found or watch.turn % _KERNEL_EVERY == 0:
            for key, events in original(self, 0 if found else timeout):
                found[key.fd] = (key, found[key.fd][1] | events if key.fd in found else events)
        return list(found.values())

    return _like(original, select)
