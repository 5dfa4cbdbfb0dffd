"""Lets the standard selectors look at the rings before they block, because a sleep is their main cost.

Under the launcher the standard selectors, and so asyncio, spin on the rings for a moment. If the other ends run on the
same core, they hand the core over instead. While they watch a non-blocking connection, its doorbell may stay rung
("lazy"). Then an exchange costs no system call. The doorbell is made exact ("settled") before they block. Selectors
that are not patched always see exact doorbells.

The calls themselves are native (`core/binding/selecting.pxi`): a program that stays on TCP makes them too.
"""

from __future__ import annotations

import selectors
from types import MethodType

from .. import core
from ..config import settings
from . import numbers
from .patches import Patches


def patch(patches: Patches) -> None:
    """Lets the selectors of the standard library spin on rings. Needs the native core."""
    for name in ("SelectSelector", "PollSelector", "EpollSelector"):
        kind = getattr(selectors, name, None)
        if kind is not None:
            for call, replacement in core.selector_calls(kind, numbers.known, _spin_us).items():
                patches.replace(kind, call, replacement)


def patch_one(selector: selectors.BaseSelector) -> None:
    """The same for one selector of the standard library, for as long as it lives. Idempotent.

    For libraries that use fast sockets in a program whose selectors are not patched.
    """
    kind = type(selector)
    if core.available and kind.__module__ == "selectors" and settings().upgrade:
        from . import polling

        polling.patch_one(selector)
        return
    if not core.available or kind.__module__ != "selectors" or core.is_selector_call(kind.select):
        return
    if "select" in vars(selector):
        return
    for name, call in core.selector_calls(kind, numbers.known, _spin_us).items():
        setattr(selector, name, MethodType(call, selector))
    core.watch_registered(selector, numbers.known, _spin_us)


def _spin_us() -> float:
    return settings().spin_us
