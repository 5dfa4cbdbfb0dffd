"""A path in pure Python, written by docs/writing-a-path.md. Its channels carry the bytes over the doorbell.

`test_python_path.py` puts this file into a copy of the package.
"""

from __future__ import annotations

import _socket
import select
import struct
from collections.abc import Mapping

from fastsock.transport import Capability, Channel, Transport
from fastsock.unix import UnixTransport, enlarge_buffer

_FIRST_SEND = "an AF_UNIX stream refuses the first send to an end that closed, which TCP takes"
_FLAGS = "an AF_UNIX stream knows fewer flags than TCP"


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

    def knock(self):
        self.stream.send(b"J")

    def joined(self):
        self.stream.recv(1)

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
        **UnixTransport.differs,
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
