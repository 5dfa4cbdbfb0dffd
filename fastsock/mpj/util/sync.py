"""Synchronization of ranks. `Sequential` goes by messages. The others need windows, and raise NotImplementedError."""

from __future__ import annotations

from ..absent import ONE_SIDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, NoReturn, Self

__all__ = ["Condition", "Counter", "Mutex", "Semaphore", "Sequential"]


class Sequential:
    """A context that the ranks of a communicator enter one after another."""

    def __init__(self, comm: Any, tag: int = 0) -> None:
        """Take the communicator, and the tag of the messages that say whose turn it is."""
        self.comm = comm
        self.tag = int(tag)

    def __enter__(self) -> Self:
        """Do what `begin` does."""
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do what `end` does."""
        self.end()

    def begin(self) -> None:
        """Wait until it is this rank's turn."""
        rank = self.comm.Get_rank()
        if rank > 0:
            self.comm.Recv([bytearray(), 0, "B"], rank - 1, self.tag)

    def end(self) -> None:
        """Let the next rank have its turn."""
        rank = self.comm.Get_rank()
        if rank + 1 < self.comm.Get_size():
            self.comm.Send([b"", 0, "B"], rank + 1, self.tag)


class _InWindows:
    def __init__(self, *_: Any, **__: Any) -> NoReturn:
        """Raises NotImplementedError: there is no one-sided communication."""
        raise NotImplementedError(f"mpi4py.util.sync.{type(self).__name__}: {ONE_SIDED}")


class Counter(_InWindows):
    """A counter of all ranks. Not there: raises NotImplementedError."""


class Mutex(_InWindows):
    """Mutual exclusion among ranks. Not there: raises NotImplementedError."""


class Condition(_InWindows):
    """A condition variable of all ranks. Not there: raises NotImplementedError."""


class Semaphore(_InWindows):
    """A semaphore of all ranks. Not there: raises NotImplementedError."""
