"""The connecting end: from an address to a proxy."""

from __future__ import annotations

import _socket
import os
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .. import config
from .. import socket as fast
from ..system import proof
from ..system.genuine import genuine
from . import addresses, hello, marks, proxy
from ._connection import Method, Target
from .errors import LostPeer, Refused, UnknownMethod, UnknownObject
from .keys import key_of
from .lines import Line
from .marks import METHOD, Entry, Interface
from .session import Limits, Session
from .workers import Pool

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_WITHIN = 10.0  # seconds for the connection and its hello
LOOKUP, STATUS = 0, 1  # of the daemon itself
NAMES = "fastsock.rmi.names"  # the name of a name server's object
NAMES_VARIABLE = "FASTSOCK_RMI_NAMES"
MOST_EXPORTS = 8  # that name one another

_Typed = TypeVar("_Typed")
_pool: Pool | None = None
_context: SSLContext | None = None
_pool_lock = allocate_lock()


class Options:
    """How connections to an address are made."""

    __slots__ = ("key", "limits", "ssl", "trust_pickle")

    def __init__(
        self,
        key: str | bytes | None = None,
        limits: Limits | None = None,
        trust: str | None = None,
        ssl: SSLContext | None = None,
    ) -> None:
        self.key = key
        self.ssl = ssl
        self.limits = limits or Limits()
        self.trust_pickle = trusts_pickle(trust)


def trusts_pickle(trust: str | None) -> bool:
    """What `trust=` says. Raises ValueError."""
    if trust not in (None, "pickle"):
        raise ValueError(f'trust is {trust!r}: it is None or "pickle"')
    return trust == "pickle"


def secure(context: SSLContext | None) -> None:
    """The TLS context of this process, for addresses that ask for one: rmis:name and rmis://host:port/name.

    A proxy that connect(ssl=) made has such an address. A context cannot be pickled or sent: so where the proxy goes,
    this one is used. Without it the proxy's calls raise Refused. None: there is none any more.
    """
    global _context
    _context = context


def pool() -> Pool:
    """The threads of this process's connecting ends: they run what is called back while nobody waits."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = Pool("fastsock.rmi")
        return _pool


@overload
def connect(
    address: str,
    interface: type[_Typed],
    *,
    timeout: float | None = ...,
    key: str | bytes | None = ...,
    limits: Limits | None = ...,
    trust: str | None = ...,
    ssl: SSLContext | None = ...,
) -> _Typed: ...
@overload
def connect(
    address: str,
    interface: None = ...,
    *,
    timeout: float | None = ...,
    key: str | bytes | None = ...,
    limits: Limits | None = ...,
    trust: str | None = ...,
    ssl: SSLContext | None = ...,
) -> Any: ...
def connect(
    address: str,
    interface: Any = None,
    *,
    timeout: float | None = None,
    key: str | bytes | None = None,
    limits: Limits | None = None,
    trust: str | None = None,
    ssl: SSLContext | None = None,
) -> Any:
    """A proxy of the object at `address`: rmi:name on this host, or rmi://host:port/name. With rmis: TLS is used.

    interface: a class or Protocol, for editors; what it exposes must be there. timeout: seconds for each call, unless
    `within` says otherwise. key: in the place of the user's key file and FASTSOCK_RMI_KEY.
    trust="pickle": values of unregistered classes travel as pickles, if the other end says the same.
    ssl: a context, where the daemon has one; the daemon's certificate must name the host. For rmis: that of `secure`
    is used if none is given.

    The proxy has a connection of its own: `with` closes it. All threads may use it. Raises Refused where the keys
    differ, UnknownObject, UnknownMethod, LostPeer, and OSError where nobody listens.
    """
    options = Options(key, limits, trust, ssl)
    if ssl is not None:
        address = addresses.secured(address)
    line = Line(lambda line: dial(address, options, line))
    session, number, found = line.connect()
    if interface is not None:
        try:
            check(interface, found, session)
        except BaseException:
            session.close()
            raise
    home = line.home = proxy.Home(address, line.connect)
    home.interface, home.session = found, session
    name = addresses.parse(address).name
    return proxy.own(found, Target(name, session.connection, number, timeout or 0.0, home))


def check(interface: type, found: Interface, session: Session) -> None:
    """Raises UnknownMethod where the object does not expose all that the interface lists."""
    for entry in marks.interface_of(interface).entries:
        if (entry.name, entry.kind) not in found.numbers:
            raise UnknownMethod(
                f"{found.name} at {session.where} exposes no {entry.name}, which {interface.__name__} lists"
            )


def home_of(address: str) -> proxy.Home:
    """The home of a proxy that came from elsewhere: it connects with the key, and the context, of this process."""
    line = Line(lambda line: dial(address, Options(), line))
    home = line.home = proxy.Home(address, line.connect)
    return home


def dial(address: str, options: Options, line: Line | None = None) -> tuple[Session, int, Interface]:
    """A fresh connection to the daemon of an address; the object's number and interface there.

    line: asks for a lease, and goes on with that of its last connection.
    """
    wanted = addresses.parse(address)
    host, port, name, secured = find(wanted, options)
    session = reach(host, port, options, wanted.secured or secured)
    try:
        until = genuine.monotonic() + CONNECT_WITHIN
        resumed = () if line is None else (line.token or b"", line.held())
        lookup = _method(session, "lookup", LOOKUP)
        number, description, *lease = session.connection.call(lookup, (name, *resumed), None, until)
        if line is not None:
            session.line = line
            line.began(session, *(lease or (b"", ())))
        return session, number, marks.from_description(description)
    except BaseException:
        session.close()
        raise


def find(wanted: addresses.Address, options: Options) -> addresses.Address:
    """The address with its host: from the rules file, this host's names, or the name server.

    Raises UnknownObject where none of them knows the name.
    """
    for _ in range(MOST_EXPORTS):
        if wanted.host:
            return wanted
        exported = dict(config.settings().exports).get(wanted.name)
        if exported is None:
            break
        wanted = addresses.parse(exported)._replace(secured=wanted.secured or exported.startswith("rmis"))
    server = names_setting()
    try:
        host, port = addresses.resolve(wanted.name)
        return addresses.Address(host, port, wanted.name, wanted.secured)
    except UnknownObject:
        if not server:
            raise
    names, session = names_at(server, options)
    try:
        return addresses.parse(names.look_up(wanted.name))
    finally:
        session.close()


def names_setting() -> str:
    """Where the name server is: host:port, or nothing."""
    return os.environ.get(NAMES_VARIABLE, "")


def names_at(server: str, options: Options) -> tuple[Any, Session]:
    """A proxy of a name server, and its session. Raises ValueError where `server` is no host:port."""
    session, number, found = dial(f"rmi://{server}/{NAMES}", options)
    home = proxy.Home(None, None)
    home.session = session
    return proxy.make(found, Target(NAMES, session.connection, number, CONNECT_WITHIN, home)), session


def status_of(session: Session) -> dict[str, Any]:
    """What a daemon says of itself."""
    until = genuine.monotonic() + CONNECT_WITHIN
    found: dict[str, Any] = session.connection.call(_method(session, "status", STATUS), (), None, until)
    return found


def _method(session: Session, name: str, number: int) -> Method:
    home = proxy.Home(None, None)
    home.session = session
    return Method(Target("daemon", session.connection, 0, 0.0, home), name, number, 0)


def reach(host: str, port: int, options: Options, with_tls: bool = False) -> Session:
    """A session with the daemon at an address, after both ends proved the key.

    with_tls: there must be a context, that of the options or of this process.
    """
    key = key_of(options.key)
    context = options.ssl or (_context if with_tls else None)
    if with_tls and context is None:
        raise Refused(
            f"{host}:{port}: this address asks for TLS, and this process has no context: give connect(ssl=), or call"
            " rmi.secure(context) before the proxy is used; nothing was sent"
        )
    sock: Any = fast.create_connection((host, port), timeout=CONNECT_WITHIN)
    try:
        sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        if context is not None:
            sock = secured(sock, context, host)
        end = hello.Connector(key, options.trust_pickle)
        try:
            proof.drive(sock, end, end.start(), CONNECT_WITHIN)
        except proof.HelloError as error:
            raise Refused(f"{host}:{port}: {error}") from error
        except ConnectionError as error:
            raise LostPeer(f"{host}:{port} ended the connection during the hello: {error}") from error
        sock.settimeout(None)
    except BaseException:
        sock.close()
        raise
    assert end.other is not None
    trust = options.trust_pickle and end.other.trusts_pickle
    return Session(sock, pool(), f"{host}:{port}", options.limits, trust_pickle=trust)


def secured(sock: Any, context: SSLContext, host: str) -> Any:
    """The socket with TLS, after its handshake. Raises Refused where the certificate is not the host's."""
    from .secured import SecuredSocket  # OpenSSL, where it is wanted

    wrapped = SecuredSocket(sock, context, host)
    try:
        wrapped.shake_hands()
    except TimeoutError:
        raise
    except OSError as error:
        raise Refused(f"{host}: the TLS handshake failed: {error}") from error
    return wrapped


def _forked() -> None:
    global _pool
    _pool = None  # its threads are not here
    _pool_lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forked)

SERVICES = Interface("daemon", (Entry("lookup", METHOD, 1), Entry("status", METHOD, 1)))
