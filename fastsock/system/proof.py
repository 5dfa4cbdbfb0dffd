"""Proof that both ends of a fresh connection know one key: HMAC, and the steps of a hello, without a socket.

A hello consists of messages of fixed sizes. `End` collects the bytes of the message that is due, and asks for no byte
beyond it. Who the ends are, and what they prove, is the business of the protocols: the files `hello.py` of
xxdev, rmi and active.
"""

from __future__ import annotations

from operator import eq as _eq

try:  # hashlib loads OpenSSL, which takes longer than all else that a rank imports for its start
    from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]  # since Python 3.12
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from hashlib import sha256
try:
    from _operator import _compare_digest as same
except ImportError:
    same = _eq

from .genuine import genuine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "DIGEST_BYTES",
    "NONCE_BYTES",
    "SECRET_BYTES",
    "End",
    "HelloError",
    "drive",
    "hmac_sha256",
    "new_secret",
    "printable",
    "same",
]

SECRET_BYTES = 32
NONCE_BYTES = 32
DIGEST_BYTES = 32
_BLOCK = 64


class HelloError(ConnectionError):
    """The other end did not prove that it knows the key. The text says what was wrong."""

    reply = b""  # what the accepting end should still send before it closes


def new_secret() -> bytes:
    """A fresh secret."""
    return genuine.urandom(SECRET_BYTES)


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """RFC 2104; the standard library's `hmac` would load OpenSSL."""
    if len(key) > _BLOCK:
        key = sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    inner = sha256(bytes(byte ^ 0x36 for byte in key) + message).digest()
    outer: bytes = sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()
    return outer


class End:
    """What both ends of a hello share: bytes arrive in any pieces, and `needed` never asks beyond the message that is
    due. A protocol sets `_due`, the size of that message in bytes, and says by `_step` what follows it.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._due = 0
        self.done = False

    @property
    def needed(self) -> int:
        """How many bytes to read before anything can happen; more must not be read."""
        return 0 if self.done else self._due - len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> bytes:
        """Take bytes that arrived (at most `needed`); gives what must be sent. Raises HelloError."""
        self._buffer += data
        if len(self._buffer) < self._due:
            return b""
        if len(self._buffer) > self._due:
            raise HelloError("more bytes than this step of the hello has")
        message = bytes(self._buffer)
        self._buffer.clear()
        return self._step(message)

    def _step(self, message: bytes) -> bytes:
        raise NotImplementedError


def printable(text: bytes) -> str:
    """What a stranger wrote, fit to be shown."""
    return "".join(character if character.isprintable() else "?" for character in text.rstrip(b"\0").decode("latin-1"))


def drive(sock: Any, end: End, output: bytes, timeout: float) -> None:
    """Sends `output`, then what `end` asks for, until it is done. The socket's timeout is as before afterwards.

    Raises HelloError, TimeoutError after `timeout` seconds, and what the socket raises.
    """
    before = sock.gettimeout()
    deadline = genuine.monotonic() + timeout
    try:
        while True:
            if output:
                sock.settimeout(_left(deadline))
                sock.sendall(output)
            if end.done:
                return
            sock.settimeout(_left(deadline))
            data = sock.recv(end.needed)
            if not data:
                raise HelloError("it closed the connection during the hello")
            try:
                output = end.feed(data)
            except HelloError as error:
                if error.reply:
                    sock.settimeout(_left(deadline))
                    sock.sendall(error.reply)
                raise
    finally:
        sock.settimeout(before)


def _left(deadline: float) -> float:
    left = deadline - genuine.monotonic()
    if left <= 0:
        raise TimeoutError("the hello took too long")
    return left
