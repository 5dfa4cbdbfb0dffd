"""Both ends of a fresh connection prove that they know the key, and agree on a version. Then frames may follow.

    connecting                                              accepting
    HELLO: versions, what this end is, nonce        ---->
                                                    <----   CHALLENGE: version, what this end is, nonce
    PROOF: HMAC(key, all of the above)              ---->
                                                    <----   WELCOME: HMAC(key, all of the above and the proof)

Every message has one size. A stranger learns a nonce, the versions, and that this is fastsock.rmi; nothing it sends is
read beyond the fixed fields. What this does not do: encrypt, or sign what follows.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from ..system.genuine import genuine
from ..system.proof import DIGEST_BYTES, NONCE_BYTES, End, HelloError, hmac_sha256, printable, same

OLDEST, NEWEST = 1, 2  # versions of the protocol that this end speaks. 2: calls tell on whose behalf they are made;
# classes that nobody registered are found by their names
BIG_ENDIAN, TRUSTS_PICKLE, TAKES_MEMORY = 1, 2, 4

_HELLO = struct.Struct("!8sBBB3s3s3x32s")  # magic, oldest, newest, flags, Python's version, numpy's, nonce
_ANSWER = struct.Struct("!8sBBB3s3s3x32s")  # magic, version, 0, flags, Python's version, numpy's, nonce
_WELCOME = struct.Struct("!8s32s12x")
_MAGIC, _CHALLENGE, _WELCOMES, _REFUSAL = b"FSRMIHEL", b"FSRMICHA", b"FSRMIWEL", b"FSRMIREF"
MESSAGE_BYTES = _HELLO.size  # of each but the proof
assert MESSAGE_BYTES == _ANSWER.size == _WELCOME.size


class Other(NamedTuple):
    """What the other end told of itself. It is proved: the HMAC covers it."""

    version: int
    big_endian: bool
    trusts_pickle: bool
    takes_memory: bool  # both ends do
    python: tuple[int, ...]
    numpy: tuple[int, ...]


class _Half(End):
    def __init__(self, key: bytes, trust_pickle: bool, takes_memory: bool) -> None:
        super().__init__()
        self._key = hmac_sha256(key, b"fastsock.rmi.hello/1")
        self._flags = (
            (BIG_ENDIAN if sys.byteorder == "big" else 0)
            | (TRUSTS_PICKLE if trust_pickle else 0)
            | (TAKES_MEMORY if takes_memory else 0)
        )
        self._due = MESSAGE_BYTES
        self.other: Other | None = None


class Connector(_Half):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`."""

    def __init__(self, key: bytes, trust_pickle: bool = False, takes_memory: bool = False) -> None:
        super().__init__(key, trust_pickle, takes_memory)
        nonce = genuine.urandom(NONCE_BYTES)
        self._transcript = _HELLO.pack(_MAGIC, OLDEST, NEWEST, self._flags, _PYTHON, _numpy(), nonce)
        self._proof = b""
        self._claimed: Other | None = None

    def start(self) -> bytes:
        """The first bytes to send."""
        return self._transcript

    def _step(self, message: bytes) -> bytes:
        if message.startswith(_REFUSAL):
            raise HelloError(f"it refused: {printable(message[len(_REFUSAL) :])}")
        if not self._proof:
            magic, version, _, flags, python, numpy, _ = _ANSWER.unpack(message)
            if magic != _CHALLENGE:
                raise HelloError("what answers there is no daemon of fastsock.rmi")
            if not OLDEST <= version <= NEWEST:
                raise HelloError(f"it speaks version {version} of the protocol, and this end {OLDEST} to {NEWEST}")
            self._claimed = _other(version, flags, self._flags, python, numpy)
            self._transcript += message
            self._proof = hmac_sha256(self._key, b"connecting" + self._transcript)
            return self._proof
        magic, digest = _WELCOME.unpack(message)
        if magic != _WELCOMES or not same(
            digest, hmac_sha256(self._key, b"accepting" + self._transcript + self._proof)
        ):
            raise HelloError("it did not prove that it knows the key")
        self.other = self._claimed
        self.done = True
        return b""


class Acceptor(_Half):
    """The accepting end, without a socket: feed() what arrives until `done`."""

    def __init__(self, key: bytes, trust_pickle: bool = False, takes_memory: bool = False) -> None:
        super().__init__(key, trust_pickle, takes_memory)
        self._transcript = b""
        self._claimed: Other | None = None

    def _step(self, message: bytes) -> bytes:
        if self._claimed is None:
            magic, oldest, newest, flags, python, numpy, _ = _HELLO.unpack(message)
            if magic != _MAGIC:
                raise HelloError("it does not speak this protocol")  # no answer: it would not understand
            if oldest > NEWEST or newest < OLDEST:
                raise _refusal(
                    f"versions {OLDEST} to {NEWEST} are spoken here", "it speaks no version that is known here"
                )
            version = min(newest, NEWEST)
            self._claimed = _other(version, flags, self._flags, python, numpy)
            nonce = genuine.urandom(NONCE_BYTES)
            challenge = _ANSWER.pack(_CHALLENGE, version, 0, self._flags, _PYTHON, _numpy(), nonce)
            self._transcript = message + challenge
            self._due = DIGEST_BYTES
            return challenge
        if not same(message, hmac_sha256(self._key, b"connecting" + self._transcript)):
            raise _refusal("another key", "it does not know the key")
        self.other = self._claimed
        self.done = True
        return _WELCOME.pack(_WELCOMES, hmac_sha256(self._key, b"accepting" + self._transcript + message))


def _other(version: int, flags: int, own: int, python: bytes, numpy: bytes) -> Other:
    both = flags & own
    return Other(
        version,
        bool(flags & BIG_ENDIAN),
        bool(flags & TRUSTS_PICKLE),
        bool(both & TAKES_MEMORY),
        tuple(python),
        tuple(numpy),
    )


def _refusal(told: str, reason: str) -> HelloError:
    error = HelloError(reason)
    error.reply = (_REFUSAL + told.encode()).ljust(MESSAGE_BYTES, b"\0")
    return error


def _numpy() -> bytes:
    """numpy's version where it is loaded, as three bytes."""
    module = sys.modules.get("numpy")
    parts = [part for part in getattr(module, "__version__", "").split(".")[:3] if part.isdigit()]
    return bytes(min(int(part), 255) for part in parts).ljust(3, b"\0")


_PYTHON = bytes(sys.version_info[:3])
