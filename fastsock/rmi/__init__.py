"""Remote calls: the objects of another process, called at the speed of fastsock's sockets.

    @rmi.expose
    class Store:
        def add(self, a: int, b: int) -> int: ...

    with rmi.Daemon() as daemon:                        # in one process
        daemon.register(Store(), "store")
        daemon.serve()

    store = rmi.connect("rmi:store", Store)             # in another one
    store.add(1, 2)

docs/reference/remote-calls.md tells the rest.

names, managers         python -m fastsock.rmi.names, a name server; multiprocessing.managers over fastsock's sockets
pickled                 what managers are made of
server                  the accepting end: from a listener to an object
aio                     proxies for event loops
client                  the connecting end: from an address to a proxy; futures, batches
objects                 an object, its proxy, and the session between the two ends
threads                 the threads that serve connections
wire                    one connection, both roles at once: hello, frames, calls
codec                   values to bytes and back, and the classes that travel
api                     what a program says of its classes
errors, interrupts      what can go wrong; Ctrl-C, and what signal handlers raise

Each stands on those below it. Above the socket class; nothing in fastsock imports it. The path of a call is
compiled, so without the native core there are no remote calls. Tests: tests/rmi.
"""

import sys

if sys.platform != "linux":
    raise ImportError(f"fastsock.rmi needs Linux, and this is {sys.platform}")

from .. import core as _core

if not _core.available:
    raise ImportError(f"fastsock.rmi needs the native core: {_core.why_not}")

from . import aio
from .api.interfaces import HiddenMethodsWarning, Remote, expose, idempotent, oneway
from .client.awaiting import wait_for
from .client.connecting import connect, secure
from .client.futures import Future, Result, batch, deadline, future, within
from .codec import by_value_buffers  # noqa: F401  # it enters the classes of buffers
from .codec.values import register, value
from .errors import (
    BadAddress,
    BadFrame,
    CallTimeout,
    ConnectError,
    ConnectRefused,
    ConnectTimeout,
    Deadlock,
    LimitExceeded,
    ListenError,
    LostPeer,
    NotPackable,
    Refused,
    RemoteError,
    RmiError,
    UnknownHost,
    UnknownMethod,
    UnknownObject,
    VersionMismatch,
)
from .objects.proxy import close, closing
from .objects.references import callback, reference
from .objects.session import Limits
from .server.daemon import Daemon

__all__ = [
    "BadAddress",
    "BadFrame",
    "CallTimeout",
    "ConnectError",
    "ConnectRefused",
    "ConnectTimeout",
    "Daemon",
    "Deadlock",
    "Future",
    "HiddenMethodsWarning",
    "LimitExceeded",
    "Limits",
    "ListenError",
    "LostPeer",
    "NotPackable",
    "Refused",
    "Remote",
    "RemoteError",
    "Result",
    "RmiError",
    "UnknownHost",
    "UnknownMethod",
    "UnknownObject",
    "VersionMismatch",
    "aio",
    "batch",
    "callback",
    "close",
    "closing",
    "connect",
    "deadline",
    "expose",
    "future",
    "idempotent",
    "oneway",
    "reference",
    "register",
    "secure",
    "value",
    "wait_for",
    "within",
]
