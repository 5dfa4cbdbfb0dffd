"""The connecting end: from an address to a proxy."""

from __future__ import annotations

import os
from _thread import allocate_lock
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ... import config
from ...system.originals import originals
from ..api import interfaces
from ..api.interfaces import METHOD, Entry, Interface
from ..api.introspection import from_described
from ..errors import (
    BadAddress,
    BadFrame,
    CallTimeout,
    ConnectError,
    ConnectTimeout,
    Refused,
    UnknownMethod,
    UnknownObject,
)
from ..objects import proxy
from ..objects.session import Limits, Session
from ..threads.workers import Pool
from ..wire._connection import Method, Target
from ..wire._records import current
from ..wire.keys import key_of
from . import addresses
from .reaching import Attempt, open_session, place
from .reconnect import Reconnect

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_WITHIN = 10.0  # seconds for all that connect() does, where its timeout is not less
LOOKUP, STATUS, DESCRIBE = 0, 1, 2  # of the daemon itself
NAMES = "fastsock.rmi.names"  # the name of a name server's object
NAMES_VARIABLE = "FASTSOCK_RMI_NAMES"
MOST_EXPORTS = 8  # that name one another

_Typed = TypeVar("_Typed")  # a class; mypy takes a Protocol for a function that makes it
_pool: Pool | None = None
_context: SSLContext | None = None
_pool_lock = allocate_lock()


class Options:
    """How connections to an address are made. timeout: that of `connect`."""

    __slots__ = ("key", "limits", "ssl", "trust_pickle", "within")

    def __init__(
        self,
        key: str | bytes | None = None,
        limits: Limits | None = None,
        trust: str | None = None,
        ssl: SSLContext | None = None,
        timeout: float | None = None,
    ) -> None:
        self.within = min(seconds("timeout", timeout) or CONNECT_WITHIN, CONNECT_WITHIN)
        self.key = key
        self.ssl = check_context(ssl)
        self.limits = limits or Limits()
        self.trust_pickle = trusts_pickle(trust)


def seconds(name: str, value: Any) -> float:
    """What an argument says that is a time, or None: 0 is none. Raises TypeError, ValueError."""
    if value is None:
        return 0.0
    try:
        number = float(value) if not isinstance(value, (str, bytes)) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None:
        raise TypeError(f"{name} is {value!r}: give a number of seconds, or None")
    if not number > 0:
        raise ValueError(f"{name} is {value!r}: give seconds above 0, or None for no limit")
    return number


def check_context(context: Any) -> Any:
    """The TLS context that was given, or None. Raises TypeError."""
    if context is not None and not hasattr(context, "wrap_bio"):
        raise TypeError(f"ssl is {context!r}: give an ssl.SSLContext, or None")
    return context


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
    _context = check_context(context)


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
    interface: Callable[..., _Typed],
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
    `within` says otherwise, and for connecting, which takes 10 seconds at most. key: in the place of the user's key
    file and FASTSOCK_RMI_KEY.
    trust="pickle": values of unregistered classes travel as pickles, if the other end says the same.
    ssl: a context, where the daemon has one; the daemon's certificate must name the host. For rmis: that of `secure`
    is used if none is given.

    The proxy has a connection of its own: `with` closes it. All threads may use it. Raises RmiError: ConnectTimeout,
    ConnectRefused or another ConnectError where the daemon is not reached, Refused where the keys differ,
    UnknownObject, UnknownMethod, LostPeer, BadAddress.
    """
    options = Options(key, limits, trust, ssl, timeout)
    if interface is not None:
        interfaces.table_of(interface)
    if ssl is not None:
        address = addresses.secured(address)
    reconnect = Reconnect(lambda reconnect, until: dial(address, options, reconnect, until=until))
    attempt = Attempt(address, options.within)
    session, number, found = reconnect.connect()
    try:
        source = described_by(interface, found, session, address, attempt)
    except BaseException:
        session.close()
        raise
    home = reconnect.home = proxy.Home(address, reconnect.connect, named)
    home.interface, home.session = found, session
    name = addresses.parse(address).name
    return proxy.own(found, Target(name, session.connection, number, float(timeout or 0.0), home), source)


def described_by(interface: Any, found: Interface, session: Session, address: str, attempt: Attempt) -> Any:
    """What dir() and help() show of a proxy: the interface that was given, or what the daemon tells, if in time.

    Raises UnknownMethod as `check`.
    """
    if interface is not None:
        check(interface, found, session)
        return interface
    name = addresses.parse(address).name
    describe = _method(session, "describe", DESCRIBE)
    try:
        return from_described(session.connection.call(describe, (name,), None, attempt.until))
    except (CallTimeout, UnknownMethod, UnknownObject):  # or an older daemon; or an object that went in this moment
        return None


def check(interface: type, found: Interface, session: Session) -> None:
    """Raises UnknownMethod where the object does not expose all that the interface lists."""
    for entry in interfaces.table_of(interface).entries:
        if (entry.name, entry.kind) not in found.numbers:
            raise UnknownMethod(
                f"{found.name} at {session.where} exposes no {entry.name}, which {interface.__name__} lists"
            )


def named(address: str, interface: Any, timeout: float = 0.0) -> proxy.Proxy:
    """A proxy that came from elsewhere. It connects at its first call, with the key, and the context, of this process.

    interface: or what describes it, in a pickle.
    """
    if not isinstance(interface, Interface):
        interface = interfaces.from_description(interface)
    options = Options(timeout=timeout or None)
    reconnect = Reconnect(lambda reconnect, until: dial(address, options, reconnect, until=until))
    home = reconnect.home = proxy.Home(address, reconnect.connect, named)
    home.interface = interface
    return proxy.own(interface, Target(address, None, 0, timeout, home))


def dial(
    address: str,
    options: Options,
    reconnect: Reconnect | None = None,
    attempt: Attempt | None = None,
    until: float = 0.0,
) -> tuple[Session, int, Interface]:
    """A fresh connection to the daemon of an address; the object's number and interface there. Raises RmiError.

    reconnect: asks for a lease, and goes on with that of its last connection. attempt: that of which this is a part.
    until: the deadline of a call for which it is made, or 0.
    """
    attempt = attempt or Attempt(address, _seconds_until(until, options.within))
    wanted = addresses.parse(address)
    host, port, name, secured = find(wanted, options, attempt)
    session = reach(host, port, options, wanted.secured or secured, attempt)
    try:
        resumed = () if reconnect is None else (reconnect.token or b"", reconnect.held())
        lookup = _method(session, "lookup", LOOKUP)
        try:
            number, description, *lease = session.connection.call(lookup, (name, *resumed), None, attempt.until)
            interface = interfaces.from_description(description)
        except CallTimeout:
            raise attempt.late(f"the daemon at {session.where} did not tell of its object") from None
        except (TypeError, ValueError) as error:
            raise BadFrame(f"{attempt.what}: {session.where} does not describe an object: {error}") from error
        if reconnect is not None:
            session.reconnect = reconnect
            reconnect.began(session, *(lease or (b"", ())))
        return session, number, interface
    except BaseException:
        session.close()
        raise


def _seconds_until(until: float, most: float) -> float:
    """The time that an attempt may take: it ends with the call for which it is made, and with that which runs here."""
    running = current.get()
    limits = [each for each in (until, running.deadline if running is not None else 0.0) if each]
    return max(min([most, *(each - originals.monotonic() for each in limits)]), 0.0)


def find(wanted: addresses.Address, options: Options, attempt: Attempt) -> addresses.Address:
    """The address with its host: from the rules file, this host's names, or the name server.

    Raises UnknownObject where none of them knows the name, and what reaching the server raises.
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
        host, port = addresses.resolve(wanted.name, attempt.seconds)
        return addresses.Address(host, port, wanted.name, wanted.secured)
    except UnknownObject:
        if not server:
            raise
    names, session = names_at(server, options, attempt)
    try:
        return addresses.parse(names.look_up(wanted.name))
    except UnknownObject as error:
        raise UnknownObject(
            f"{attempt.what}: neither this host has the name, nor the server of {NAMES_VARIABLE}={server}: {error}"
        ) from error
    finally:
        session.close()


def names_setting() -> str:
    """Where the name server is: host:port, or nothing."""
    return os.environ.get(NAMES_VARIABLE, "")


def names_at(server: str, options: Options, attempt: Attempt | None = None) -> tuple[Any, Session]:
    """A proxy of a name server, and its session. Raises RmiError, which names the setting.

    attempt: that of which this is a part.
    """
    what = f"{NAMES_VARIABLE}={server}" if server == names_setting() else f"names={server!r}"
    if attempt is not None:
        what = f"{attempt.what}: {what}"
    part = Attempt(what, options.within if attempt is None else attempt.seconds)
    if attempt is not None:
        part.until = attempt.until
    try:
        address = f"rmi://{server}/{NAMES}"
        addresses.parse(address)
    except BadAddress:
        raise BadAddress(f"{what}: write host:port of a name server") from None
    try:
        session, number, found = dial(address, options, None, part)
    except ConnectTimeout:
        raise
    except ConnectError as error:
        error.args = (f"{error}; a name server is started by python -m fastsock.rmi.names",)
        raise
    except UnknownObject:
        raise UnknownObject(f"{what}: the daemon there is no name server: start python -m fastsock.rmi.names") from None
    home = proxy.Home(None, None)
    home.session = session
    left = max(part.until - originals.monotonic(), 0.001) if attempt is not None else CONNECT_WITHIN
    return proxy.make(found, Target(NAMES, session.connection, number, left, home)), session


def status_of(session: Session) -> dict[str, Any]:
    """What a daemon says of itself."""
    until = originals.monotonic() + CONNECT_WITHIN
    found: dict[str, Any] = session.connection.call(_method(session, "status", STATUS), (), None, until)
    return found


def _method(session: Session, name: str, number: int) -> Method:
    home = proxy.Home(None, None)
    home.session = session
    return Method(Target("daemon", session.connection, 0, 0.0, home), name, number, 0)


def reach(host: str, port: int, options: Options, with_tls: bool = False, attempt: Attempt | None = None) -> Session:
    """A session with the daemon at an address, after both ends proved the key. Raises RmiError.

    with_tls: there must be a context, that of the options or of this process.
    """
    attempt = attempt or Attempt(place(host, port), options.within)
    key = key_of(options.key)
    context = options.ssl or (_context if with_tls else None)
    if with_tls and context is None:
        raise Refused(
            f"{attempt.what}: {place(host, port)}: this address asks for TLS, and this process has no context: give"
            " connect(ssl=), or call rmi.secure(context) before the proxy is used; nothing was sent"
        )
    return open_session(host, port, attempt, key, options.trust_pickle, context, pool(), options.limits, named)


def _forked() -> None:
    global _pool
    _pool = None  # its threads are not here
    _pool_lock._at_fork_reinit()  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forked)

SERVICES = Interface("daemon", (Entry("lookup", METHOD, 1), Entry("status", METHOD, 1), Entry("describe", METHOD, 1)))
