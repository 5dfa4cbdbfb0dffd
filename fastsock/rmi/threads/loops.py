"""Event loops, told from any thread."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from typing import Any


def call_in(loop: AbstractEventLoop, function: Callable[..., object], *arguments: Any) -> bool:
    """Has the loop call the function soon. False: the loop is closed, and nobody there waits for it any more."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True
