"""Python programs that communicate at the speed of the hardware without being changed.

    python -m fastsock.launcher app.py      runs an unmodified program
    from fastsock import socket             the standard API for new code, plus typed arrays

`install()` does the launcher's work from code, and `uninstall()` undoes it. `explain(sock)`, `connections()` and
`transports()` show what happens.

A file beside this one is something that a user imports, runs, or writes a path with. A folder is how it is done.
Arrows run downwards only, from one line of this list to those below it:

    testing       checks for paths and devices; doctor: which paths work here, and how fast; dask: a comm for dask
    mpj           the MPI layer; rmi: remote calls; active: active messages
    xxdev         devices: messages between ranks, each rank a process or a thread
    buffers       memory that goes from process to process without a copy
    launcher      python -m fastsock.launcher
    launching     putting fastsock into programs that do not name it
    reporting     what is told of connections
    socket        the module that stands in for the standard one
    channel_socket  the same where paths to other hosts are there
    stream_socket   the class whose connections stay TCP and gain memory
    patching      what is replaced in a running Python, and put back
    connection    one TCP connection as its program sees it
    meeting       how two ends find each other beside TCP
    chain         the paths in their order: shm, rdma, sdp, tcp
    transport     what every path is
    config        the settings
    arrays        typed-array framing; array_format: its header
    registered    how buffers do it
    system        the system as it is, whatever a program puts in its place
    core          the native core

tests/test_architecture.py holds this.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .launching.installation import LateInstallWarning
    from .reporting.explanation import Explanation

__version__ = "0.1.0"
__all__ = [
    "LateInstallWarning",
    "attach",
    "connections",
    "explain",
    "install",
    "release",
    "transports",
    "uninstall",
]


def install() -> None:
    """Makes the standard module `socket` give fast sockets in this process and its child Pythons. Idempotent.

    Warns (LateInstallWarning) when a module imported the plain class before, and names the module. Raises ConfigError
    if a setting cannot be used. Then nothing has changed.
    """
    from .launching import installation as module

    module.install(stacklevel=2)


def uninstall() -> None:
    """Undoes install(). Connections that exist stay as they are. Idempotent."""
    from .launching import installation as module

    module.uninstall()


def explain(sock: Any) -> Explanation:
    """The path that `sock` takes, the reason, the other end, and the bytes that went over it."""
    from .reporting.explanation import explain as function

    return function(sock)


def connections() -> list[Explanation]:
    """One explanation for each TCP-stream connection of this process: the open ones, then the last 1,000 closed."""
    from .reporting.explanation import connections as function

    return function()


def attach(sock: Any, timeout: float | None = 1.0) -> bool:
    """Gives a connection memory now, however young it is. Returns whether it has memory.

    The other end calls this too, or sends and receives meanwhile. timeout: seconds, None for ever.
    """
    from .connection.carriers import attach as function

    return function(sock, timeout)


def release(sock: Any) -> None:
    """Lets TCP carry all bytes of such a connection from now on, for good. For a number that other code takes next.

    Raises OSError if unread bytes are in the way.
    """
    from .connection.carriers import give_away, number_of

    give_away(number_of(sock))


def transports() -> dict[str, str]:
    """Each path that this version knows, fastest first, and "works" or the reason why it does not here."""
    from . import chain

    return {path.name: str(path.usable() or "works") for path in chain.transports()}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first asked for: the import is slow, and few programs need it."""
    if name == "LateInstallWarning":
        from .launching.installation import LateInstallWarning

        return LateInstallWarning
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
