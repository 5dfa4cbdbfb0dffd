"""The interfaces that algorithms are written in. For annotations only: nothing imports this when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

View = memoryview
"""Contiguous bytes: format "B"."""
Data = View | list[View]
"""What one message carries: bytes, or several pieces that are gathered from or scattered into memory."""
Land = Callable[[], None]
"""Puts received data where they belong. It is called once everything is there."""
Prepared = tuple[tuple[Any, ...], Land | None]
"""The arguments of an algorithm, and the step after it."""


class Request(Protocol):
    """An operation under way in the engine."""

    done: bool
    error: BaseException | None
    callback: Callable[[Any], None] | None
    payload: Any


Steps = Iterable[Sequence[Request]]
"""A running algorithm: each item is what must complete before the next is asked for."""


class Recorder(Protocol):
    """Takes an engine's place while a text is written down; views are not of memory then."""

    def isend(self, data: Any, peer: int, tag: int, context: int) -> Any: ...
    def irecv(self, data: Any, peer: int, tag: int, context: int) -> Any: ...
    def scratch(self, nbytes: int) -> Any: ...


class Combine(Protocol):
    """A reduction on packed elements: target = source op target. The source comes from the lower ranks."""

    commutative: bool
    itemsize: int
    """Bytes of one element: vectors are cut only at its multiples."""
    kernel: Any
    """What the native kernels know it by, (type, operation); None where they do not."""

    def __call__(self, source: View, target: View) -> None: ...
