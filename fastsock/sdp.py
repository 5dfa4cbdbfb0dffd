"""The sdp path: the sockets-direct family. The kernel makes the whole stream socket, in place of TCP's.

AF_SMC is the member that a mainline kernel has. It shakes hands over TCP, then carries the bytes by RDMA (SMC-R) or
by shared memory of a device (SMC-D). Where the other end is plain TCP, or there is no device, the kernel falls back
to that TCP connection by itself. So nobody who is not asked for it notices it.

AF_INET_SDP is what a kernel with the OpenFabrics distribution's ib_sdp has. It has ports of its own: a plain TCP socket
does not meet it.
"""

from __future__ import annotations

import _socket
import errno
from collections.abc import Mapping

from .system.originals import originals
from .transport import Capability, Reason, Transport

AF_SMC = 43
AF_INET_SDP = 27
_PROTOCOLS = "/proc/net/protocols"
_SMC_PROTOCOLS = {_socket.AF_INET: 0, _socket.AF_INET6: 1}  # SMCPROTO_SMC, SMCPROTO_SMC6
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
# AF_SMC takes 64 KiB unasked, and does not grow it. A program may rely on TCP's patience with unread bytes.
_BUFFER_BYTES = 1 << 20
_STREAM = _socket.SOCK_STREAM | getattr(_socket, "SOCK_CLOEXEC", 0)  # Linux alone has these sockets


def _kernel_has(protocol: bytes) -> bool:
    """Whether the kernel has it now. To ask by socket() would wait for a module to be loaded."""
    try:
        descriptor = originals.open(_PROTOCOLS, 0)
        try:
            listed = b""
            while part := originals.read(descriptor, 1 << 16):
                listed += part
        finally:
            originals.close(descriptor)
    except OSError:
        return False
    return any(line.startswith(protocol + b" ") for line in listed.split(b"\n"))


_NO_RESET = "AF_SMC tells of no reset: it looks like an orderly end"
_REFUSES = "AF_SMC refuses at once to send to an end that has closed"
_FLAGS = "AF_SMC has no urgent bytes and no error queue, and refuses their flags"
_SMALL = "SMC-D keeps less than 1 MiB that nobody has read"
_LATER = "over SMC-R a byte arrives some time after it was sent, also within a host"
_ROOM = "over SMC-R an end that was full may have room a moment later, though nobody reads"
_NO_IPV6 = "SMC-R needs a device with an IPv6 address, else the kernel stays on TCP"


class _Smc:
    protocol = b"SMC"
    domain = AF_SMC
    meets_tcp = True

    def open(self, family: int) -> int:
        made = _socket.socket(AF_SMC, _STREAM, _SMC_PROTOCOLS[family])
        for option, forced in ((_socket.SO_SNDBUF, _SO_SNDBUFFORCE), (_socket.SO_RCVBUF, _SO_RCVBUFFORCE)):
            try:
                made.setsockopt(_socket.SOL_SOCKET, forced, _BUFFER_BYTES)
            except OSError:  # without the privilege: what net.core allows
                made.setsockopt(_socket.SOL_SOCKET, option, _BUFFER_BYTES)
        return made.detach()

    def carrier(self, descriptor: int) -> tuple[bool, str] | None:
        from .system import smc_diag

        try:
            seen = smc_diag.look_up(originals.fstat(descriptor).st_ino)
        except OSError as error:
            return True, f"AF_SMC: {error.strerror or error}"
        if seen is None or seen[0] == smc_diag.INIT:
            return None
        _, mode, reason, diagnosis = seen
        if mode != smc_diag.FALLBACK:
            return True, smc_diag.MODES.get(mode, f"AF_SMC in mode {mode}")
        detail = f"AF_SMC fell back: {smc_diag.describe(reason)}"
        return False, detail + (f"; the other end says: {smc_diag.describe(diagnosis)}" if diagnosis else "")


class _InetSdp:
    protocol = b"SDP"
    domain = AF_INET_SDP
    meets_tcp = False

    def open(self, family: int) -> int:
        if family != _socket.AF_INET:
            raise OSError(errno.EAFNOSUPPORT, "AF_INET_SDP has no IPv6")
        return _socket.socket(self.domain, _STREAM, 0).detach()

    def carrier(self, descriptor: int) -> tuple[bool, str] | None:
        return True, "AF_INET_SDP"


class SdpTransport(Transport):
    name = "sdp"
    capabilities = Capability.OPENS_SOCKET
    differs: Mapping[str, str] = {
        "closing.close_with_our_bytes_unread_there": _NO_RESET,
        "closing.masks_of_linger_zero": _NO_RESET,
        "descriptors.detached_number_closed_with_all_that_fits_unread": _NO_RESET,
        "descriptors.detached_number_closed_with_unread_data_resets": _NO_RESET,
        "ending.close_with_unread_data_resets": _NO_RESET,
        "ending.death_with_unread_data_resets": _NO_RESET,
        "ending.linger_of_zero_resets": _NO_RESET,
        "ending.linger_of_zero_resets_by_number": _NO_RESET,
        "ending.names_after_reset": _NO_RESET,
        "ending.reset_after_data": _NO_RESET,
        "ending.reset_by_unread_data_after_a_reply": _NO_RESET,
        "ending.reset_read_from_the_error_option": _NO_RESET,
        "ending.reset_seen_by_a_sender": _NO_RESET,
        "ending.reset_wakes_a_blocked_receiver": _NO_RESET,
        "ending.wrong_shutdown_after_a_reset": _NO_RESET,
        "meeting.listener_closed_with_clients_waiting": _NO_RESET,
        "meeting.server_killed_with_clients_waiting": _NO_RESET,
        "readiness.masks_of_a_reset": _NO_RESET,
        "closing.death_of_the_peer_loses_nothing": _REFUSES,
        "closing.error_of_a_send_to_who_closed": _REFUSES,
        "closing.send_to_who_closed": _REFUSES,
        "ending.broken_pipe_signal": _REFUSES,
        "ending.broken_pipe_signal_ends_a_process": _REFUSES,
        "ending.death_seen_by_a_sender": _REFUSES,
        "ending.first_send_after_the_peer_closed_succeeds": _REFUSES,
        "ending.first_send_unread_end": _REFUSES,
        "ending.much_sent_after_the_peer_closed": _REFUSES,
        "ending.send_after_the_peer_shut_both_unread": _REFUSES,
        "ending.sends_after_the_peer_closed": _REFUSES,
        "ending.sends_of_nothing_after_the_peer_closed": _REFUSES,
        "ending.shut_after_the_peer_shut_both_unread": _REFUSES,
        "ending.shut_both": _REFUSES,
        "ending.wrong_shutdown_then_the_peer_closed": _REFUSES,
        "readiness.edge_for_the_end": _REFUSES,
        "flags.error_queue_with_a_timeout": _FLAGS,
        "flags.every_receive_flag": _FLAGS,
        "flags.every_send_flag": _FLAGS,
        "flags.urgent_byte": _FLAGS,
        "flags.urgent_byte_in_line": _FLAGS,
        "threads.shutdown_of_a_listener_wakes_accept": "AF_SMC refuses to shut a listener",
        "threads.shutdown_of_reading_wakes_a_receiver": "AF_SMC wakes nobody who waits in a reading half that is shut",
    }
    depends: Mapping[str, str] = {
        "buffering.both_send_one_mebibyte_first": _SMALL,
        "buffering.both_send_two_mebibytes_first": _SMALL,
        "buffering.one_sends_what_plain_tcp_takes": _SMALL,
        "addresses.dual_stack_listener": _NO_IPV6,
        "addresses.names_agree_in_version_six": _NO_IPV6,
        "readiness.every_message_is_reported": _LATER,
        "readiness.level_triggered_life": _LATER,
        "flags.dontwait_on_a_blocking_socket": _ROOM,
        "threads.close_under_a_blocked_sender": _ROOM,
        "threads.shutdown_wakes_a_sender_in_another_thread": _ROOM,
        "timeouts.kernel_timeouts": _ROOM,
    }

    def __init__(self) -> None:
        self._probed = False
        self._member: _Smc | _InetSdp | None = None

    def usable(self) -> Reason | None:
        if not self._probed:
            self._member = self._probe()
            self._probed = True
        return None if self._member is not None else Reason.NO_SOCKETS_DIRECT

    def _probe(self) -> _Smc | _InetSdp | None:
        """The first member of the family that the kernel has now."""
        for member in (_Smc(), _InetSdp()):
            if _kernel_has(member.protocol):
                try:
                    _socket.socket(member.domain, _STREAM, 0).close()
                except OSError:  # a filter of system calls forbids it
                    continue
                return member
        return None

    def meets_tcp(self) -> bool:
        return self._member is not None and self._member.meets_tcp

    def open(self, family: int) -> int:
        if self._member is None:
            raise OSError(errno.EAFNOSUPPORT, "the kernel has no AF_SMC and no AF_INET_SDP")
        return self._member.open(family)

    def owns(self, domain: int) -> bool:
        return domain in (AF_SMC, AF_INET_SDP)

    def carrier(self, descriptor: int) -> tuple[bool, str] | None:
        return None if self._member is None else self._member.carrier(descriptor)
