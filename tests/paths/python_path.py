"""A path in pure Python, written by docs/how-to/writing-a-path.md. Its channels carry the bytes over the doorbell.

`test_python_path.py` puts this file into a copy of the package.
"""

from __future__ import annotations

import _socket
import select
import struct
from collections.abc import Mapping

from fastsock.transport import Capability, Channel, Transport

_MOST, _LEAST = 4 << 20, 512 << 10  # bytes of a stream's buffer
_SO_SNDBUFFORCE = 32
_FIRST_SEND = "an AF_UNIX stream refuses the first send to an end that closed, which TCP takes"
_FLAGS = "an AF_UNIX stream knows fewer flags than TCP"
_NO_RESET = "an AF_UNIX stream cannot tell a reset by SO_LINGER 0: the other end sees an orderly end"
_HUP = "an AF_UNIX stream says HUP as soon as its peer is closed or has shut both halves"


def enlarge_buffer(stream, size=_MOST):
    """Lets the stream take as many unread bytes as TCP, as far as net.core.wmem_max or privilege allows."""
    size = min(max(size, _LEAST), _MOST)
    set_option = _socket.socket.setsockopt  # a fast socket's own would note the option as the program's
    try:
        set_option(stream, _socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
    except PermissionError:
        set_option(stream, _socket.SOL_SOCKET, _socket.SO_SNDBUF, size)


class PythonChannel(Channel):
    def __init__(self, descriptor: int, peer: str) -> None:
        self.peer = peer
        self.stream = _socket.socket(fileno=descriptor)
        self.sent = self.received = 0

    def __del__(self):
        self.stream.detach()  # whoever has the descriptor's number closes it

    def _stream_on(self, descriptor: int, timeout: float | None) -> None:
        self.stream = _socket.socket(fileno=descriptor)
        self.stream.settimeout(timeout)

    def _count(self, sent: int) -> int:
        self.sent += sent
        return sent

    def send(self, data, flags=0, /):
        return self._count(self.stream.send(data, flags))

    def sendall(self, data, flags=0, /):
        self.stream.sendall(data, flags)
        self._count(memoryview(data).nbytes)

    def sendmsg(self, buffers, flags=0):
        return self._count(self.stream.sendmsg(buffers, [], flags))

    def recv(self, bufsize, flags=0, /):
        data = self.stream.recv(bufsize, flags)
        self.received += len(data)
        return data

    def recv_into(self, buffer, nbytes=0, flags=0):
        received = self.stream.recv_into(buffer, nbytes, flags)
        self.received += received
        return received

    def settimeout(self, timeout, /):
        self.stream.settimeout(timeout)

    def set_kernel_timeouts(self, receive, send):
        for option, seconds in ((_socket.SO_RCVTIMEO, receive), (_socket.SO_SNDTIMEO, send)):
            timeval = struct.pack("ll", int(seconds), round(seconds % 1 * 1e6))
            self.stream.setsockopt(_socket.SOL_SOCKET, option, timeval)

    def set_send_buffer(self, size):
        enlarge_buffer(self.stream, size)

    def set_receive_buffer(self, size):
        pass  # a UNIX stream has the sender's buffer alone

    def set_urgent_inline(self, on):
        self.stream.setsockopt(_socket.SOL_SOCKET, _socket.SO_OOBINLINE, on)

    def take_error(self):
        return self.stream.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)

    def shutdown(self, how, /):
        self.stream.shutdown(how)

    def was_reset(self):
        return False

    def is_over(self):
        poll = select.poll()
        poll.register(self.stream.fileno(), 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))

    def close(self, reset=False):
        self.stream.close()

    def closed_by_number(self, reset):
        self.stream.detach()

    def fileno(self):
        return self.stream.fileno()

    def rebind(self, doorbell, /):
        timeout = self.stream.gettimeout()
        self.stream.detach()
        self._stream_on(doorbell, timeout)

    def duplicate(self, doorbell, /):
        second = PythonChannel(doorbell, self.peer)
        second.settimeout(self.stream.gettimeout())
        return second

    def watch(self):
        pass

    def forked(self):
        pass

    def release(self):
        return True

    def begin_move(self):
        pass

    def end_move(self, successor):
        pass

    def statistics(self):
        return {"bytes_sent": self.sent, "bytes_received": self.received}


class PythonTransport(Transport):
    name = "python"
    number = 77
    capabilities = Capability.SAME_HOST | Capability.MEETS_BESIDE_TCP
    differs: Mapping[str, str] = {
        "flags.waitall_with_peek": "a peek on an AF_UNIX stream returns what is there",
        "ending.shut_reading": "an AF_UNIX stream refuses to send to an end that shut its reading half",
        "ending.shut_when_both_are_shut": "an AF_UNIX stream takes a shutdown() of what is shut already",
        "ending.linger_of_zero_resets": _NO_RESET,
        "ending.linger_of_zero_resets_by_number": _NO_RESET,
        "ending.reset_seen_by_a_sender": _NO_RESET,
        "ending.reset_after_data": _NO_RESET,
        "ending.reset_read_from_the_error_option": _NO_RESET,
        "ending.names_after_reset": _NO_RESET,
        "ending.reset_wakes_a_blocked_receiver": _NO_RESET,
        "closing.masks_of_linger_zero": _NO_RESET,
        "closing.close_with_much_unread": _HUP,
        "closing.close_with_little_unread": _HUP,
        "closing.close_with_nothing_unread": _HUP,
        "closing.close_by_number_with_much_unread": _HUP,
        "closing.close_by_a_range_of_numbers": _HUP,
        "closing.number_replaced_by_another_file": _HUP,
        "closing.close_behind_a_half_close": _HUP,
        "closing.close_behind_a_shutdown_of_both": _HUP,
        "closing.shutdown_of_both_with_much_unread": _HUP,
        "closing.close_then_exit": _HUP,
        "closing.socket_dropped_without_a_close": _HUP,
        "closing.close_by_a_forked_child": _HUP,
        "closing.child_goes_on_after_the_parent_closed": _HUP,
        "closing.close_of_the_last_duplicate": _HUP,
        "closing.send_to_who_closed": _HUP,
        "closing.error_of_a_send_to_who_closed": _HUP,
        "closing.own_half_close_after_a_close": _HUP,
        "closing.reading_shut_shows_only_here": _HUP,
        "closing.death_of_the_peer_loses_nothing": _FIRST_SEND,
        "ending.death_seen_by_a_sender": _FIRST_SEND,
        "ending.first_send_after_the_peer_closed_succeeds": _FIRST_SEND,
        "ending.first_send_unread_end": _FIRST_SEND,
        "ending.much_sent_after_the_peer_closed": _FIRST_SEND,
        "ending.send_after_the_peer_shut_both_unread": _FIRST_SEND,
        "ending.sends_after_the_peer_closed": _FIRST_SEND,
        "ending.sends_of_nothing_after_the_peer_closed": _FIRST_SEND,
        "ending.shut_both": _FIRST_SEND,
        "ending.wrong_shutdown_then_the_peer_closed": _FIRST_SEND,
        "flags.every_send_flag": _FLAGS,
        "readiness.edge_for_the_end": _FIRST_SEND,
        "flags.every_receive_flag": _FLAGS,
        "flags.error_queue_with_a_timeout": _FLAGS,
    }

    def offer(self, doorbell, settings, peer, pid):
        enlarge_buffer(doorbell)
        return PythonChannel(doorbell.fileno(), peer), [], 0

    def join(self, doorbell, descriptors, number, settings, peer, pid):
        enlarge_buffer(doorbell)
        return PythonChannel(doorbell.fileno(), peer)
