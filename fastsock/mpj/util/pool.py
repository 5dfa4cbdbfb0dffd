"""The interface of `multiprocessing.pool` over `fastsock.mpj.futures`: other ranks are the processes."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import CancelledError, Future

from ..futures.executor import MPIPoolExecutor
from ..futures.gathering import collect
from ..futures.mapping import ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Any, Self

__all__ = ["ApplyResult", "AsyncResult", "MapResult", "Pool", "ThreadPool"]

_CHUNKS = 4  # for each worker, where nobody says how long a chunk is


class AsyncResult:
    """The result of a call that may not be done yet."""

    def __init__(
        self,
        future: Future[Any],
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> None:
        """Take the future of the result, and functions to call with the result or with the exception."""
        self._future = future
        self._ready = threading.Event()
        self._callback, self._error_callback = callback, error_callback
        future.add_done_callback(self._done)

    def _done(self, future: Future[Any]) -> None:
        try:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                if self._callback is not None:
                    self._callback(future.result())
            elif self._error_callback is not None:
                self._error_callback(error)
        finally:
            self._ready.set()

    def get(self, timeout: float | None = None) -> Any:
        """Return the result, or raise the exception of the call.

        Raises TimeoutError where it does not arrive in `timeout` seconds, or where the pool was terminated.
        """
        if not self._ready.wait(timeout):
            raise TimeoutError
        try:
            return self._future.result()
        except CancelledError:
            raise TimeoutError("the pool was terminated") from None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is available or `timeout` seconds pass."""
        self._ready.wait(timeout)

    def ready(self) -> bool:
        """Return whether the call is done."""
        return self._ready.is_set()

    def successful(self) -> bool:
        """Return whether the call raised no exception. Raises ValueError where it is not done."""
        if not self.ready():
            raise ValueError(f"{self!r} not ready")
        return not self._future.cancelled() and self._future.exception() is None


class ApplyResult(AsyncResult):
    """The result of `apply_async()`."""


class MapResult(AsyncResult):
    """The result of `map_async()` and `starmap_async()`."""


class Pool:
    """A pool whose processes are other ranks; `multiprocessing.pool.Pool`'s interface."""

    Executor: type[Any] = MPIPoolExecutor

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        **kwargs: Any,
    ) -> None:
        """Take the number of workers, a function that each calls first, and further options of the executor.

        Raises as `MPIPoolExecutor` does. `maxtasksperchild` and `context` change nothing, and are warned of.
        """
        for name in ("maxtasksperchild", "context"):
            if kwargs.pop(name, None) is not None:
                warnings.warn(f"{type(self).__name__}: argument {name!r} is not used", stacklevel=2)
        self.executor = self.Executor(processes, initializer=initializer, initargs=tuple(initargs), **kwargs)

    def apply(self, func: Callable[..., Any], args: Iterable[Any] = (), kwds: Mapping[str, Any] = {}) -> Any:
        """Return what `func(*args, **kwds)` returns in a worker."""
        return self.apply_async(func, args, kwds).get()

    def apply_async(
        self,
        func: Callable[..., Any],
        args: Iterable[Any] = (),
        kwds: Mapping[str, Any] = {},
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> ApplyResult:
        """Start what `apply` does. A callback gets the result, or the exception."""
        return ApplyResult(self.executor.submit(func, *args, **kwds), callback, error_callback)

    def map(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int | None = None) -> list[Any]:
        """Return the results of `func` for each item. `chunksize`: how many calls go to a worker at a time."""
        return list(self.map_async(func, iterable, chunksize).get())

    def map_async(
        self,
        func: Callable[[Any], Any],
        iterable: Iterable[Any],
        chunksize: int | None = None,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> MapResult:
        """Start what `map` does. A callback gets the list, or the exception."""
        return self.starmap_async(func, ((item,) for item in iterable), chunksize, callback, error_callback)

    def imap(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """Return an iterator over the results of `func` for each item, in order."""
        return iter(self.executor.map(func, iterable, chunksize=chunksize))

    def imap_unordered(self, func: Callable[[Any], Any], iterable: Iterable[Any], chunksize: int = 1) -> Iterator[Any]:
        """Return an iterator over the results of `func` for each item, as they come."""
        return iter(self.executor.map(func, iterable, chunksize=chunksize, unordered=True))

    def starmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int | None = None
    ) -> list[Any]:
        """Return the list of the results of `func(*item)` for each item."""
        return list(self.starmap_async(func, iterable, chunksize).get())

    def starmap_async(
        self,
        func: Callable[..., Any],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
        callback: Callable[[Any], object] | None = None,
        error_callback: Callable[[BaseException], object] | None = None,
    ) -> MapResult:
        """Start what `starmap` does. A callback gets the list, or the exception."""
        items = list(iterable)
        if chunksize is None:
            chunksize = -(-len(items) // (_CHUNKS * max(self.executor.num_workers, 1)))
        size = max(chunksize, 1)
        chunks = [items[start : start + size] for start in range(0, len(items), size)]
        whole = collect([self.executor.submit(_star, func, chunk) for chunk in chunks])
        joined: Future[Any] = Future()

        def gathered(future: Future[list[list[Any]]]) -> None:
            if future.cancelled():
                joined.cancel()
                joined.set_running_or_notify_cancel()
            elif (error := future.exception()) is not None:
                joined.set_exception(error)
            else:
                joined.set_result([result for results in future.result() for result in results])

        whole.add_done_callback(gathered)
        return MapResult(joined, callback, error_callback)

    def istarmap(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int = 1
    ) -> Iterator[Any]:
        """Return an iterator over the results of `func(*item)` for each item, in order."""
        return iter(self.executor.starmap(func, iterable, chunksize=chunksize))

    def istarmap_unordered(
        self, func: Callable[..., Any], iterable: Iterable[Iterable[Any]], chunksize: int = 1
    ) -> Iterator[Any]:
        """Return an iterator over the results of `func(*item)` for each item, as they come."""
        return iter(self.executor.starmap(func, iterable, chunksize=chunksize, unordered=True))

    def close(self) -> None:
        """Take no further calls."""
        self.executor.shutdown(wait=False)

    def terminate(self) -> None:
        """Take no further calls, and cancel those that no worker has begun."""
        self.executor.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait until all calls are done."""
        self.executor.shutdown(wait=True)

    def __enter__(self) -> Self:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the pool."""
        self.close()


class ThreadPool(Pool):
    """A pool whose workers are threads of this process."""

    Executor = ThreadPoolExecutor


def _star(function: Callable[..., Any], items: list[Iterable[Any]]) -> list[Any]:
    return [function(*arguments) for arguments in items]
