"""Synchronization of ranks, with mpi4py's names: counters, mutexes, conditions and semaphores that all ranks share.

What is counted lies in a window. Who waits does so for a message, and looks at nothing again and again. One thread of a
rank at a time may use such an object.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from .. import MPI as _MPI  # which initializes
from ..constants import ANY_SOURCE, LOCK_SHARED
from ..datatypes.datatype import BYTE, Datatype
from ..datatypes.op import SUM, constants_by_name
from ..info import INFO_NULL
from ..messages.status import Status
from ..windows.win import Win

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

__all__ = ["Condition", "Counter", "Mutex", "Semaphore", "Sequential"]

_NOBODY = -1
_NOTHING = (None, 0, BYTE)
_REPLACE, _NO_OP = constants_by_name["REPLACE"], constants_by_name["NO_OP"]


class _Context:
    """What begins and ends a `with` block."""

    _enter: str
    _leave: str

    def __init_subclass__(cls, enter: str, leave: str) -> None:
        cls._enter, cls._leave = enter, leave

    def __enter__(self) -> Self:
        """Begin the block."""
        getattr(self, self._enter)()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the block."""
        getattr(self, self._leave)()


class Sequential(_Context, enter="begin", leave="end"):
    """A context that the ranks of a communicator enter one after another."""

    def __init__(self, comm: Any, tag: int = 0) -> None:
        """Take the communicator, and the tag of the messages that say whose turn it is."""
        self.comm = comm
        self.tag = int(tag)

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


class _Numbers:
    """Numbers of one type in the memory of one rank, which all ranks change atomically."""

    def __init__(self, values: Sequence[float], typecode: str, comm: Any, info: Any, root: int) -> None:
        datatype = Datatype.fromcode(typecode)
        self.typecode = datatype.typechar
        self.root = root
        here = array(self.typecode, values if comm.Get_rank() == root else [])
        self.window = Win.Allocate(len(here) * here.itemsize, here.itemsize, info, comm)
        memoryview(self.window).cast("B")[:] = memoryview(here).cast("B")
        comm.Barrier()

    def update(self, place: int, value: float, op: Any) -> Any:
        """Combines a value into a number; returns what it was."""
        given, before = array(self.typecode, [value]), array(self.typecode, [0])
        window, root = self.window, self.root
        window.Lock(root, LOCK_SHARED)
        try:
            window.Fetch_and_op(given, before, root, place, op)
        finally:
            window.Unlock(root)
        return before[0]

    def exchange(self, place: int, expected: float, value: float) -> bool:
        """Gives a number a value where it has another; returns whether it had."""
        given, compared, before = (array(self.typecode, [each]) for each in (value, expected, 0))
        window, root = self.window, self.root
        window.Lock(root, LOCK_SHARED)
        try:
            window.Compare_and_swap(given, compared, before, root, place)
        finally:
            window.Unlock(root)
        return bool(before[0] == expected)


class Counter:
    """A counter of all ranks. Calls raise RuntimeError after `free`."""

    def __init__(
        self,
        start: float = 0,
        step: float = 1,
        *,
        typecode: str = "i",
        comm: Any = None,
        info: Any = INFO_NULL,
        root: int = 0,
    ) -> None:
        """Take the first value, the step, the code of their type, and the rank that has them. All of `comm` call it."""
        self._step = step
        self._numbers: _Numbers | None = _Numbers([start], typecode, _given(comm), info, root)

    def __iter__(self) -> Self:
        """Return the counter."""
        return self

    def __next__(self) -> Any:
        """Return the value, and count on."""
        return self.next()

    def next(self, incr: float | None = None) -> Any:
        """Return the value, and add `incr` to it, or the step."""
        numbers = self._numbers
        if numbers is None:
            raise RuntimeError("the counter was freed")
        step = self._step if incr is None else incr
        return numbers.update(0, step, SUM if step else _NO_OP)

    def free(self) -> None:
        """Free the counter. All ranks call it; a second call does nothing."""
        numbers, self._numbers = self._numbers, None
        if numbers is not None:
            numbers.window.Free()


class Mutex(_Context, enter="acquire", leave="release"):
    """What one rank at a time has. Whoever came first has it first. Calls raise RuntimeError after `free`.

    The ranks that wait form a queue. A number at rank 0 tells its last one. Each tells the one before that it comes
    next, and hears from it when it has the mutex.
    """

    _NEXT, _YOURS = 0, 1

    def __init__(self, *, recursive: bool = False, comm: Any = None, info: Any = INFO_NULL) -> None:
        """`recursive`: the rank that has it may acquire it again. All ranks of `comm` call it."""
        self._recursive = bool(recursive)
        self._comm = _given(comm)
        self._private = self._comm.Dup()
        self._last: _Numbers | None = _Numbers([_NOBODY], "i", self._private, info, 0)
        self._count = 0

    def _alive(self) -> _Numbers:
        if self._last is None:
            raise RuntimeError("the mutex was freed")
        return self._last

    def acquire(self, blocking: bool = True) -> bool:
        """Get the mutex; wait for it unless `blocking` is false. Returns whether this rank has it.

        Raises RuntimeError where it has it already, unless it is recursive.
        """
        self._alive()
        if self._count:
            if not self._recursive:
                raise RuntimeError("this rank has the mutex already")
            self._count += 1
            return True
        if not self._get(blocking):
            return False
        self._count = 1
        return True

    def _get(self, blocking: bool) -> bool:
        last, me = self._alive(), self._private.Get_rank()
        if not blocking:
            return last.exchange(0, _NOBODY, me)
        before = last.update(0, me, _REPLACE)
        if before != _NOBODY:
            self._private.Send(_NOTHING, before, self._NEXT)
            self._private.Recv(_NOTHING, before, self._YOURS)
        return True

    def release(self) -> None:
        """Give the mutex back. Raises RuntimeError where this rank has not got it."""
        self._alive()
        if not self._count:
            raise RuntimeError("this rank has not got the mutex")
        self._count -= 1
        if not self._count:
            self._give()

    def _give(self) -> None:
        if self._alive().exchange(0, self._private.Get_rank(), _NOBODY):
            return
        status = Status()
        self._private.Recv(_NOTHING, ANY_SOURCE, self._NEXT, status)
        self._private.Send(_NOTHING, status.source, self._YOURS)

    def _suspend(self) -> int:
        """Gives the mutex back, however often it was acquired; returns how often that was."""
        count, self._count = self._count, 0
        self._give()
        return count

    def _resume(self, count: int) -> None:
        self._get(True)
        self._count = count

    def locked(self) -> bool:
        """Return whether this rank has the mutex."""
        self._alive()
        return self._count > 0

    def count(self) -> int:
        """Return how often this rank has acquired it."""
        self._alive()
        return self._count

    def free(self) -> None:
        """Give the mutex back where this rank has it, and free it. All ranks call it; a second call does nothing."""
        last = self._last
        if last is None:
            return
        if self._count:
            self._suspend()
        self._last = None
        last.window.Free()
        self._private.Free()


class Condition(_Context, enter="acquire", leave="release"):
    """Where ranks wait until another one notifies them. Calls raise RuntimeError after `free`.

    Rank 0 has a list of those that wait. Only who has the mutex looks at it.
    """

    _BEGIN, _END, _RANKS = 0, 1, 2  # places of the list: how many have left it, how many came, and who they are

    def __init__(
        self, mutex: Mutex | None = None, *, recursive: bool = True, comm: Any = None, info: Any = INFO_NULL
    ) -> None:
        """Take the mutex; without one it has its own, `recursive` or not. All ranks of `comm` call it."""
        self._owned = mutex is None
        self._mutex = Mutex(recursive=recursive, comm=comm, info=info) if mutex is None else mutex
        self._private = self._mutex._comm.Dup()
        self._size = self._private.Get_size()
        self._list: _Numbers | None = _Numbers([0, 0] + [_NOBODY] * self._size, "i", self._private, info, 0)

    def _alive(self, purpose: str = "") -> _Numbers:
        if self._list is None:
            raise RuntimeError("the condition was freed")
        if purpose and not self._mutex.locked():
            raise RuntimeError(f"this rank has not got the mutex: acquire it before it can {purpose}")
        return self._list

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the mutex."""
        self._alive()
        return self._mutex.acquire(blocking)

    def release(self) -> None:
        """Release the mutex."""
        self._alive()
        self._mutex.release()

    def locked(self) -> bool:
        """Return whether this rank has the mutex."""
        return self._mutex.locked()

    def wait(self) -> bool:
        """Give the mutex back, wait until another rank notifies, and get the mutex again. Returns True."""
        waiting = self._alive("wait")
        place = waiting.update(self._END, 1, SUM) % self._size
        waiting.update(self._RANKS + place, self._private.Get_rank(), _REPLACE)
        count = self._mutex._suspend()
        self._private.Recv(_NOTHING, ANY_SOURCE)
        self._mutex._resume(count)
        return True

    def wait_for(self, predicate: Callable[[], Any]) -> Any:
        """Wait until `predicate` returns something true; return that."""
        self._alive("wait")
        while not (result := predicate()):
            self.wait()
        return result

    def notify(self, n: int = 1) -> int:
        """Let up to `n` ranks go on that wait, the first first; return how many there were."""
        waiting = self._alive("notify")
        first, end = waiting.update(self._BEGIN, 0, _NO_OP), waiting.update(self._END, 0, _NO_OP)
        chosen = range(first, min(end, first + max(n, 0)))
        waiting.update(self._BEGIN, len(chosen), SUM)
        for number in chosen:
            rank = waiting.update(self._RANKS + number % self._size, 0, _NO_OP)
            self._private.Send(_NOTHING, rank)
        return len(chosen)

    def notify_all(self) -> int:
        """Let all ranks go on that wait; return how many there were."""
        return self.notify(self._size)

    def free(self) -> None:
        """Give the mutex back where this rank has it, and free the condition. All ranks call it."""
        waiting, self._list = self._list, None
        if waiting is None:
            return
        if self._mutex._last is not None and self._mutex.locked():
            self._mutex._suspend()
        if self._owned:
            self._mutex.free()
        waiting.window.Free()
        self._private.Free()


class Semaphore(_Context, enter="acquire", leave="release"):
    """A number of ranks that may go on at a time. Calls raise RuntimeError after `free`."""

    def __init__(self, value: int = 1, *, bounded: bool = True, comm: Any = None, info: Any = INFO_NULL) -> None:
        """Take the number. `bounded`: it never becomes larger. All ranks of `comm` call it."""
        if value < 0:
            raise ValueError(f"{value} ranks at a time: it is 0 or more")
        self._value = value
        self._bounded = bool(bounded)
        self._counter = Counter(value, comm=comm, info=info)
        self._condition = Condition(recursive=False, comm=comm, info=info)

    def acquire(self, blocking: bool = True) -> bool:
        """Take one off the number; wait while it is 0, unless `blocking` is false. Returns whether it was taken off."""
        with self._condition:
            while self._counter.next(0) == 0:
                if not blocking:
                    return False
                self._condition.wait()
            self._counter.next(-1)
            return True

    def release(self, n: int = 1) -> None:
        """Add `n` to the number. Raises ValueError for less than 1, or where a bounded one would become too large."""
        if n < 1:
            raise ValueError(f"{n} ranks more: it is 1 or more")
        with self._condition:
            if self._bounded and self._counter.next(0) + n > self._value:
                raise ValueError("the semaphore was released more often than acquired")
            self._counter.next(n)
            self._condition.notify(n)

    def free(self) -> None:
        """Free the semaphore. All ranks call it; a second call does nothing."""
        self._counter.free()
        self._condition.free()


def _given(comm: Any) -> Any:
    return _MPI.COMM_SELF if comm is None else comm
