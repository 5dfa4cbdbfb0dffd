"""Memory for data on their way.

Large pieces are kept, and given out again when nobody holds a view of them any more. Fresh memory would cost a page
fault for each page, as much as the message itself.
"""

from __future__ import annotations

import sys

from ..datatypes._memory import take_first

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .protocols import View

LARGE = 1 << 16
MOST_KEPT = 1 << 27
"""Bytes."""
_kept: list[Any] = []


def scratch(nbytes: int) -> View:
    """Memory of one's own, with anything in it."""
    if nbytes < LARGE:
        return memoryview(_new(nbytes))
    for _ in range(len(_kept)):
        try:
            memory, alone = take_first(_kept)  # nobody else has it until it is back
        except IndexError:
            break
        free = alone and nbytes <= len(memory) <= 2 * nbytes
        view = memoryview(memory)[:nbytes] if free else None
        _kept.append(memory)
        if view is not None:
            return view
    memory = _new(nbytes)
    view = memoryview(memory)
    _kept.append(memory)
    while sum(map(len, _kept)) > MOST_KEPT:
        _kept.pop(0)  # whoever still has a view of it keeps it alive
    return view


def _new(nbytes: int) -> Any:
    numpy = sys.modules.get("numpy")  # never imported for this: it is slow to load
    return bytearray(nbytes) if numpy is None else numpy.empty(nbytes, "u1")
