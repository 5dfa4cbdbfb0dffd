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

managers, pickled           multiprocessing.managers over fastsock's sockets; its connections
names                       python -m fastsock.rmi.names: a name server
aio                         proxies for event loops
daemon, naming, leases      the accepting end: from a listener to an object; names for a server; what clients have back
connecting, reconnect       the connecting end: from an address to a proxy; again after a loss
reaching, awaiting          from a host and a port to a session, in time; waiting for a daemon
futures                     future, within, batch, deadline
introspection               what help() and completion show of them
proxy                       objects that look like those of another process
session                     what a connection does beside the path of every call
streams, references         generators, and objects that go by reference
exported                    an object with its functions by number
serial, chains              one call at a time, and those made on its behalf
workers, timers             the threads that serve connections, and what they do at a time
_connection                 one connection, both roles at once
addresses, keys, hello      names on this host, the user's key, its proof; secured: TLS
_codec, values              values to bytes and back, and the classes that are registered
unregistered, derived       the classes that travel though nobody registered them; subclasses of plain classes
libraries, refusals         what travels of the libraries; what is said of a value that cannot travel
interfaces, frames, errors  what can be called, how a frame looks, what can go wrong

Each file stands on those below it. Above the socket class; nothing in fastsock imports it. The path of a call is
compiled, so without the native core there are no remote calls. Tests: tests/rmi.
"""

import sys

if sys.platform != "linux":
    raise ImportError(f"fastsock.rmi needs Linux, and this is {sys.platform}")

from .. import core as _core

if not _core.available:
    raise ImportError(f"fastsock.rmi needs the native core: {_core.why_not}")

from . import aio, by_value_buffers  # noqa: F401  # the second enters the classes of buffers
from .awaiting import wait_for
from .connecting import connect, secure
from .daemon import Daemon
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
from .futures import Future, Result, batch, deadline, future, within
from .interfaces import HiddenMethodsWarning, Remote, expose, idempotent, oneway
from .proxy import close, closing
from .references import callback, reference
from .session import Limits
from .values import register, value

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
