"""The unix path: the meeting's UNIX connection, an ordinary kernel stream, carries the bytes. It is pure Python."""

from __future__ import annotations

import _socket
import contextlib

from .transport import Capability, Transport

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .config import Settings

SO_SNDBUFFORCE = 32
# Unread bytes that a TCP connection on one host takes by default (tcp_wmem). A program may rely on that unknowingly.
BUFFER_BYTES = 4 << 20
# Bytes that TCP's buffers take of the first send to an end that has closed.
TAKEN_FOR_NOBODY = 2560 << 10
# How the kernel's AF_UNIX streams differ from its TCP (docs/limits.md).
_NO_RESET = "an AF_UNIX stream cannot tell a reset by SO_LINGER 0: the other end sees an orderly end"
_HUP = "an AF_UNIX stream says HUP as soon as its peer is closed or has shut both halves"
# The least buffer in bytes, even if a program asks for less: TCP's receiving end has a buffer of its own as well.
LEAST_BYTES = 512 << 10


def _enlarge_number(stream: int) -> None:
    borrowed = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, stream)
    try:
        enlarge_buffer(borrowed)
    finally:
        borrowed.detach()


def enlarge_buffer(stream: Any, size: int = BUFFER_BYTES) -> None:
    """Lets the stream take as many unread bytes as TCP, as far as net.core.wmem_max or privilege allows.

    size: bytes, held between LEAST_BYTES and BUFFER_BYTES.
    """
    size = min(max(size, LEAST_BYTES), BUFFER_BYTES)
    set_option = _socket.socket.setsockopt  # a fast socket's own would note the option as the program's
    try:
        set_option(stream, _socket.SOL_SOCKET, SO_SNDBUFFORCE, size)
    except PermissionError:
        with contextlib.suppress(OSError):  # a smaller buffer is only slower
            set_option(stream, _socket.SOL_SOCKET, _socket.SO_SNDBUF, size)


class UnixTransport(Transport):
    name = "unix"
    number = 1
    is_stream = True
    stream_bytes = BUFFER_BYTES
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
    }

    def prepare(self, doorbell: int) -> None:
        _enlarge_number(doorbell)

    def offer(self, doorbell: Any, settings: Settings, peer: str, pid: int) -> tuple[None, list[int], int]:
        enlarge_buffer(doorbell)
        return None, [], 0

    def join(self, doorbell: Any, descriptors: list[int], number: int, settings: Settings, peer: str, pid: int) -> None:
        enlarge_buffer(doorbell)
