"""Futures with `then` and `catch`, as the promises of JavaScript have them."""

from __future__ import annotations

from concurrent.futures import Future

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ThenableFuture"]


class ThenableFuture(Future):  # type: ignore[type-arg]
    """A future with `then` and `catch`."""

    def then(
        self,
        on_success: Callable[[Any], Any] | None = None,
        on_failure: Callable[[BaseException], Any] | None = None,
    ) -> ThenableFuture:
        """Return a future of what a function makes of the result, or of the exception.

        A future that a function returns is waited for. An exception that it returns or raises is the exception. Where
        this future is cancelled the new one is too, but not the other way round.
        """
        new = type(self)()

        def ended(base: Future[Any]) -> None:
            if new.cancelled():
                return
            if base.cancelled():
                new.cancel()
                new.set_running_or_notify_cancel()
                return
            error = base.exception()
            try:
                if error is not None:
                    value = error if on_failure is None else on_failure(error)
                else:
                    value = base.result()
                    if on_success is not None:
                        value = on_success(value)
            except BaseException as raised:
                value = raised
            _resolve(new, value, [new])

        self.add_done_callback(ended)
        return new

    def catch(self, on_failure: Callable[[BaseException], Any] | None = None) -> ThenableFuture:
        """Return `then(None, on_failure)`; without a function an exception becomes the result None."""
        return self.then(None, (lambda _: None) if on_failure is None else on_failure)


def _resolve(new: Future[Any], value: Any, chain: list[Any]) -> None:
    """End a future with a value, an exception, or as another future ends."""
    if isinstance(value, Future):
        if any(value is link for link in chain):
            _end(new, error=RuntimeError(f"chain cycle detected: {value!r} waits for itself"))
            return

        def ended(other: Future[Any]) -> None:
            if other.cancelled():
                if new.cancel():
                    new.set_running_or_notify_cancel()
            elif other.exception() is not None:
                _end(new, error=other.exception())
            else:
                _resolve(new, other.result(), [*chain, other])

        value.add_done_callback(ended)
    elif isinstance(value, BaseException):
        _end(new, error=value)
    else:
        _end(new, value)


def _end(new: Future[Any], value: Any = None, error: BaseException | None = None) -> None:
    if new.done() or not new.set_running_or_notify_cancel():
        return
    if error is not None:
        new.set_exception(error)
    else:
        new.set_result(value)
