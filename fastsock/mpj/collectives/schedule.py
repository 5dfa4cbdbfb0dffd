"""Algorithms that go on by themselves: non-blocking collectives.

Any call of any thread may drive the engine's progress. It then runs the callback of the request that an algorithm waits
for, and the callback runs the algorithm's next steps.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .exchange import Exchange
    from .protocols import Request, Steps


def start(exchange: Exchange, steps: Steps) -> Request:
    """Start an algorithm; the request completes with its last step, or with what went wrong."""
    promise: Any = exchange.engine.promise()
    _Schedule(promise, steps).advance()
    return promise  # type: ignore[no-any-return]


class _Schedule:
    __slots__ = ("_pending", "_promise", "_steps")

    def __init__(self, promise: Any, steps: Steps) -> None:
        self._promise = promise
        self._steps = iter(steps)
        self._pending: Iterator[Request] = iter(())

    def advance(self, request: Request | None = None) -> None:
        """Go on as far as possible; called again when `request`, the first that was in the way, is done."""
        try:
            while True:
                if request is not None and request.error is not None:
                    raise request.error
                for request in self._pending:
                    if not request.done:
                        request.callback = self.advance  # which may call it at once
                        return
                    if request.error is not None:
                        raise request.error
                request = None
                self._pending = iter(next(self._steps))
        except StopIteration:
            self._promise.complete()
        except BaseException as error:
            self._promise.complete(error)
