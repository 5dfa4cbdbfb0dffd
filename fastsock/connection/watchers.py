"""Who watches the number of a connection: fastsock's pollers, or somebody whom fastsock does not see.

Most programs ask a socket for its number and register that with a poller. So whoever asks may watch the number unseen.
What the kernel shows of it is exact from then on, until a poller of fastsock is given the number by the same package. A
package that never does so, as it polls by C code of its own, leaves the connection as it is: exact, or without memory.

The notes are native (`core/binding/_watching.pyx`): a loop's connections that end early pay for them, too.
"""

from __future__ import annotations

import os
import sys

from ..system.originals import originals
from . import foreign

try:
    from ..core.binding import _polling as polling
    from ..core.binding import _watching as native
except ImportError:  # then no connection gains memory
    native = polling = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

# These modules ask for the number to show it, or to hand it to another call that is seen by itself.
_ONLY_NOTES = frozenset(("socket", "ssl", "fastsock.stream_socket", "fastsock.channel_socket"))
# The modules of the standard library hand numbers to one another: one asks, another one registers.
_STANDARD = frozenset(sys.stdlib_module_names - {"__main__"})
_LIBRARY, _FOR_GOOD = "the standard library", "for good"
_MOST_KNOWN = 4096

_packages: dict[str, str] = {}


def _package(names: dict[str, object]) -> str:
    name = names.get("__name__")
    if not isinstance(name, str):
        return "?"
    found = _packages.get(name)
    if found is None:
        top = name.partition(".")[0]
        found = _LIBRARY if top in _STANDARD else top
        if len(_packages) >= _MOST_KNOWN:
            _packages.clear()
        _packages[name] = found
    return found


def asked(descriptor: int, frame: FrameType) -> None:
    """The program asks for the number in `frame`, and may watch it."""
    native.asked(descriptor, frame)


def _guard() -> None:
    native.guard_notes(originals.RLock())


if native is not None:
    _guard()
    os.register_at_fork(after_in_child=_guard)
    unexplained = native.watch_by(polling.is_asking, foreign.asking, _packages, _package, _FOR_GOOD, _ONLY_NOTES)
    polling.follow(unexplained, native.explains, native.watched_for_good)
