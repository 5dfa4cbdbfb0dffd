"""multiprocessing.managers over fastsock's sockets: change one import, and keep the rest.

    from fastsock.rmi.managers import BaseManager, SyncManager

The contract is that module's: a server process, proxies, pickles between those who know `authkey`. A proxy can be
unpickled only where this module is. What is mended:

- A pickled proxy holds its object until it is unpickled, for IN_TRANSIT seconds at most: its owner may let go before.
- A proxy within a managed container is released with it.
- A proxy that was passed on, or inherited by fork, can call methods that return proxies.
- A child of os.fork() has connections of its own, as those of multiprocessing have.
- An error brings the traceback of the server with it.
- After a server was restarted at its address, connections to the old one are not used again.

Without an address a server listens on the loopback network, and not at a path of the file system. All proxies of a
thread share one connection. No lock is held while an object is made.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from itertools import count
from multiprocessing import managers, process, util
from typing import Any, ClassVar

from ..system.originals import originals
from ..system.starting import start_thread
from .errors import add_remote_traceback
from .pickled._answering import LOST, serve
from .pickled._messages import Connection
from .pickled.connections import Client, Listener

plain: Any = managers  # its own types tell little of what is built upon here
_Key: Any = getattr(process, "AuthenticationString")  # noqa: B009
Array, Namespace, RemoteError, SharedMemoryManager = (
    plain.Array,
    plain.Namespace,
    plain.RemoteError,
    plain.SharedMemoryManager,
)
State, Token, Value, convert_to_error, dispatch = (
    plain.State,
    plain.Token,
    plain.Value,
    plain.convert_to_error,
    plain.dispatch,
)

__all__ = [
    "Array",
    "AutoProxy",
    "BaseManager",
    "BaseProxy",
    "MakeProxyType",
    "Namespace",
    "RemoteError",
    "Server",
    "SharedMemoryManager",
    "State",
    "SyncManager",
    "Token",
    "Value",
]

_numbers = count(1)  # of proxies: several may hold one object
IN_TRANSIT = 60.0  # seconds that a pickled proxy holds its object
SWEEP = 1.0
GONE = (EOFError, ConnectionError, FileNotFoundError)
"""What tells that the server has ended. Other kinds of OSError may be those that a signal's handler raises."""


class Server(plain.Server):
    """The server process's part. A thread serves each connection."""

    public = (*plain.Server.public, "transit", "arrived")

    def __init__(self, registry: Any, address: Any, authkey: bytes, serializer: str) -> None:
        if not isinstance(authkey, bytes):
            raise TypeError(f"Authkey {authkey!r} is type {type(authkey)!s}, not bytes")
        self.registry = registry
        self.authkey = _Key(authkey)
        self.listener = Listener(address=address)
        self.address = self.listener.address
        self.id_to_obj: dict[str, Any] = {"0": (None, ())}
        self.id_to_refcount: dict[str, int] = {}
        self.id_to_local_proxy_obj: dict[str, Any] = {}  # proxies here hold references as any others
        self.mutex = threading.RLock()  # a collection, and so a decref, may happen where it is held
        self._transits: dict[int, tuple[str, float]] = {}
        self._transit_numbers = count(1)

    def accepter(self) -> None:
        """Accepts connections for ever. One that can have no thread is closed: its client is told so."""
        sweeps = False
        while True:
            try:
                connection = self.listener.accept()
            except OSError:
                continue
            sweeps = sweeps or start_thread(self._sweep, name="fastsock.rmi.managers.sweep", for_program=True)
            if not start_thread(self.handle_request, connection, name="fastsock.rmi.managers", for_program=True):
                connection.close()

    def create(self, c: Any, typeid: str, /, *args: Any, **kwds: Any) -> tuple[str, tuple[str, ...]]:
        """Makes an object, with one reference that its creator gives up when it has a proxy."""
        make, exposed, method_to_typeid, _ = self.registry[typeid]
        if make is None:
            if kwds or len(args) != 1:
                raise ValueError("Without callable, must have one non-keyword argument")
            made = args[0]
        else:
            made = make(*args, **kwds)
        if exposed is None:
            exposed = plain.public_methods(made)
        if method_to_typeid is not None:
            if not isinstance(method_to_typeid, dict):
                raise TypeError(f"Method_to_typeid {method_to_typeid!r}: type {type(method_to_typeid)!s}, not dict")
            exposed = [*exposed, *method_to_typeid]
        ident = f"{id(made):x}"
        with self.mutex:
            self.id_to_obj[ident] = (made, set(exposed), method_to_typeid)
            self.id_to_refcount.setdefault(ident, 0)
            self.incref(c, ident)
        return ident, tuple(exposed)

    def decref(self, c: Any, ident: str) -> None:
        """One reference less. The object goes with the last, outside the lock: it may hold proxies."""
        with self.mutex:
            left = self.id_to_refcount[ident] - 1
            if left:
                self.id_to_refcount[ident] = left
                return
            del self.id_to_refcount[ident]
            last = self.id_to_obj.pop(ident)
        del last

    def transit(self, c: Any, ident: str) -> int:
        """A reference for a pickle on its way."""
        with self.mutex:
            self.incref(c, ident)
            number = next(self._transit_numbers)
            self._transits[number] = ident, originals.monotonic() + IN_TRANSIT
        return number

    def arrived(self, c: Any, number: int) -> None:
        """The pickle was loaded, and what was made of it holds a reference. It may be loaded again."""
        with self.mutex:
            known = self._transits.pop(number, None)
        if known is not None:
            self.decref(c, known[0])

    def _sweep(self) -> None:
        while not self.stop_event.wait(SWEEP):
            now = originals.monotonic()
            with self.mutex:
                late = [number for number, (_, until) in self._transits.items() if until < now]
            for number in late:
                self.arrived(None, number)

    def serve_client(self, conn: Any) -> None:
        """Answers what one thread of a client asks."""
        serve(self, conn)

    def proxied(self, c: Any, typeid: str, value: Any) -> tuple[str, Any]:
        """The answer of a method whose value stays here."""
        ident, exposed = self.create(c, typeid, value)
        return "#PROXY", (exposed, Token(typeid, self.address, ident))


class BaseManager(plain.BaseManager):
    """As multiprocessing's."""

    _registry: ClassVar[dict[str, Any]] = {}
    _Server = Server

    def __init__(self, address: Any = None, authkey: bytes | None = None, serializer: str = "pickle", *given: Any,
                 **more: Any) -> None:  # fmt: skip
        if serializer != "pickle":
            raise ValueError(f"serializer is {serializer!r}: managers of fastsock speak pickle")
        super().__init__(address, authkey, serializer, *given, **more)
        self._Listener, self._Client = Listener, Client

    def get_server(self) -> Server:
        """A server object with serve_forever() and address."""
        super().get_server().listener.close() if self._state.value != State.INITIAL else None  # raises as that one does
        return self._Server(self._registry, self._address, self._authkey, self._serializer)

    def connect(self) -> None:
        """Connects to a server that runs already."""
        with Client(self._address, authkey=self._authkey) as conn:
            dispatch(conn, None, "dummy")
        BaseProxy._address_to_local.pop(self._address, None)  # of a server that was there before
        self._state.value = State.STARTED

    def _create(self, typeid: str, /, *args: Any, **kwds: Any) -> tuple[Any, tuple[str, ...]]:
        assert self._state.value == State.STARTED, "server not yet started"
        ident, exposed = _ask(self._address, self._authkey, "create", (typeid, *args), kwds)
        return Token(typeid, self._address, ident), exposed

    @classmethod
    def register(cls, typeid: str, callable: Any = None, proxytype: Any = None, exposed: Any = None,
                 method_to_typeid: Any = None, create_method: bool = True) -> None:  # fmt: skip
        """As multiprocessing's. Raises TypeError for a class of proxies that is not over fastsock."""
        proxytype = AutoProxy if proxytype is None else _made.get(proxytype, proxytype)
        over = isinstance(proxytype, type) and issubclass(proxytype, plain.BaseProxy)
        if over and not issubclass(proxytype, BaseProxy):
            raise TypeError(
                f"{proxytype.__qualname__} is a proxy of multiprocessing.managers: derive it from a class of {__name__}"
            )
        super().register(typeid, callable, proxytype, exposed, method_to_typeid, create_method=False)
        if not create_method:
            return

        def create(self: BaseManager, /, *args: Any, **kwds: Any) -> Any:
            token, found = self._create(typeid, *args, **kwds)
            return _proxy_of(proxytype, token, found, self, self._authkey)

        create.__name__ = typeid
        setattr(cls, typeid, create)


def _proxy_of(proxytype: Any, token: Any, exposed: Any, manager: Any, authkey: bytes) -> Any:
    """A proxy of an object that was made with a reference: the proxy takes one of its own, and that one goes."""
    try:
        return proxytype(token, "pickle", manager=manager, authkey=authkey, exposed=exposed)
    finally:
        _ask(token.address, authkey, "decref", (token.id,))


def _forked() -> None:
    """The connections are the parent's. multiprocessing itself forgets them only in the processes that it starts."""
    for local, _ in list(plain.BaseProxy._address_to_local.values()):
        local.__dict__.clear()


os.register_at_fork(after_in_child=_forked)


def _at(address: Any) -> tuple[Any, Any]:
    """Of a server: what each thread has, and the numbers of the proxies that hold references there."""
    known: dict[Any, tuple[Any, Any]] = plain.BaseProxy._address_to_local
    found = known.get(address)
    if found is None:
        # Without multiprocessing's mutex: a finalizer comes here, also while its own thread has that.
        found = known.setdefault(address, (util.ForkAwareLocal(), plain.ProcessLocalSet()))
    return found


def _connection_to(address: Any, authkey: bytes) -> Connection:
    """This thread's connection to a server."""
    return _connection_of(_at(address)[0], address, authkey)


def _connection_of(local: Any, address: Any, authkey: bytes) -> Connection:
    found: Connection | None = getattr(local, "connection", None)
    if found is None or found.closed:
        name = process.current_process().name
        if threading.current_thread() is not threading.main_thread():
            name = f"{name}|{threading.current_thread().name}"
        found = Client(address, authkey=authkey)
        dispatch(found, None, "accept_connection", (name,))
        local.connection = found
    return found


def _ask(
    address: Any, authkey: bytes, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None
) -> Any:
    """Has the server itself do something."""
    local, _ = _at(address)
    known: Connection | None = getattr(local, "connection", None)
    if known is not None and known.busy and not known.closed:  # a finalizer, or a proxy that is being pickled
        with Client(address, authkey=authkey) as own:
            return dispatch(own, None, name, arguments, keywords or {})
    request = None, name, arguments, keywords or {}
    try:
        kind, result = _connection_to(address, authkey).exchange(request)
    except GONE:
        _drop(local)
        if known is None:
            raise
        try:  # the connection was one to a server that is gone: whatever it did there is gone too
            kind, result = _connection_to(address, authkey).exchange(request)
        except LOST:
            _drop(local)
            raise
    if kind == "#RETURN":
        return result
    try:
        raise convert_to_error(kind, result)
    finally:
        del result  # as in _callmethod


def _drop(local: Any) -> None:
    known = getattr(local, "connection", None)
    if known is not None:
        known.close()
        del local.connection


class BaseProxy(plain.BaseProxy):
    """As multiprocessing's."""

    _transit: int | None = None  # of the pickle that it was made of
    _manager_class: tuple[str, str] | None = None

    def __init__(self, token: Any, serializer: str, manager: Any = None, authkey: bytes | None = None,
                 exposed: Any = None, incref: bool = True, manager_owned: bool = False) -> None:  # fmt: skip
        super().__init__(token, serializer, manager, authkey, exposed, incref, manager_owned)
        if manager is not None:
            kind = type(manager)
            self._manager_class = kind.__module__, kind.__qualname__

    @property
    def _Client(self) -> Any:
        return Client

    @_Client.setter
    def _Client(self, _: Any) -> None:
        """multiprocessing's own __init__ sets another one, and calls _incref, which a program may have overridden."""

    def _connect(self) -> Connection:
        return _connection_of(self._tls, self._token.address, self._authkey)

    def _callmethod(self, methodname: str, args: tuple[Any, ...] = (), kwds: dict[str, Any] = {}) -> Any:  # noqa: B006
        """Calls a method of the referent. Raises what it raised, with the server's traceback."""
        conn: Connection | None = getattr(self._tls, "connection", None)
        if conn is None or conn.closed:
            conn = self._connect()
        request = self._id, methodname, args, kwds
        try:
            if conn.busy:  # a finalizer calls a method
                with Client(self._token.address, authkey=self._authkey) as own:
                    dispatch(own, None, "accept_connection", ("finalizer",))
                    kind, result = own.exchange(request)
            else:
                kind, result = conn.exchange(request)
        except LOST:
            _drop(self._tls)
            raise
        if kind == "#RETURN":
            return result
        if kind == "#PROXY":
            exposed, token = result
            token.address = self._token.address
            proxy = _proxy_of(self._type_of(token.typeid), token, exposed, self._manager, self._authkey)
            proxy._manager_class = self._manager_class
            return proxy
        if kind == "#ERROR":
            raised, text = result
            add_remote_traceback(raised, f"Traceback of the server of {self._token.typeid}:\n{text.rstrip()}")
        else:
            raised = convert_to_error(kind, result)
        try:
            raise raised
        finally:
            del raised, result  # the error holds this frame: what it holds goes when it is handled

    def _type_of(self, typeid: str) -> Any:
        """The class of proxies for a typeid. Where the manager's class is not known here: one by what is exposed."""
        registry = getattr(self._manager, "_registry", None)
        if registry is None and self._manager_class is not None:
            module, name = self._manager_class
            found: Any = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            registry = getattr(found, "_registry", None)
        entry = (registry or SyncManager._registry).get(typeid)
        return entry[-1] if entry is not None else AutoProxy

    def _incref(self) -> None:
        if self._owned_by_manager:
            server = _server_of(self._token)
            server.incref(None, self._id)
            self._close = util.Finalize(self, _decref_here, args=(server, self._id))
            return
        _ask(self._token.address, self._authkey, "incref", (self._id,))
        _, held = _at(self._token.address)
        number = next(_numbers)
        held.add(number)
        state = self._manager and self._manager._state
        self._close = util.Finalize(
            self, _decref, args=(self._token, self._authkey, state, held, number), exitpriority=10
        )

    def _after_fork(self) -> None:
        super()._after_fork()
        self._has_arrived()

    def _has_arrived(self) -> None:
        transit, self._transit = self._transit, None
        if transit is None:
            return
        server = _server_of(self._token)
        if server is not None:
            server.arrived(None, transit)
        else:
            _ask(self._token.address, self._authkey, "arrived", (transit,))

    def __reduce__(self) -> Any:
        _, (kind, token, serializer, keywords) = super().__reduce__()
        server = _server_of(token)
        try:
            if server is not None:
                transit = server.transit(None, token.id)
            else:
                transit = _ask(token.address, self._authkey, "transit", (token.id,))
        except (*GONE, RemoteError):  # the server has ended, or has lost the object: then whoever unpickles it is told
            transit = None
        if kind is plain.AutoProxy:
            kind = AutoProxy
        return _rebuild, (kind, token, serializer, keywords, transit, self._manager_class)


def _server_of(token: Any) -> Any:
    """The server that this process is, if the object lives here."""
    server = getattr(process.current_process(), "_manager_server", None)
    return server if isinstance(server, Server) and server.address == token.address else None


def _rebuild(kind: Any, token: Any, serializer: str, keywords: dict[str, Any], transit: Any, manager_class: Any) -> Any:
    """Makes a proxy out of a pickle."""
    inherits = getattr(process.current_process(), "_inheriting", False)  # it counts when the process has begun
    owned = _server_of(token) is not None
    proxy = kind(token, serializer, incref=not inherits, manager_owned=owned, **keywords)
    proxy._manager_class = manager_class
    proxy._transit = transit
    if not inherits:
        proxy._has_arrived()
    return proxy


def _decref_here(server: Server, ident: str) -> None:
    server.decref(None, ident)


def _decref(token: Any, authkey: bytes, state: Any, held: Any, number: int) -> None:
    """A proxy was collected."""
    held.discard(number)
    if state is None or state.value == State.STARTED:
        try:
            _ask(token.address, authkey, "decref", (token.id,))
        except Exception as error:  # the server has ended
            util.debug("... decref failed: %s", error)
    if not held:
        local, _ = _at(token.address)
        known = getattr(local, "connection", None)
        if known is not None and not known.busy:
            _drop(local)


_made: dict[Any, Any] = {}


def _ours(kind: Any) -> Any:
    """A class of multiprocessing's proxies, over fastsock."""
    if not isinstance(kind, type) or issubclass(kind, BaseProxy):
        return AutoProxy if kind is plain.AutoProxy else kind
    found = _made.get(kind)
    if found is None:
        found = _made[kind] = type(kind.__name__, (BaseProxy, kind), {"__module__": __name__, "__doc__": kind.__doc__})
    return found


def MakeProxyType(name: str, exposed: Any) -> Any:
    """A class of proxies with these methods."""
    return _ours(plain.MakeProxyType(name, tuple(exposed)))


def AutoProxy(token: Any, serializer: str, manager: Any = None, authkey: bytes | None = None, exposed: Any = None,
              incref: bool = True, manager_owned: bool = False) -> Any:  # fmt: skip
    """A proxy of whatever the token stands for."""
    if authkey is None:
        authkey = manager._authkey if manager is not None else process.current_process().authkey
    if exposed is None:
        exposed = _ask(token.address, authkey, "get_methods", (token,))
    made = MakeProxyType(f"AutoProxy[{token.typeid}]", exposed)
    proxy = made(token, serializer, manager=manager, authkey=authkey, incref=incref, manager_owned=manager_owned)
    proxy._isauto = True
    return proxy


class SyncManager(BaseManager):
    """As multiprocessing's: lists, dicts, locks, queues and more, each at home in the server."""


def _take_over() -> None:
    registry: dict[str, tuple[Callable[..., Any], Any, Any, Any]] = plain.SyncManager._registry
    for typeid, (make, exposed, method_to_typeid, kind) in registry.items():
        own = _ours(kind)
        if isinstance(own, type):
            globals()[own.__name__] = own  # pickles name it
            __all__.append(own.__name__)
        SyncManager.register(typeid, make, own, exposed, method_to_typeid, hasattr(plain.SyncManager, typeid))


_take_over()


listener_client = {"pickle": (Listener, Client)}


def __getattr__(name: str) -> Any:
    """What else multiprocessing.managers has, and programs take from there. Proxies' classes are over fastsock."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _ours(getattr(plain, name)) if name.endswith("Proxy") else getattr(plain, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
