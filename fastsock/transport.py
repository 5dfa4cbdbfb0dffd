"""The interface of every path, with the capabilities and the reasons that it names."""

from __future__ import annotations

import abc
import enum
import errno
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Mapping, Sequence
    from typing import Any, Protocol

    from .config import Settings
else:  # `typing` would cost every start-up
    Protocol = object


class Reason(enum.Enum):
    """Why a connection took the path that it took. Every connection has exactly one."""

    JOINED = "joined"
    NOT_A_TCP_STREAM = "not_a_tcp_stream"
    NOT_CONNECTED = "not_connected"
    EXCLUDED_BY_SETTING = "excluded_by_setting"
    EXCLUDED_BY_RULE = "excluded_by_rule"
    PEER_NOT_LOCAL = "peer_not_local"
    LISTENER_DID_NOT_ANSWER = "listener_did_not_answer"
    CLOSED_BEFORE_MEETING = "closed_before_meeting"
    LISTENER_LAPSED_BEFORE = "listener_lapsed_before"
    NO_LISTENER_PRESENCE = "no_listener_presence"
    BACKLOG_FULL = "backlog_full"
    NOT_YET = "not_yet"
    PEER_DID_NOT_JOIN = "peer_did_not_join"
    PEER_DECLINED = "peer_declined"
    PEER_VERSION = "peer_version"
    OTHER_USER = "other_user"
    NO_NATIVE_CORE = "no_native_core"
    NOT_LINUX = "not_linux"
    NO_SOCKETS_DIRECT = "no_sockets_direct"
    KERNEL_FELL_BACK = "kernel_fell_back"
    NO_MEMORY = "no_memory"
    NO_DESCRIPTORS = "no_descriptors"
    SYSTEM_ERROR = "system_error"
    DESCRIPTOR_WATCHED = "descriptor_watched"
    DESCRIPTOR_TAKEN = "descriptor_taken"
    NO_RDMA_DEVICE = "no_rdma_device"
    NO_RDMA_LIBRARY = "no_rdma_library"
    OLD_RDMA_LIBRARY = "old_rdma_library"
    NO_RDMA_ROUTE = "no_rdma_route"
    NO_RDMA_LISTENER = "no_rdma_listener"
    RDMA_LIBRARY_BUSY = "rdma_library_busy"
    IWARP = "iwarp"
    OLD_KERNEL = "old_kernel"
    FORKED_WITH_RDMA = "forked_with_rdma"
    CONNECTS_WITHOUT_WAITING = "connects_without_waiting"
    RESUMED = "resumed"

    def __str__(self) -> str:
        return self.value


ADVICE: dict[Reason, str] = {
    Reason.EXCLUDED_BY_SETTING: "add the path to FASTSOCK_TRANSPORTS or remove the ^ before it",
    Reason.EXCLUDED_BY_RULE: "change the rule in the file that FASTSOCK_CONFIG names",
    Reason.PEER_NOT_LOCAL: "nothing to do: the other end is on another host",
    Reason.LISTENER_DID_NOT_ANSWER: "the server was busy, or foreign code accepts; FASTSOCK_MEETING_MS gives it longer",
    Reason.NO_LISTENER_PRESENCE: "start the server with `python -m fastsock.launcher` or import fastsock.socket in it, "
    "and let it take that path too",
    Reason.NOT_YET: "nothing: it gains memory when it has lasted, if the other end runs fastsock on this host too; "
    "FASTSOCK_UPGRADE_AFTER says how long",
    Reason.PEER_DID_NOT_JOIN: "run fastsock at the other end too, as the same user, with settings that allow the path",
    Reason.LISTENER_LAPSED_BEFORE: "the server let earlier offers lapse; it is tried again from time to time",
    Reason.DESCRIPTOR_WATCHED: "connect first and register the descriptor with poll or epoll afterwards",
    Reason.OTHER_USER: "both ends must run as one user that their user namespaces map, or both set FASTSOCK_PEERS=any",
    Reason.NO_NATIVE_CORE: "install a C compiler and the Python headers, then reinstall fastsock",
    Reason.NOT_LINUX: "nothing to do: the faster paths need Linux",
    Reason.NO_SOCKETS_DIRECT: "load the kernel's SMC module (modprobe smc smc_diag), or leave sdp out of the paths",
    Reason.KERNEL_FELL_BACK: "explain(sock).detail has the kernel's own reason; `smcr device` lists devices",
    Reason.NO_MEMORY: "raise the memory or file size limit, or set a smaller FASTSOCK_RING_BYTES",
    Reason.NO_DESCRIPTORS: "raise the limit of open descriptors (ulimit -n)",
    Reason.NO_RDMA_DEVICE: "nothing to do without RDMA hardware; `fastsock doctor` lists the devices",
    Reason.NO_RDMA_LIBRARY: "install libibverbs1, librdmacm1 and their headers, then reinstall fastsock",
    Reason.OLD_RDMA_LIBRARY: "install librdmacm of rdma-core 53 or newer, or take rdma in place of rsockets",
    Reason.NO_RDMA_ROUTE: "connect to the address of an RDMA device's network",
    Reason.NO_RDMA_LISTENER: "start the server with `python -m fastsock.launcher` on a host with an RDMA device",
    Reason.RDMA_LIBRARY_BUSY: "listen again later: librdmacm waits for a host that died or stopped while it connected",
    Reason.IWARP: "use InfiniBand or RoCE: iWARP has no ports but TCP's, so others would see the meeting",
    Reason.OLD_KERNEL: "use Linux 5.12 or newer: on an older one a forked child loses the memory that a device uses",
    Reason.FORKED_WITH_RDMA: "fork before the first connection over RDMA, or start processes by `spawn`",
    Reason.CONNECTS_WITHOUT_WAITING: "the connect does not block, and TCP took longer than FASTSOCK_MEETING_MS",
    Reason.PEER_VERSION: "install the same version of fastsock at both ends",
}


WITHOUT_CORE = Reason.NO_NATIVE_CORE if sys.platform == "linux" else Reason.NOT_LINUX
"""Why a process without the native core has plain TCP."""


class Capability(enum.Flag):
    """What a path can do. Each member is asked for somewhere in fastsock."""

    SAME_HOST = enum.auto()  # it joins processes of one host
    MEETS_BESIDE_TCP = enum.auto()  # the meeting (meeting/near.py) agrees on it
    SHARED_MEMORY = enum.auto()  # bytes go through memory that both ends map
    OPENS_SOCKET = enum.auto()  # the kernel makes the whole socket, in place of TCP's
    BETWEEN_HOSTS = enum.auto()  # it joins processes of two hosts, and meets before TCP connects (meeting/remote.py)


NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_REASONS = {
    **dict.fromkeys(NO_DESCRIPTORS, Reason.NO_DESCRIPTORS),
    **dict.fromkeys((errno.ENOMEM, errno.EFBIG, errno.ENOSPC), Reason.NO_MEMORY),
}


class Refused(Exception):
    """A path cannot serve this connection. The next one in the chain is tried."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail

    @classmethod
    def by(cls, error: OSError) -> Refused:
        """The refusal for an error of the system: its number decides the reason, its text is the detail."""
        return cls(_REASONS.get(error.errno or 0, Reason.SYSTEM_ERROR), str(error))


class Channel(Protocol):
    """One end of a connection whose bytes a path carries itself, through one descriptor: the doorbell's.

    The socket calls `recv`, `recv_into`, `send` and `sendall` straight, in any thread. They keep the stream contract.
    Each byte arrives once and in order, or the call raises. Errors and timeouts are a socket's. The other end's death
    shows as soon as the kernel shows it. The descriptor must tell poll() and epoll what a TCP socket's would, level-
    and edge-triggered.

    A channel may subclass this class. Then each method that it leaves out raises NotImplementedError. Native channels
    (fastsock.core.Channel) have the same methods.
    """

    peer: str  # the other end, for messages

    # Data

    def send(self, data: Buffer, flags: int = 0, /) -> int:
        """As socket.send()."""
        raise NotImplementedError

    def sendall(self, data: Buffer, flags: int = 0, /) -> None:
        """As socket.sendall()."""
        raise NotImplementedError

    def sendmsg(self, buffers: Sequence[Buffer], flags: int = 0) -> int:
        """Sends the buffers one after the other. Returns the number of bytes taken. There is no ancillary data.

        What is short, and finds room, comes to a receiver that waits as one piece.
        """
        raise NotImplementedError

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As socket.recv()."""
        raise NotImplementedError

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        """As socket.recv_into()."""
        raise NotImplementedError

    # Options

    def settimeout(self, timeout: float | None, /) -> None:
        """Sets how many seconds later calls may block. None: for ever. 0: they do not block."""
        raise NotImplementedError

    def set_kernel_timeouts(self, receive: float, send: float) -> None:
        """SO_RCVTIMEO and SO_SNDTIMEO, in seconds. 0: no timeout."""
        raise NotImplementedError

    def set_send_buffer(self, size: int) -> None:
        """SO_SNDBUF as the program set it, in bytes."""
        raise NotImplementedError

    def set_receive_buffer(self, size: int) -> None:
        """SO_RCVBUF as the program set it, in bytes."""
        raise NotImplementedError

    def set_urgent_inline(self, on: bool) -> None:
        """SO_OOBINLINE."""
        raise NotImplementedError

    def take_error(self) -> int:
        """SO_ERROR: the number of the pending error, 0 for none. The call clears the error."""
        raise NotImplementedError

    # Ending

    def shutdown(self, how: int, /) -> None:
        """As socket.shutdown()."""
        raise NotImplementedError

    def was_reset(self) -> bool:
        """Whether the other end reset the connection."""
        raise NotImplementedError

    def resumed(self) -> bool:
        """Whether the connection goes on over TCP, because what carried it broke (FASTSOCK_FAILOVER)."""
        return False

    def is_over(self) -> bool:
        """Whether neither half can move a byte any more."""
        raise NotImplementedError

    def close(self, reset: bool = False) -> None:
        """Closes the channel and its descriptor. Bytes sent before still reach the other end, unless `reset`."""
        raise NotImplementedError

    def closed_by_number(self, reset: bool) -> None:
        """As close(), but leaves the descriptor open: the program closes it right after this call."""
        raise NotImplementedError

    # Descriptors

    def fileno(self) -> int:
        """The descriptor, or -1 once it is closed."""
        raise NotImplementedError

    def rebind(self, doorbell: int, /) -> None:
        """The doorbell has moved to this number."""
        raise NotImplementedError

    def duplicate(self, doorbell: int, /) -> Channel:
        """A second channel of the same connection, through a duplicate of the descriptor."""
        raise NotImplementedError

    def watch(self) -> None:
        """The program has the number now. From now on the kernel must tell readiness exactly."""
        raise NotImplementedError

    def forked(self) -> None:
        """Called in a child after fork(). Other threads that were inside a call do not exist in the child."""
        raise NotImplementedError

    # The way out: foreign code takes the descriptor

    def release(self) -> bool:
        """Lets the descriptor itself carry all bytes, if it can. Returns False if not: then bridge() is called."""
        raise NotImplementedError

    def begin_move(self) -> None:
        """Holds the calls of other threads that are inside, until end_move()."""
        raise NotImplementedError

    def end_move(self, successor: Any) -> None:
        """Lets the held calls go on.

        successor: a weak reference to the socket with which they go on, or None: they go on with this channel.
        """
        raise NotImplementedError

    def bridge(self, doorbell: int, inner: int, survives: bool = False, /) -> None:
        """Pumps bytes between this connection and the socket `inner` until both have ended.

        The bridge owns both descriptors from now on. survives: it goes on after this process has ended. Raises OSError
        if it cannot start. Then nothing has changed.
        """
        raise NotImplementedError

    # Being seen

    def statistics(self) -> dict[str, int] | None:
        """The counts for `fastsock.explain()`: bytes_sent, bytes_received, and others that the path keeps."""
        raise NotImplementedError


class Transport(abc.ABC):
    """One path between two ends. A path knows nothing of the socket class.

    Paths with OPENS_SOCKET implement `open`, `owns` and `carrier`. Paths with BETWEEN_HOSTS implement `listen`, `reach`
    and `reached`. Paths with MEETS_BESIDE_TCP implement `offer` and `join`, and have a `number`. Both get the connected
    UNIX stream socket of the meeting, and the other end's process id (0 where it has no number here). Both give a
    channel. Once they have returned, joining must not fail any more.
    """

    name: str
    number: int  # on the wire of the meeting, of a path with MEETS_BESIDE_TCP
    capabilities: Capability
    differs: Mapping[str, str] = {}
    """The checks of fastsock.testing that the path cannot pass, as `flags.waitall_with_peek`, each with the reason.

    They are strict: check_stream() fails if one of these checks passes after all.
    """
    depends: Mapping[str, str] = {}
    """The same of checks that the path passes on some machines, or at times. check_stream() insists on neither."""

    def usable(self) -> Reason | None:
        """The reason why this process cannot use the path at all, or None."""
        return None

    def advice(self, reason: Reason) -> str:
        """A sentence that says what a user can do about `reason`, or an empty text."""
        return ADVICE.get(reason, "")

    def open(self, family: int) -> int:
        """The descriptor of a new stream socket for AF_INET or AF_INET6, in place of TCP's. Raises OSError.

        It must take TCP's addresses and options.
        """
        raise NotImplementedError(f"the {self.name} path makes no sockets")

    def meets_tcp(self) -> bool:
        """Whether a socket of open() also meets a plain TCP socket at the other end."""
        return True

    def owns(self, domain: int) -> bool:
        """Whether a socket of that address family is one that open() made."""
        return False

    def carrier(self, descriptor: int) -> tuple[bool, str] | None:
        """Whether the path carries the bytes of that connected socket, not TCP, and what is known in words.

        None while that is undecided.
        """
        raise NotImplementedError(f"the {self.name} path makes no sockets")

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[Channel, list[int], int]:
        """The accepting end's half. Returns a channel, the descriptors to pass, and a number to pass.

        The caller closes those descriptors. Raises Refused if the path cannot serve.
        """
        raise NotImplementedError(f"the {self.name} path does not meet beside TCP")

    def join(
        self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int
    ) -> Channel:
        """The connecting end's half, with the descriptors and the number of offer(). Returns a channel.

        The caller closes the descriptors. Raises Refused if the path cannot serve.
        """
        raise NotImplementedError(f"the {self.name} path does not meet beside TCP")

    def listen(self, ip: str, port: int) -> Listening:
        """A path with BETWEEN_HOSTS: it hears of connecting ends at a listener's address. Raises Refused."""
        raise NotImplementedError(f"the {self.name} path does not join hosts")

    def reach(self, source: tuple[str, int], target: tuple[str, int], seconds: float) -> Span:
        """The same path's half at the connecting end, before TCP connects from `source` to `target`. Raises Refused."""
        raise NotImplementedError(f"the {self.name} path does not join hosts")

    def reached(self, source: tuple[str, int]) -> Span | None:
        """The accepting end's half: what the connecting end began for the connection that came from `source`."""
        raise NotImplementedError(f"the {self.name} path does not join hosts")


class Listening(Protocol):
    """What a path with BETWEEN_HOSTS keeps for a listener."""

    def close(self) -> None: ...


class Span(Protocol):
    """A connection to another host that is there, and that the socket may take or leave."""

    def accepted(self, seconds: float) -> bool:
        """Waits until the other end's program has accepted, so long at most."""

    def withdraw(self, seconds: float = 0.0) -> bool:
        """Stays on TCP. Returns False if the other end accepted first: then this end must open it.

        seconds: how long to wait for the other end's word. 0: the other end cannot have accepted. Raises
        ConnectionResetError if no word came: then nobody knows, and the connection is lost.
        """

    def open(self, doorbell: int, other: int, tcp: int, settings: Settings, peer: str) -> Channel:
        """The channel, at `doorbell`. `other`, that one's other end, and `tcp`, a duplicate of TCP's, are taken over.

        Raises OSError: then nothing is taken over.
        """
