"""`map` and `starmap` of executors, with results in order or as they come."""

from __future__ import annotations

import concurrent.futures
import itertools
import time
from collections import deque
from concurrent.futures import Future, as_completed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Self


class Mapping:
    """Gives an executor that has `submit` also `map` and `starmap`."""

    if TYPE_CHECKING:

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            """Submit a callable to be executed with the given arguments."""

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Return an iterator over the results of ``map(fn, *iterables)``. The options are those of `starmap`."""
        return self.starmap(fn, zip(*iterables), timeout, chunksize, buffersize, **kwargs)  # noqa: B905  (as map)

    def starmap(
        self,
        fn: Callable[..., Any],
        iterable: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
        **kwargs: Any,
    ) -> Iterator[Any]:
        """Return an iterator over the results of ``itertools.starmap(fn, iterable)``.

        `timeout`: seconds from now on until TimeoutError is raised instead of a result. `chunksize`: how many calls go
        to a worker at a time. `buffersize`: how many chunks are submitted before their results are asked for (None:
        all). `unordered=True`: results as they come. Raises ValueError for sizes below 1 and for a buffersize with
        `unordered`, TypeError for an unknown argument.
        """
        unordered = kwargs.pop("unordered", False)
        if kwargs:
            raise TypeError(f"unexpected argument {next(iter(kwargs))!r}")
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        if buffersize is not None:
            if not isinstance(buffersize, int):
                raise TypeError("buffersize must be an integer or None")
            if buffersize < 1:
                raise ValueError("buffersize must be None or > 0")
            if unordered:
                raise ValueError("buffersize and unordered exclude each other")
        end = None if timeout is None else time.monotonic() + timeout
        chunks = _chunks(iterable, chunksize)
        submitted = (self.submit(_call_all, fn, chunk) for chunk in chunks)
        if unordered:
            found = _as_they_come(list(submitted), end)
        else:
            first = deque(submitted if buffersize is None else itertools.islice(submitted, buffersize))
            found = _in_order(first, submitted, end)
        return itertools.chain.from_iterable(found)


class _Counted(Mapping):
    _max_workers: int

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self._max_workers

    def bootup(self, wait: bool = True) -> Self:
        """Do nothing: workers begin when there is work."""
        return self


class ThreadPoolExecutor(_Counted, concurrent.futures.ThreadPoolExecutor):
    """`concurrent.futures.ThreadPoolExecutor` with the calls of `MPIPoolExecutor`."""


class ProcessPoolExecutor(_Counted, concurrent.futures.ProcessPoolExecutor):
    """`concurrent.futures.ProcessPoolExecutor` with the calls of `MPIPoolExecutor`."""


def _chunks(iterable: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(iterable)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _call_all(function: Callable[..., Any], chunk: list[tuple[Any, ...]]) -> list[Any]:
    return [function(*arguments) for arguments in chunk]


def _left(end: float | None) -> float | None:
    return None if end is None else end - time.monotonic()


def _in_order(first: deque[Future[Any]], more: Iterator[Future[Any]], end: float | None) -> Iterator[Any]:
    try:
        while first:
            result = first[0].result(_left(end))
            first.popleft()
            first.extend(itertools.islice(more, 1))
            yield result
    finally:
        for future in first:
            future.cancel()


def _as_they_come(futures: list[Future[Any]], end: float | None) -> Iterator[Any]:
    try:
        for future in as_completed(futures, _left(end)):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
