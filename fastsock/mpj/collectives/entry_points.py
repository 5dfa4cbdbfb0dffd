"""The two ways to call a primitive, made from its steps."""

from __future__ import annotations

from . import schedule
from .exchange import drive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Concatenate, ParamSpec

    from .exchange import Exchange
    from .protocols import Request, Steps

    Arguments = ParamSpec("Arguments")
    Blocking = Callable[Concatenate[Exchange, Arguments], None]
    Started = Callable[Concatenate[Exchange, Arguments], Request]


def entry_points(
    steps: Callable[Concatenate[Exchange, Arguments], Steps],
) -> tuple[Blocking[Arguments], Started[Arguments]]:
    """`run` and `start`. The first returns when this rank's part is done, the second returns a request at once."""

    def run(exchange: Exchange, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        drive(exchange, steps(exchange, *args, **kwargs))

    def start(exchange: Exchange, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Request:
        return schedule.follow(exchange, steps, args, **kwargs)

    return run, start
