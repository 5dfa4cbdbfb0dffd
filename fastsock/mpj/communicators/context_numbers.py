"""The numbers of communicators. No two communicators of a process have the same number."""

from __future__ import annotations

WORLD, SELF, INTERNAL = 0, 1, 2
"""Numbers that are never given: the predefined communicators, and what belongs to none."""
FIRST = 3
LIMIT = 1 << 30
