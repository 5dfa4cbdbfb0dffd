"""Waiting for what no message brings, while the messages of this rank go on."""

from __future__ import annotations

import threading

from fastsock.system.starting import start_without_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def beside(engine: Any, act: Callable[[], Any], cancel: Callable[[], None]) -> Any:
    """Returns what `act()` returns; it runs in a thread, while this one serves the engine.

    `cancel` makes it return soon: called where this thread is interrupted. Raises what `act` raises.
    """
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
