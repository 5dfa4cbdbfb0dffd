"""Waiting for what no message brings, while the messages of this rank go on."""

from __future__ import annotations

import threading

from fastsock.system.originals import originals
from fastsock.system.starting import start_without_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_MOMENT_S = 0.001  # a thread costs a tenth of it


def beside(
    engine: Any, act: Callable[[], Any], cancel: Callable[[], None], look: Callable[[], Any] | None = None
) -> Any:
    """Returns what `act()` returns; it runs in a thread, while this one serves the engine.

    `cancel` makes it return soon: called where this thread is interrupted. `look`: returns the same without waiting, or
    None where that is not there yet; then no thread begins for a moment. Raises what `act` or `look` raises.
    """
    if look is not None:
        found = _look_for_a_moment(engine, look)
        if found is not None:
            return found
    result: list[Any] = []
    done = engine.user_request()

    def run() -> None:
        try:
            result.append(act())
        except BaseException as error:
            done.complete(error)
        else:
            done.complete()

    thread = threading.Thread(target=run, name="fastsock-beside", daemon=True)
    start_without_signals(thread)
    try:
        done.wait()
    except BaseException:
        if done.error is not None:
            raise done.error from None
        cancel()
        raise
    if done.error is not None:
        raise done.error
    return result[0]


def _look_for_a_moment(engine: Any, look: Callable[[], Any]) -> Any:
    until = originals.monotonic() + _MOMENT_S
    while True:
        found = look()
        if found is not None or originals.monotonic() > until:
            return found
        if not engine.progress():
            engine.give_way()
