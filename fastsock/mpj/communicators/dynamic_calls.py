"""What the folder `dynamic` does for communicators. It stands above this one, and puts its calls here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

calls: Any
