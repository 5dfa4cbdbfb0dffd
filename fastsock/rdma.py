"""The rdma path: two hosts with RDMA devices, joined by a queue pair (core/remote, core/verbs). And the rsockets path.

The program's socket is an end of a connection in shared memory, as on one host. A thread of this process has the other
end, and the device. It carries what the program sends, and places what arrives. So a socket of this path can do what a
socket of the shm path can do: its descriptor tells poll() and epoll the truth, and foreign code may take it.

TCP's connection stays open beside it, silent. Its end tells that the other process has ended.
"""

from __future__ import annotations

import errno

from . import core
from .config import settings
from .transport import WITHOUT_CORE, Capability, Reason, Refused, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .config import Settings

_KILLED = "a killed process's end is told as a reset: what it had sent may be lost with it"
_TAKES_TIME = "what is sent to another host takes time, and the check looks at once"
_ROOM = "an end that was full may have room a moment later, though nobody reads"
_WHY_NOT = {
    errno.ENODEV: Reason.NO_RDMA_DEVICE,
    errno.EPERM: Reason.FORKED_WITH_RDMA,
    errno.ENOTSUP: Reason.OLD_KERNEL,
    errno.ELIBBAD: Reason.OLD_RDMA_LIBRARY,
}
_REFUSED = {
    errno.ENODEV: Reason.NO_RDMA_ROUTE,
    errno.EADDRNOTAVAIL: Reason.NO_RDMA_ROUTE,
    errno.ENETUNREACH: Reason.NO_RDMA_ROUTE,
    errno.EOPNOTSUPP: Reason.IWARP,
    errno.EBUSY: Reason.RDMA_LIBRARY_BUSY,
    errno.ECONNREFUSED: Reason.NO_RDMA_LISTENER,
    errno.ETIMEDOUT: Reason.NO_RDMA_LISTENER,
    errno.EPROTO: Reason.PEER_VERSION,
    errno.EPERM: Reason.FORKED_WITH_RDMA,
}


def _refused(error: OSError) -> Refused:
    reason = _REFUSED.get(error.errno or 0)
    return Refused.by(error) if reason is None else Refused(reason, str(error))


def _choose() -> None:
    """For the connections made from now on."""
    now = settings()
    core.rdma_resume(now.failover == "resume")
    core.rdma_rendezvous(now.rdma_rendezvous == "read")


class _Span:
    """A connection that joins both hosts. Nobody uses it yet."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def accepted(self, seconds: float) -> bool:
        return self._span.wait(seconds) == core.SPAN_OPEN  # type: ignore[no-any-return]

    def withdraw(self, seconds: float = 0.0) -> bool:
        state = self._span.withdraw(seconds)
        if seconds and state == core.SPAN_BROKEN:
            raise ConnectionResetError(errno.ECONNRESET, "the other host broke off while both met")
        return state != core.SPAN_OPEN  # type: ignore[no-any-return]

    def open(self, doorbell: int, other: int, tcp: int, settings: Settings, peer: str) -> Any:
        return self._span.open(doorbell, other, tcp, spin_us=settings.spin_us, peer=peer)


class RdmaTransport(Transport):
    name = "rdma"
    capabilities = Capability.BETWEEN_HOSTS
    differs: Mapping[str, str] = {
        **dict.fromkeys(
            (
                "addresses.names_agree_in_version_six",
                "addresses.source_address_is_kept",
                "addresses.wildcard_listener",
                "addresses.dual_stack_listener",
            ),
            "it connects to or from a loopback address, where no device is",
        ),
        **dict.fromkeys(
            ("closing.send_to_who_closed", "closing.close_with_our_bytes_unread_there"),
            "a reset shows as a hang-up, without POLLERR",
        ),
        "forks.workers_share_a_listener": "a worker forked from the process that listens stays on TCP",
        "descriptors.daemon_that_closed_all_descriptors": "with all numbers the program closes the device's too",
        "flags.urgent_byte": "no urgent bytes are sent to another host",
        "flags.urgent_byte_in_line": "no urgent bytes are sent to another host",
    }
    depends: Mapping[str, str] = {
        "flags.waitall_with_peek": "a peek returns what is there",
        **dict.fromkeys(
            (
                "closing.death_of_the_peer_loses_nothing",
                "descriptors.detached_number_sees_the_peer_die",
                "ending.death_ends_the_file",
                "ending.death_seen_by_a_sender",
                "ending.death_seen_by_short_timeouts",
                "ending.death_wakes_a_blocked_receiver",
                "ending.stopped_sender_then_killed",
                "ending.death_with_unread_data_resets",
                "readiness.death_is_reported",
                "readiness.reads_to_the_end_by_events",
            ),
            _KILLED,
        ),
        **dict.fromkeys(
            (
                "descriptors.numbers_are_given_back",
                "ending.close_wakes_a_blocked_sender",
                "ending.much_sent_after_the_peer_closed",
                "meeting.presence_is_removed",
                "readiness.level_triggered_life",
                "readiness.every_message_is_reported",
                "timeouts.full_sends_time_out",
                "timeouts.kernel_timeouts",
            ),
            _TAKES_TIME,
        ),
        **dict.fromkeys(
            ("ending.shut_after_the_peer_shut_both_unread", "ending.send_after_the_peer_shut_both_unread"),
            "an end that shut both halves with bytes unread counts as closed",
        ),
    }

    def usable(self) -> Reason | None:
        if not core.available:
            return WITHOUT_CORE
        error = self._usable()
        return _WHY_NOT.get(error, Reason.NO_RDMA_LIBRARY) if error else None

    def listen(self, ip: str, port: int) -> Any:
        _choose()
        try:
            return self._listener((ip, port))
        except OSError as error:
            raise _refused(error) from error

    def reach(self, source: tuple[str, int], target: tuple[str, int], seconds: float) -> _Span:
        _choose()
        try:
            return _Span(self._offer(source, target, seconds))
        except OSError as error:
            raise _refused(error) from error

    def reached(self, source: tuple[str, int]) -> _Span | None:
        span = self._claim(source)
        return None if span is None else _Span(span)

    # ---- what the core does for this path ----

    def _usable(self) -> Any:
        return core.rdma_usable()

    def _listener(self, at: tuple[str, int]) -> Any:
        return core.rdma_listen(at)

    def _offer(self, source: tuple[str, int], target: tuple[str, int], seconds: float) -> Any:
        return core.rdma_offer(source, target, seconds)

    def _claim(self, source: tuple[str, int]) -> Any:
        return core.rdma_claim(source)


class RsocketsTransport(RdmaTransport):
    """The same by librdmacm's rsockets, the member of the sockets-direct family outside the kernel.

    An rsocket's own descriptor does not tell poll() of its bytes: only rpoll() knows. So the program's socket is that
    of the rdma path, and the thread that serves it asks rpoll() (core/remote/rsocket_bridge.h). `rdma` is the better
    path where both can be had: it moves large data without a copy, and meets with fewer words.
    """

    name = "rsockets"
    depends: Mapping[str, str] = {
        **RdmaTransport.depends,
        **dict.fromkeys(
            (
                "flags.dontwait_on_a_blocking_socket",
                "threads.close_under_a_blocked_sender",
                "threads.shutdown_wakes_a_sender_in_another_thread",
            ),
            _ROOM,
        ),
    }

    def _usable(self) -> Any:
        return core.rsockets_usable()

    def _listener(self, at: tuple[str, int]) -> Any:
        return core.rsockets_listen(at)

    def _offer(self, source: tuple[str, int], target: tuple[str, int], seconds: float) -> Any:
        return core.rsockets_offer(source, target, seconds)

    def _claim(self, source: tuple[str, int]) -> Any:
        return core.rsockets_claim(source)
