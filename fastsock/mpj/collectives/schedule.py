"""Algorithms that go on by themselves: non-blocking collectives.

The engine follows an algorithm's schedule (`recording`), which is made once for all calls of its kind on a
communicator. Any call of any thread that makes progress brings it further, without Python.

What cannot be written down goes on in Python: the engine runs the callback of the request that an algorithm waits for,
and the callback runs the algorithm's next steps.
"""

from __future__ import annotations

from contextlib import suppress

from .recording import NotRecordableError, Recorder, recorded, shape
from .scratch import scratch
from .table import TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fastsock.core.binding._schedule import Schedule

    from .exchange import Exchange, InterExchange
    from .protocols import Request, Steps

MOST = 1024
"""Schedules of one communicator that are kept."""
_changes = [0]
"""Of the selection table: a schedule is of the algorithm that was chosen."""


def _changed() -> None:
    _changes[0] += 1


TABLE.watch(_changed)


def follow(
    exchange: Exchange | InterExchange, text: Callable[..., Steps], arguments: tuple[Any, ...], **options: Any
) -> Request:
    """Start an algorithm; the request completes with its last step, or with what went wrong."""
    memory: list[memoryview] = []
    schedule = find(exchange, text, arguments, memory, **options)
    if schedule is None:
        return start(exchange, text(exchange, *arguments, **options))
    return exchange.engine.start(bound(schedule, memory), exchange.tags)  # type: ignore[no-any-return]


def find(
    exchange: Exchange | InterExchange,
    text: Callable[..., Steps],
    arguments: tuple[Any, ...],
    memory: list[memoryview],
    **options: Any,
) -> Schedule | None:
    """The schedule of a call, for memory that is added to `memory`. None where there is none."""
    kept = exchange.schedules
    if kept is None:
        return None
    try:
        key = (_changes[0], text, *options.values(), *[shape(argument, memory) for argument in arguments])
    except NotRecordableError:
        return None
    try:
        return kept[key]
    except KeyError:
        if len(kept) >= MOST:
            kept.clear()
        found = kept[key] = _written(exchange, text, arguments, options)
        return found


def _written(
    exchange: Exchange | InterExchange, text: Callable[..., Steps], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Schedule | None:
    recorder = Recorder(exchange.contexts)
    with suppress(Exception):  # whatever is wrong with the call, the text itself tells it better
        given = [recorded(argument, recorder) for argument in arguments]
        return recorder.schedule(text(exchange.recorded(recorder), *given, **options))
    return None


def bound(schedule: Schedule, memory: list[memoryview]) -> Any:
    """A schedule on the memory of a call."""
    return schedule.bind([scratch(schedule.scratch), *memory])


def start(exchange: Any, steps: Steps) -> Request:
    """Start an algorithm that goes on in Python; the request completes as that of `follow`."""
    user_request: Any = exchange.engine.user_request()
    _Stepwise(user_request, steps).advance()
    return user_request  # type: ignore[no-any-return]


class _Stepwise:
    __slots__ = ("_pending", "_steps", "_user_request")

    def __init__(self, user_request: Any, steps: Steps) -> None:
        self._user_request = user_request
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
            self._user_request.complete()
        except BaseException as error:
            self._user_request.complete(error)
