"""The preparations that an executor asks of its workers."""

from __future__ import annotations

from .script import Script

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Setup:
    """What each worker does before it works for an executor."""

    OPTIONS = ("globals", "main", "path", "wdir", "env")

    def __init__(self, initializer: Callable[..., Any] | None, initargs: tuple[Any, ...], **options: Any) -> None:
        self.initializer, self.initargs = initializer, initargs
        self.names = dict(options.get("globals") or {})
        self.path = [str(entry) for entry in options.get("path") or ()]
        self.directory = options.get("wdir")
        self.environ = dict(options.get("env") or {})
        self.script = Script() if options.get("main", True) else None
