"""Descriptor numbers keep their meaning from the first fast connection on, or from an installation.

Only this module knows which functions were replaced for that.
"""

from __future__ import annotations

import socket

from . import descriptor_table, os_calls, passing
from .patches import Patches

_raised: Patches | None = None
_kinds: list[type[socket.socket]] = [socket.socket]


def cover(kind: type[socket.socket]) -> None:
    """Lets activate() know a class whose `sendmsg` is not the standard one's."""
    _kinds.append(kind)


def activate() -> None:
    """Lets os.read, os.sendfile, subprocess and their kin know fast descriptors, unless they do already."""
    if _raised is None:
        activate_for(*_kinds)


def activate_for(*kinds: type[socket.socket]) -> None:
    """As activate(), and `sendmsg` of these classes too."""
    global _raised
    if _raised is None:
        _raised = Patches()
    os_calls.patch(_raised, descriptor_table)
    passing.patch(_raised, descriptor_table)
    for kind in kinds:
        passing.patch_sendmsg(_raised, kind, descriptor_table)


def withdraw() -> list[str]:
    """Undoes activate(), unless fast connections exist: without it their descriptors would mean nothing.

    Returns the names that other code has replaced since.
    """
    global _raised
    if _raised is None or descriptor_table.descriptors():
        return []
    raised, _raised = _raised, None
    left = raised.undo()
    descriptor_table.before_first_attach(activate)
    return left
