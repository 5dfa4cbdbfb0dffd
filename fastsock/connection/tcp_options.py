"""TCP options of a connection that left TCP: the kernel's own answers, from a socket made to ask."""

from __future__ import annotations

import _socket
import contextlib
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..transport import Channel

    Options = dict[tuple[int, int], Any]

_LINGER = struct.Struct("ii")
_TCP_ESTABLISHED = 1
_SO_SNDBUFFORCE = 32
# Unread bytes that a TCP connection on one host takes by default (tcp_wmem). A program may rely on that unknowingly.
BUFFER_BYTES = 4 << 20
# The least buffer in bytes, even if a program asks for less: TCP's receiving end has a buffer of its own as well.
LEAST_BYTES = 512 << 10
_checked: set[tuple[Any, ...]] = set()


def check(family: int, level: int, option: int, value: tuple[Any, ...]) -> None:
    """Raises the error that setsockopt() would raise on a TCP socket of that family."""
    key = (family, level, option, *value) if all(type(part) in (int, bytes) for part in value) else None
    if key is not None and key in _checked:
        return
    probe = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        probe.setsockopt(level, option, *value)
    finally:
        probe.close()
    if key is not None and len(_checked) < 1024:
        _checked.add(key)


def read_back(family: int, options: Options, level: int, option: int, length: tuple[int, ...]) -> Any:
    """The answer of getsockopt() on a TCP socket on which `options` had been set. Raises its OSError."""
    probe = _socket.socket(family, _socket.SOCK_STREAM)
    try:
        for (set_level, set_option), value in options.items():
            probe.setsockopt(set_level, set_option, *value)
        answer = probe.getsockopt(level, option, *length)
    finally:
        probe.close()
    if (level, option) == (_socket.IPPROTO_TCP, _socket.TCP_INFO) and isinstance(answer, bytes) and answer:
        return bytes([_TCP_ESTABLISHED]) + answer[1:]
    return answer


def resets_on_close(options: Options | None) -> bool:
    """Whether SO_LINGER asks close() to reset the connection."""
    value = (options or {}).get((_socket.SOL_SOCKET, _socket.SO_LINGER))
    if not value or not isinstance(value[0], (bytes, bytearray, memoryview)) or len(value[0]) < _LINGER.size:
        return False
    on, seconds = _LINGER.unpack(bytes(value[0])[: _LINGER.size])
    return bool(on) and seconds == 0


_TIMEVAL = struct.Struct("ll")
ACTING = (_socket.SO_OOBINLINE, _socket.SO_RCVTIMEO, _socket.SO_SNDTIMEO)
"""Options of SOL_SOCKET that change what calls do, so that every path must heed them."""


def kernel_timeouts(options: Options | None) -> tuple[float, float]:
    """SO_RCVTIMEO and SO_SNDTIMEO in seconds, 0 for none."""
    return _seconds(options, _socket.SO_RCVTIMEO), _seconds(options, _socket.SO_SNDTIMEO)


def buffer_size(value: Any, *_: object) -> int:
    """The value of SO_SNDBUF or SO_RCVBUF, in bytes."""
    number = value if isinstance(value, int) else int.from_bytes(bytes(value)[:4], sys.byteorder)
    return number & 0xFFFFFFFF  # a negative one asks for the most


def _seconds(options: Options | None, option: int) -> float:
    value = (options or {}).get((_socket.SOL_SOCKET, option))
    if not value or not isinstance(value[0], (bytes, bytearray, memoryview)) or len(value[0]) < _TIMEVAL.size:
        return 0.0
    seconds, microseconds = _TIMEVAL.unpack(bytes(value[0])[: _TIMEVAL.size])
    return int(seconds) + int(microseconds) / 1e6


def apply(sock: Any, channel: Channel | None, options: Options | None, changed: Options) -> None:
    """Applies those of `options` that have changed and that affect calls.

    channel: None where the kernel carries the bytes.
    """
    for (level, option), value in changed.items():
        if (level, option) == (_socket.SOL_SOCKET, _socket.SO_SNDBUF):
            if channel is None:
                enlarge_buffer(sock, buffer_size(*value))
            else:
                channel.set_send_buffer(buffer_size(*value))
        elif (level, option) == (_socket.SOL_SOCKET, _socket.SO_RCVBUF):
            if channel is not None:
                channel.set_receive_buffer(buffer_size(*value))
        elif level == _socket.SOL_SOCKET and option in ACTING:
            if channel is None:
                _socket.socket.setsockopt(sock, level, option, *value)
            elif option == _socket.SO_OOBINLINE:
                channel.set_urgent_inline(bool(value[0]))
            else:
                channel.set_kernel_timeouts(*kernel_timeouts(options))


def enlarge_buffer(stream: Any, size: int = BUFFER_BYTES) -> None:
    """Lets a UNIX stream take as many unread bytes as TCP, as far as net.core.wmem_max or privilege allows.

    size: bytes, held between LEAST_BYTES and BUFFER_BYTES.
    """
    size = min(max(size, LEAST_BYTES), BUFFER_BYTES)
    set_option = _socket.socket.setsockopt  # a fast socket's own would note the option as the program's
    try:
        set_option(stream, _socket.SOL_SOCKET, _SO_SNDBUFFORCE, size)
    except PermissionError:
        with contextlib.suppress(OSError):  # a smaller buffer is only slower
            set_option(stream, _socket.SOL_SOCKET, _socket.SO_SNDBUF, size)


def check_arguments(method: Any, *arguments: Any) -> None:
    """Raises the error that `method` of the standard class raises for malformed arguments. Moves no byte."""
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.setblocking(False)
        method(probe, *_quiet(method, arguments))
    except OSError:
        pass  # well-formed: only the probe is not connected
    finally:
        probe.close()


def _quiet(method: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if method is not _socket.socket.sendmsg or not isinstance(arguments[2], int):
        return arguments
    buffers, ancillary, flags, address = arguments
    return buffers, ancillary, flags | _socket.MSG_NOSIGNAL, address
