"""Connections of two processes that met before: native code takes them from connect() and accept() to close().

Without the core no memory can be reserved, so there are none.
"""

from __future__ import annotations

from collections.abc import Callable

try:
    from . import _repeated as native
except ImportError:
    native = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def bind_class(
    fast: type, data_calls: dict[str, Any], attach: Callable[..., None], detach: Callable[[int], None]
) -> None:
    """Gives the socket class the native calls.

    data_calls: by name, those calls of the class in whose place a connected socket has its channel's. attach, detach:
    what notes that a number is a fast connection's, or is no longer.
    """
    if native is not None:
        native.bind_class(fast, data_calls, attach, detach)
