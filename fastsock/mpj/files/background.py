"""Accesses that go on by themselves: a thread of the file makes them, one after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from fastsock.system.forkable import new_lock

from ..constants import ANY_SOURCE, ANY_TAG, SUCCESS
from ..messages.operation_records import Operation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_PATIENCE_S = 1.0
"""How long a thread waits for the next access: to start one costs more than a short access."""


class Access(Operation):
    """One access: `work` returns how many bytes it moved. `told` makes what is raised of an error."""

    __slots__ = ("bell", "count", "error", "file_engine", "finished", "told", "work")

    def __init__(self, engine: Any, work: Callable[[], int], told: Callable[[BaseException], BaseException]) -> None:
        super().__init__()
        self.file_engine = engine
        self.work: Callable[[], int] | None = work
        self.told = told
        self.bell = engine.user_request()
        self.count = 0
        self.error: BaseException | None = None
        self.finished = False

    def do(self) -> None:
        """Makes it, in the file's thread."""
        work, self.work = self.work, None
        try:
            if work is not None:
                self.count = work()
        except BaseException as error:
            self.error = error
        work = None  # the memory of the program is given back before it is told
        self.finished = True
        if not self.file_engine.closed:
            self.bell.complete()

    @property
    def engine(self) -> Any:
        return self.file_engine

    @property
    def active(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.finished

    @property
    def failed(self) -> bool:
        return self.error is not None

    def waits_for(self) -> list[Any]:
        return [self.bell]

    def look(self, status: Any) -> None:
        if status is not None:
            status._set(ANY_SOURCE, ANY_TAG, self.count, SUCCESS)

    def finish(self, status: Any) -> None:
        self.look(status)
        if self.error is not None:
            raise self.told(self.error) from self.error


class Background:
    """A thread for accesses. It begins with the first, and ends where none has come for a while."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition(new_lock())
        self._queue: deque[Access] = deque()
        self._last: Access | None = None
        self._runs = self._ends = False

    def add(self, access: Access) -> None:
        """Has an access made once those before it are."""
        with self._changed:
            self._queue.append(access)
            self._last = access
            starts, self._runs = not self._runs, True
            self._changed.notify()
        if starts:
            # it must not keep a program from its end
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._queue and not self._ends:
                    self._changed.wait(_PATIENCE_S)
                if not self._queue:
                    self._runs = False
                    return
                access = self._queue.popleft()
            access.do()
            del access  # with the memory of the program

    def settle(self) -> None:
        """Waits until all that were added are made."""
        last = self._last
        if last is not None:
            last.wait()
            self._last = None

    def end(self) -> None:
        """Waits for all, and lets the thread end."""
        self.settle()
        with self._changed:
            self._ends = True
            self._changed.notify()
