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
        self._call: Any = initializer, initargs
        self.names = dict(options.get("globals") or {})
        self.path = [str(entry) for entry in options.get("path") or ()]
        self.directory = options.get("wdir")
        self.environ = dict(options.get("env") or {})
        self.script = Script() if options.get("main", True) else None

    def __getstate__(self) -> dict[str, Any]:
        """What is sent: the initializer may be a function of the script, which a worker imports before it loads it."""
        from ..messages.pickling import pickle

        return self.__dict__ | {"_call": bytes(pickle.dumps(self._call))}

    def initialize(self) -> None:
        """Call the initializer, if there is one."""
        if isinstance(self._call, bytes):
            from ..messages.pickling import pickle

            self._call = pickle.loads(self._call)
        initializer, arguments = self._call
        if initializer is not None:
            initializer(*arguments)
