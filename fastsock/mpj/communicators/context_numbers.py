"""The numbers of communicators. No two communicators of a process have the same number."""

from __future__ import annotations

from fastsock.system.originals import originals

WORLD, SELF, INTERNAL = 0, 1, 2
"""Numbers that are never given: the predefined communicators, and what belongs to none."""
FIRST = 3
OUTSIDE = 1 << 29
"""From here on are those of communicators with members of several jobs: all members agree on one that is free."""
LIMIT = 1 << 30


def proposed() -> int:
    """Returns a number for a communicator with members of several jobs: one that is hardly in use anywhere."""
    return OUTSIDE + int.from_bytes(originals.urandom(4), "big") % (LIMIT - OUTSIDE)
