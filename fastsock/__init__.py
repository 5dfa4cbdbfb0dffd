"""Python programs that communicate at the speed of the hardware without being changed.

    python -m fastsock.launcher app.py      runs an unmodified program
    from fastsock import socket             the standard API for new code, plus typed arrays

`install()` and `uninstall()` do the launcher's work from code; `explain(sock)`, `connections()` and
`transports()` show what happens.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .explanation import Explanation

__version__ = "0.1.0"
__all__ = ["connections", "explain", "install", "transports", "uninstall"]


def install() -> None:
    """Makes the standard module `socket` give fast sockets in this process and its child Pythons. Idempotent.

    Warns (LateInstallWarning), naming the modules, when something imported the plain class before.
    """
    from . import installation as module

    module.install(stacklevel=2)


def uninstall() -> None:
    """Undoes install(). Connections that exist stay as they are. Idempotent."""
    from . import installation as module

    module.uninstall()


def explain(sock: Any) -> Explanation:
    """What path `sock` takes and why, with whom, and what went over it."""
    from .explanation import explain as function

    return function(sock)


def connections() -> list[Explanation]:
    """One explanation for each TCP-stream connection of this process: the open ones, then the last 1,000 closed."""
    from .explanation import connections as function

    return function()


def transports() -> dict[str, str]:
    """Each path that this version knows, fastest first, and "works" or the reason why it does not here."""
    from . import chain

    return {path.name: str(path.usable() or "works") for path in chain.transports()}
