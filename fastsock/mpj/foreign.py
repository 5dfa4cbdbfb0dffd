"""Arrays that do not speak the buffer protocol but one of the array libraries'."""

from __future__ import annotations

from . import _memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def buffer_of(source: Any, readonly: bool) -> _memory.buffer | None:
    """Returns the memory of a foreign array; None where the object is none."""
    return None
