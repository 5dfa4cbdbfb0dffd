"""Futures made of other futures."""

from __future__ import annotations

import threading
from concurrent.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


def collect(fs: Iterable[Future[Any]]) -> Future[list[Any]]:
    """Return a future whose result is the list of the results of futures.

    The first that fails makes it fail, the first that is cancelled cancels it. All others are then cancelled. They are
    also cancelled when it is cancelled itself.
    """
    futures = list(fs)
    whole: Future[list[Any]] = type(futures[0])() if futures else Future()
    if not futures:
        whole.set_result([])
        return whole
    left = set(range(len(futures)))
    lock = threading.Lock()

    def cancel_all() -> None:
        for future in futures:
            future.cancel()

    def ended(number: int, future: Future[Any]) -> None:
        with lock:
            left.discard(number)
            last = not left
        if future.cancelled():
            if whole.cancel():
                whole.set_running_or_notify_cancel()
            cancel_all()
        elif future.exception() is not None:
            _settle(whole, error=future.exception())
            cancel_all()
        elif last:
            _settle(whole, lambda: [each.result() for each in futures])

    def given_up(future: Future[Any]) -> None:
        if future.cancelled():
            cancel_all()

    whole.add_done_callback(given_up)
    for number, future in enumerate(futures):
        future.add_done_callback(lambda future, number=number: ended(number, future))  # type: ignore[misc]
    return whole


def compose(
    future: Future[Any],
    resulthook: Callable[[Any], Any] | None = None,
    excepthook: Callable[[BaseException], Any] | None = None,
) -> Future[Any]:
    """Return a future of what a function makes of another future's result, or of its exception.

    What `excepthook` returns is the result, or the exception where it is one. What a function raises is the exception.
    Cancelling one future cancels the other.
    """
    composed: Future[Any] = type(future)()

    def ended(future: Future[Any]) -> None:
        if future.cancelled():
            if composed.cancel():
                composed.set_running_or_notify_cancel()
            return
        error = future.exception()
        try:
            if error is None:
                value = future.result()
                _settle(composed, lambda: resulthook(value) if resulthook is not None else value)
                return
            found = error if excepthook is None else excepthook(error)
        except BaseException as other:
            found = other
        if isinstance(found, BaseException):
            _settle(composed, error=found)
        else:
            _settle(composed, lambda: found)

    def given_up(composed: Future[Any]) -> None:
        if composed.cancelled():
            future.cancel()

    composed.add_done_callback(given_up)
    future.add_done_callback(ended)
    return composed


def _settle(future: Future[Any], result: Callable[[], Any] | None = None, error: BaseException | None = None) -> None:
    """End a future that may have been cancelled, or ended by another thread."""
    if future.done() or not future.set_running_or_notify_cancel():
        return
    if result is None:
        future.set_exception(error)
        return
    try:
        value = result()
    except BaseException as raised:
        future.set_exception(raised)
    else:
        future.set_result(value)
