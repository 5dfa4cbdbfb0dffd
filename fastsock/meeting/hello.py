"""The words of a meeting: the hello, and the one-byte answer. The end that knows the other's name says hello first."""

from __future__ import annotations

import _socket
import struct

from ..transport import Reason, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_HELLO = struct.Struct("<8sHH4xQ")  # magic, version, the path's number, a number of the path
_MAGIC = b"FASTSOCK"
_VERSION = 2
_DESCRIPTOR_SPACE = _socket.CMSG_SPACE(4 * struct.calcsize("i"))
JOIN = b"J"
AGAIN = b"M"  # not joined: say hello again, with everything that the path needs


def pack(path: int, number: int = 0) -> bytes:
    """The bytes of a hello. path: the path's number on the wire. number: a number that the path itself defines."""
    return _HELLO.pack(_MAGIC, _VERSION, path, number)


def send(stream: Any, hello: bytes, descriptors: Sequence[int]) -> None:
    """Says hello over a UNIX stream, with descriptors. Raises OSError."""
    rights = struct.pack(f"{len(descriptors)}i", *descriptors)
    stream.sendmsg([hello], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)], _socket.MSG_NOSIGNAL)


def receive(stream: Any, passed: list[int]) -> bytes:
    """Receives from a UNIX stream. The descriptors that came with the bytes go to `passed`. Raises OSError."""
    data, ancillary, _, _ = stream.recvmsg(_HELLO.size, _DESCRIPTOR_SPACE, _socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            passed.extend(struct.unpack(f"{len(content) // 4}i", content[: len(content) // 4 * 4]))
    return bytes(data)


def is_whole(data: bytes) -> bool:
    """Whether it has a hello's length. An end that hung up sent less."""
    return len(data) == _HELLO.size


def unpack(data: bytes) -> tuple[int, int]:
    """The path's number on the wire, and the path's own number. Raises Refused if the version is another one."""
    magic, version, path, number = _HELLO.unpack(data)
    if magic != _MAGIC or version != _VERSION:
        raise Refused(Reason.PEER_VERSION, f"the other end's hello has version {version}, this end's {_VERSION}")
    return path, number
