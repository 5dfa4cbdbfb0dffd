"""What every path is to the rest of fastsock: the interface, its capabilities and its reasons, and nothing else."""

from __future__ import annotations

import abc
import enum
import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Buffer, Mapping, Sequence
    from typing import Any, Protocol

    from .config import Settings
else:  # `typing` would cost every start-up
    Protocol = object


class Reason(enum.Enum):
    """Why a connection took the path it took. One is given for every connection, never none."""

    JOINED = "joined"
    NOT_A_TCP_STREAM = "not_a_tcp_stream"
    NOT_CONNECTED = "not_connected"
    EXCLUDED_BY_SETTING = "excluded_by_setting"
    EXCLUDED_BY_RULE = "excluded_by_rule"
    PEER_NOT_LOCAL = "peer_not_local"
    NO_LISTENER_PRESENCE = "no_listener_presence"
    LISTENER_DID_NOT_ANSWER = "listener_did_not_answer"
    CLOSED_BEFORE_MEETING = "closed_before_meeting"
    LISTENER_LAPSED_BEFORE = "listener_lapsed_before"
    SHORT_LIVED_BEFORE = "short_lived_before"
    BACKLOG_FULL = "backlog_full"
    NOT_ACCEPTED_YET = "not_accepted_yet"
    ACCEPTED_BY_OTHERS = "accepted_by_others"
    NO_OFFER = "no_offer"
    PEER_DID_NOT_JOIN = "peer_did_not_join"
    PEER_DECLINED = "peer_declined"
    PEER_VERSION = "peer_version"
    OTHER_USER = "other_user"
    NO_NATIVE_CORE = "no_native_core"
    NO_MEMORY = "no_memory"
    NO_DESCRIPTORS = "no_descriptors"
    NO_PORT = "no_port"
    SYSTEM_ERROR = "system_error"
    DESCRIPTOR_WATCHED = "descriptor_watched"
    DESCRIPTOR_TAKEN = "descriptor_taken"

    def __str__(self) -> str:
        return self.value


ADVICE: dict[Reason, str] = {
    Reason.EXCLUDED_BY_SETTING: "add the path to FASTSOCK_TRANSPORTS or remove the ^ before it",
    Reason.EXCLUDED_BY_RULE: "change the rule in the file that FASTSOCK_CONFIG names",
    Reason.PEER_NOT_LOCAL: "nothing to do: the other end is on another host",
    Reason.NO_LISTENER_PRESENCE: "start the server with `python -m fastsock.launcher` or import fastsock.socket in it; "
    "one that closed all descriptors but its listener's is found again once it has accepted",
    Reason.LISTENER_DID_NOT_ANSWER: "the server was busy, or foreign code accepts; FASTSOCK_MEETING_MS gives it longer",
    Reason.NOT_ACCEPTED_YET: "nothing: the connection leaves TCP as soon as the server has called accept()",
    Reason.ACCEPTED_BY_OTHERS: "the server's program or a library of it accepts in C, or without fastsock",
    Reason.LISTENER_LAPSED_BEFORE: "the server let earlier offers lapse; it is tried again from time to time",
    Reason.SHORT_LIVED_BEFORE: "nothing: TCP is faster for so little; FASTSOCK_SHORT_LIVED=path takes the path always",
    Reason.NO_OFFER: "start the client with `python -m fastsock.launcher` or import fastsock.socket in it",
    Reason.DESCRIPTOR_WATCHED: "connect first and register the descriptor with poll or epoll afterwards",
    Reason.OTHER_USER: "both ends must run as one user that their user namespaces map, or both set FASTSOCK_PEERS=any",
    Reason.NO_NATIVE_CORE: "install a C compiler and the Python headers, then reinstall fastsock",
    Reason.NO_MEMORY: "raise the memory or file size limit, or set a smaller FASTSOCK_RING_BYTES",
    Reason.NO_DESCRIPTORS: "raise the limit of open descriptors (ulimit -n)",
    Reason.PEER_VERSION: "install the same version of fastsock at both ends",
}


class Capability(enum.Flag):
    """What a path can do. Only what somebody asks is here."""

    SAME_HOST = enum.auto()  # joins processes of one host
    MEETS_BESIDE_TCP = enum.auto()  # is agreed on by the meeting (meeting/)
    SHARED_MEMORY = enum.auto()  # bytes go through memory that both ends map


NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_REASONS = {
    **dict.fromkeys(NO_DESCRIPTORS, Reason.NO_DESCRIPTORS),
    **dict.fromkeys((errno.ENOMEM, errno.EFBIG, errno.ENOSPC), Reason.NO_MEMORY),
}


class Refused(Exception):
    """A path that cannot serve this connection; the next one in the chain is tried."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else str(reason))
        self.reason = reason
        self.detail = detail

    @classmethod
    def by(cls, error: OSError) -> Refused:
        """The refusal that an error of the system comes to."""
        return cls(_REASONS.get(error.errno or 0, Reason.SYSTEM_ERROR), str(error))


class Channel(Protocol):
    """One end of a connection whose bytes a path carries itself, through one descriptor: the doorbell's.

    The socket calls `recv`, `recv_into`, `send` and `sendall` straight, in any thread. They keep the stream contract:
    each byte once and in order, or an error; the errors and time-outs of a socket; the other end's death as soon as
    the kernel shows it. The descriptor must tell poll() and epoll what a TCP socket's would, level and edge.

    A channel may subclass this class: then each method that it leaves out raises NotImplementedError. Native channels
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
        """Sends the buffers one after the other, and returns how many bytes were taken. No ancillary data."""
        raise NotImplementedError

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """As socket.recv()."""
        raise NotImplementedError

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        """As socket.recv_into()."""
        raise NotImplementedError

    # Options

    def settimeout(self, timeout: float | None, /) -> None:
        """Seconds for the calls that follow; None: for ever; 0: they do not block."""
        raise NotImplementedError

    def set_kernel_timeouts(self, receive: float, send: float) -> None:
        """SO_RCVTIMEO and SO_SNDTIMEO, in seconds; 0: none."""
        raise NotImplementedError

    def set_send_buffer(self, size: int) -> None:
        """SO_SNDBUF as the program set it, in bytes."""
        raise NotImplementedError

    def set_urgent_inline(self, on: bool) -> None:
        """SO_OOBINLINE."""
        raise NotImplementedError

    def take_error(self) -> int:
        """SO_ERROR: the number of the error that waits, 0 for none. Asking takes the error away."""
        raise NotImplementedError

    # Ending

    def shutdown(self, how: int, /) -> None:
        """As socket.shutdown()."""
        raise NotImplementedError

    def was_reset(self) -> bool:
        """Whether the other end reset the connection."""
        raise NotImplementedError

    def is_over(self) -> bool:
        """Whether neither half can move a byte any more."""
        raise NotImplementedError

    def close(self, reset: bool = False) -> None:
        """Closes the descriptor too. What was sent reaches the other end, unless `reset`."""
        raise NotImplementedError

    def closed_by_number(self, reset: bool) -> None:
        """As close(), where the program closes the descriptor itself, right after this call."""
        raise NotImplementedError

    # Descriptors

    def fileno(self) -> int:
        """The descriptor, -1 once it is closed."""
        raise NotImplementedError

    def rebind(self, doorbell: int, /) -> None:
        """The doorbell has moved to this number."""
        raise NotImplementedError

    def duplicate(self, doorbell: int, /) -> Channel:
        """A second channel of the same connection, through a duplicate of the descriptor."""
        raise NotImplementedError

    def watch(self) -> None:
        """The number was given out: from now on readiness must be exact for whoever asks the kernel."""
        raise NotImplementedError

    def knock(self) -> None:
        """Sends one byte over the doorbell: this end has joined. The byte `M` would say that it has not."""
        raise NotImplementedError

    def joined(self) -> None:
        """At the accepting end: that byte lies at the doorbell. The channel takes it, or leaves it."""
        raise NotImplementedError

    def forked(self) -> None:
        """Called in a child after fork(): the threads that were inside are not in the child."""
        raise NotImplementedError

    # The way out: foreign code takes the descriptor

    def release(self) -> bool:
        """Whether the descriptor itself can carry all bytes from now on, and does. Else bridge() is called."""
        raise NotImplementedError

    def begin_move(self) -> None:
        """Calls of other threads that are inside wait, until end_move()."""
        raise NotImplementedError

    def end_move(self, successor: Any) -> None:
        """They go on: with the socket that a weak reference gives, or here where it is None."""
        raise NotImplementedError

    def bridge(self, doorbell: int, inner: int, survives: bool = False, /) -> None:
        """Pumps between this connection and the socket `inner` until both ended; both descriptors are its own then.

        survives: also after this process ended. Raises OSError, and has done nothing then.
        """
        raise NotImplementedError

    # Being seen

    def statistics(self) -> dict[str, int] | None:
        """What `fastsock.explain()` tells: bytes_sent, bytes_received, and whatever else the path counts."""
        raise NotImplementedError


class Transport(abc.ABC):
    """One path between two ends. A path knows nothing of the socket class.

    Paths with MEETS_BESIDE_TCP also implement `offer` and `join`; both are given the connected UNIX stream socket of
    the meeting and the other end's process id (0 where it has no number here), and give a channel (an object with a
    socket's data methods), or None where that socket itself is the stream. After they returned, joining must not fail
    any more.
    """

    name: str
    number: int  # on the wire of the meeting
    capabilities: Capability
    shares_memory = False  # whether they hold SHARED_MEMORY, which is asked at each connect
    differs: Mapping[str, str] = {}
    """The checks of fastsock.testing that the path cannot pass, as `flags.waitall_with_peek`, each with the reason.

    They are strict: check_stream() fails where such a check passes after all.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "capabilities" in vars(cls):
            cls.shares_memory = Capability.SHARED_MEMORY in cls.capabilities

    def usable(self) -> Reason | None:
        """Why this process cannot use the path at all, or None."""
        return None

    def advice(self, reason: Reason) -> str:
        """What a user can do about `reason`, or an empty text."""
        return ADVICE.get(reason, "")

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[Channel | None, list[int], int]:
        """The accepting end's half: channel or None, descriptors to pass (closed by the caller), a number to pass.

        Raises Refused.
        """
        raise NotImplementedError(f"the {self.name} path does not meet beside TCP")

    def join(
        self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int
    ) -> Channel | None:
        """The connecting end's half, with what offer() passed (closed by the caller): the channel or None.

        Raises Refused.
        """
        raise NotImplementedError(f"the {self.name} path does not meet beside TCP")

    def declined(self, pid: int) -> bool:
        """The other end could not use what offer() gave; whether offering once more may give something else."""
        return False

    def reserve(self, pid: int, ticket: int) -> Reservation | None:
        """Sets aside what the next connection with that process needs, under a number that both ends know it by.

        A path where the accepting end can then claim it without another word saves both ends the wait for each other.
        """
        return None

    def claim(self, ticket: int) -> Claim | None:
        """The accepting end's half of a meeting with a reservation, if there is one."""
        return None

    def begin(self, doorbell: int, settings: Settings, peer: str) -> tuple[Channel, int]:
        """The connecting end's channel, before there is another end, and the descriptor of the memory for that one.

        Only paths with SHARED_MEMORY can: the channel must keep what is sent. Raises Refused.
        """
        raise NotImplementedError(f"the {self.name} path needs both ends")

    def take_over(self, doorbell: int, memory: int, settings: Settings, peer: str, pid: int) -> Channel:
        """The accepting end's channel, of what begin() made; the caller closes `memory`. Raises Refused."""
        raise NotImplementedError(f"the {self.name} path needs both ends")


class Reservation(abc.ABC):
    """What the connecting end set aside. Either the other end claims it or this end withdraws it: one of the two."""

    @abc.abstractmethod
    def is_claimed(self) -> bool:
        """Whether the other end claimed it, and did not give it up."""

    @abc.abstractmethod
    def withdraw(self, useless: bool = False) -> bool:
        """Ends it, unless the other end claimed it: then False. useless: the other end would not claim the like."""

    @abc.abstractmethod
    def join(self, doorbell: int, settings: Settings, peer: str) -> Channel:
        """The channel, once it is claimed. Must not fail."""


class Claim(abc.ABC):
    """A reservation of the process `pid` that this end claimed."""

    pid: int

    @abc.abstractmethod
    def join(self, doorbell: int, settings: Settings, peer: str) -> Channel:
        """The channel. Must not fail."""

    @abc.abstractmethod
    def give_up(self) -> None:
        """Instead of join(): the connection stays on TCP after all, and the other end stops waiting."""
