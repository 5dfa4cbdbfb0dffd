"""Types of the notes of who asks for numbers; the docstrings are in `_watching.pyx`."""

from collections.abc import Callable
from types import FrameType
from typing import Any

def asked(descriptor: int, frame: FrameType) -> None: ...
def explains(descriptor: int) -> None: ...
def guard_notes(lock: Any) -> None: ...
def show_to_c(
    modules: tuple[str, ...], hook: Callable[[int, FrameType], None], known: dict[str, tuple[int, bool]]
) -> None: ...
def watch_by(
    polling: Callable[[], bool],
    asker: Callable[[FrameType], FrameType | None],
    known: dict[str, str],
    package: Callable[[dict[str, object]], str],
    good: str,
    passing_on: frozenset[str],
) -> dict[int, Any]: ...
def watched_for_good(descriptor: int) -> None: ...
