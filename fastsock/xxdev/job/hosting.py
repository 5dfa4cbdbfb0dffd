"""The wire-up server in rank 0, for ranks that somebody else's launcher started; and the ways to find it.

`by_exchange`: the launcher carries values between ranks, so rank 0 gives it the addresses and a fresh secret.
`by_user`: all ranks are on one host. The kernel tells who is at the other end of a UNIX socket: whoever is the same
user gets the secret, and nobody else can pose as rank 0.
`by_address`: rank 0 listens at an address that all know, and all were given one secret beforehand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading

from ...meeting import unix_calls
from ...system.originals import originals
from ...system.starting import start_without_signals
from ..hello import new_secret
from . import addresses
from .client import WiredJob, start_seconds
from .loop import Loop
from .server import Server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_WAKE_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
SECRET = "FASTSOCK_MPJ_SECRET"
ADDRESS = "FASTSOCK_MPJ_ADDRESS"
INTERFACE = "FASTSOCK_MPJ_INTERFACE"
_SHORTEST_SECRET = 16
_MOST_ADDRESSES = 8  # they travel in one value of the launcher's, which may be short


class Hosted:
    """A server in a thread of this process."""

    def __init__(self, *, size: int, job: str, secret: bytes, one_host: bool, port: int = 0) -> None:
        """Listens on an abstract UNIX name, and on TCP unless all ranks are on one host. Raises OSError."""
        self._loop = Loop()
        self._over = threading.Condition()
        self._left = set(range(1, size))
        self._stopping = False
        self._offers: list[addresses.Raw] = []
        self._wakeup = originals.pipe2(_WAKE_FLAGS)
        self._loop.watch(self._wakeup[0], lambda _: None)
        self.server = Server(self._loop, size=size, job=job, secret=secret)
        self.server.on_finish = self._gone
        fail = self.server.on_lost

        def lost(rank: int) -> None:
            fail(rank)
            self._gone(rank)

        self.server.on_lost = lost
        name = f"fastsock/mpj/{originals.urandom(16).hex()}"
        self.server.listen(addresses.listen_unix(name), addresses.unix(name))
        if not one_host:
            listener = addresses.listen_tcp("", port)
            port = listener.getsockname()[1]
            self.server.listen(listener, addresses.tcp("127.0.0.1", port))
            self.server.addresses.pop()
            self.server.addresses += [addresses.tcp(ip, port) for ip in own_ips()[: _MOST_ADDRESSES - 1]]

    def start(self) -> None:
        """Serve from now on."""
        os.register_at_fork(after_in_child=self._abandon)
        start_without_signals(threading.Thread(target=self._serve, name="fastsock wire-up server", daemon=True))

    def offer_to_user(self, name: str) -> None:
        """Give the secret to whoever connects to that abstract UNIX name as this process's user. Raises OSError."""
        listener = addresses.listen_unix(name)
        text = _text(self.server.secret, self.server.addresses)

        def ready(_: int) -> None:
            while (accepted := addresses.accept(listener)) is not None:
                with contextlib.closing(accepted), contextlib.suppress(OSError):
                    if unix_calls.is_own_user(unix_calls.peer(accepted.fileno())[1]):
                        accepted.send(text.encode())

        self._loop.watch(listener.fileno(), ready)
        self._offers.append(listener)

    def finish(self) -> None:
        """Wait until no other rank needs the server any more, and stop it."""
        with self._over:
            self._over.wait_for(lambda: not self._left)
            self._stopping = True
            originals.write(self._wakeup[1], b"x")

    def _abandon(self) -> None:
        """In a forked child: the other ranks must see the end of this server when its process ends."""
        if not self._stopping:
            self._stopping = True
            self.server.abandon()
            for listener in self._offers:
                listener.close()

    def _gone(self, rank: int) -> None:
        with self._over:
            self._left.discard(rank)
            self._over.notify_all()

    def _serve(self) -> None:
        while not self._stopping:
            self._loop.step()
        self.server.close()
        for listener in self._offers:
            listener.close()
        self._loop.close()
        with self._over:  # finish() may still be about to write
            for descriptor in self._wakeup:
                originals.close(descriptor)


def own_ips() -> list[str]:
    """The IPv4 addresses by which other hosts may reach this one, that of the default route first."""
    found: list[str] = []
    last = ""
    with contextlib.suppress(OSError), originals.open_file("/proc/net/fib_trie", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if "|--" in words:
                last = words[-1]
            elif words[:2] == ["/32", "host"] and words[2:] == ["LOCAL"]:
                found.append(last)
    first = addresses.route_towards("192.0.2.1")  # a documentation address: nothing is sent there
    every = [first, *found] if first else found
    return list(dict.fromkeys(ip for ip in every if not ip.startswith("127.")))


def by_exchange(
    environ: Mapping[str, str],
    rank: int,
    size: int,
    name: str,
    *,
    launcher: str,
    one_host: bool,
    put: Callable[[str], None],
    get: Callable[[], str],
) -> WiredJob:
    """`put` and `get` carry a text without spaces from rank 0 to the others by the launcher's own means."""
    hosted = None
    if rank == 0:
        hosted = Hosted(size=size, job=name, secret=new_secret(), one_host=one_host)
        hosted.start()
        put(_text(hosted.server.secret, hosted.server.addresses))
        secret, servers = hosted.server.secret, hosted.server.addresses[:1]
    else:
        secret, servers = _split(get())
    return _join(environ, rank, size, name, secret, servers, launcher, one_host, hosted)


def by_user(environ: Mapping[str, str], rank: int, size: int, name: str, *, launcher: str) -> WiredJob:
    """All ranks are on this host. Raises WireupError."""
    meeting = f"fastsock/mpj/user/{originals.geteuid()}/{name}"
    hosted = None
    if rank == 0:
        hosted = Hosted(size=size, job=name, secret=new_secret(), one_host=True)
        try:
            hosted.offer_to_user(meeting)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise addresses.WireupError(f"another rank 0 of job {name} runs on this host already") from None
        hosted.start()
        secret, servers = hosted.server.secret, hosted.server.addresses
    else:
        secret, servers = _ask(meeting, name)
    return _join(environ, rank, size, name, secret, servers, launcher, True, hosted)


def by_address(
    environ: Mapping[str, str], rank: int, size: int, name: str, host: str, port: int, *, launcher: str
) -> WiredJob:
    """Rank 0 listens at that port of its host. Raises WireupError: also where there is no secret."""
    text = environ.get(SECRET, "")
    if len(text) < _SHORTEST_SECRET:
        raise addresses.WireupError(
            f"the ranks of job {name} ({launcher}) may be on several hosts, and nothing that the launcher gives them "
            f"is secret. Set {SECRET} to the same random text in all ranks, {_SHORTEST_SECRET} characters or more "
            "(for one job: openssl rand -hex 32)"
        )
    secret = text.encode()
    hosted = None
    servers = [addresses.tcp(host, port)]
    if rank == 0:
        try:
            hosted = Hosted(size=size, job=name, secret=secret, one_host=False, port=port)
        except OSError as error:
            raise addresses.WireupError(
                f"rank 0 of job {name} cannot listen at port {port} ({error.strerror}); choose another by "
                f"{ADDRESS}=host:port, the same in all ranks"
            ) from None
        hosted.start()
        servers = hosted.server.addresses[:1]
    return _join(environ, rank, size, name, secret, servers, launcher, False, hosted)


def _join(
    environ: Mapping[str, str],
    rank: int,
    size: int,
    name: str,
    secret: bytes,
    servers: list[str],
    launcher: str,
    one_host: bool,
    hosted: Hosted | None,
) -> WiredJob:
    return WiredJob(
        rank,
        size,
        name,
        secret,
        servers,
        launcher=launcher,
        interface=environ.get(INTERFACE) or ("127.0.0.1" if one_host else None),
        hosted=None if hosted is None else hosted.finish,
    )


def _text(secret: bytes, servers: list[str]) -> str:
    return f"{secret.hex()}|{','.join(servers)}"


def _split(text: str) -> tuple[bytes, list[str]]:
    secret, bar, servers = text.partition("|")
    try:
        if not bar:
            raise ValueError
        return bytes.fromhex(secret), servers.split(",")
    except ValueError:
        raise addresses.WireupError("what rank 0 left at the launcher is not what fastsock.mpj leaves there") from None


def _ask(meeting: str, name: str) -> tuple[bytes, list[str]]:
    """What rank 0 offers there; waits for it to come."""
    deadline = originals.monotonic() + start_seconds()
    while True:
        left = max(0.1, deadline - originals.monotonic())
        try:
            with contextlib.closing(addresses.connect([addresses.unix(meeting)], left, retry=True)) as stream:
                user = unix_calls.peer(stream.fileno())[1]
                if not unix_calls.is_own_user(user):
                    raise addresses.WireupError(
                        f"a process of another user (number {user}) poses as rank 0 of job {name}, or this user has no "
                        "number in its user namespace: map it (unshare --map-current-user)"
                    )
                stream.settimeout(left)
                text = b""
                while data := stream.recv(4096):
                    text += data
        except TimeoutError:
            text = b""
        except addresses.WireupError as error:
            raise addresses.WireupError(f"rank 0 of job {name} is not to be found on this host: {error}") from None
        if text:
            return _split(text.decode())
        if originals.monotonic() > deadline:
            raise addresses.WireupError(f"rank 0 of job {name} does not answer")
        originals.sleep(0.01)
