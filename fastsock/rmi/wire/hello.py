"""Both ends of a fresh connection prove that they know the key, and agree on a version. Then frames may follow.

The steps are those of fastsock/system/proof.py. The hello says the versions, and what this end is; the challenge says
the version that was chosen, and what that end is. A stranger learns these, and that this is fastsock.rmi.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from ...system.originals import originals
from ...system.proof import NONCE_BYTES, Accepting, Connecting, HelloError, Protocol, hmac_sha256

OLDEST, NEWEST = 1, 2  # versions of the protocol that this end speaks. 2: calls tell on whose behalf they are made;
# classes that nobody registered are found by their names
BIG_ENDIAN, TRUSTS_PICKLE, TAKES_MEMORY = 1, 2, 4

_HELLO = struct.Struct("!8sBBB3s3s3x32s")  # magic, oldest, newest, flags, Python's version, numpy's, nonce
_ANSWER = struct.Struct("!8sBBB3s3s3x32s")  # magic, version, 0, flags, Python's version, numpy's, nonce
MESSAGE_BYTES = _HELLO.size  # of each but the proof
assert _ANSWER.size == MESSAGE_BYTES
_PROTOCOL = Protocol(
    b"FSRMIHEL",
    b"FSRMICHA",
    b"FSRMIWEL",
    b"FSRMIREF",
    hello_bytes=MESSAGE_BYTES,
    challenge_bytes=MESSAGE_BYTES,
    welcome_bytes=MESSAGE_BYTES,
    stranger="what answers there is no daemon of fastsock.rmi",
)


class Other(NamedTuple):
    """What the other end told of itself. It is proved: the HMAC covers it."""

    version: int
    big_endian: bool
    trusts_pickle: bool
    takes_memory: bool  # both ends do
    python: tuple[int, ...]
    numpy: tuple[int, ...]


class Connector(Connecting):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`; then `other`."""

    def __init__(self, key: bytes, trust_pickle: bool = False, takes_memory: bool = False) -> None:
        self._flags = _flags(trust_pickle, takes_memory)
        nonce = originals.urandom(NONCE_BYTES)
        hello = _HELLO.pack(_PROTOCOL.hello, OLDEST, NEWEST, self._flags, _PYTHON, _numpy(), nonce)
        super().__init__(_PROTOCOL, _key(key), hello)
        self._claimed: Other | None = None
        self.other: Other | None = None

    def _challenged(self, message: bytes) -> None:
        _, version, _, flags, python, numpy, _ = _ANSWER.unpack(message)
        if not OLDEST <= version <= NEWEST:
            raise HelloError(f"it speaks version {version} of the protocol, and this end {OLDEST} to {NEWEST}")
        self._claimed = _other(version, flags, self._flags, python, numpy)

    def _welcomed(self, message: bytes) -> None:
        self.other = self._claimed


class Acceptor(Accepting):
    """The accepting end, without a socket: feed() what arrives until `done`; then `other`."""

    def __init__(self, key: bytes, trust_pickle: bool = False, takes_memory: bool = False) -> None:
        super().__init__(_PROTOCOL, _key(key))
        self._flags = _flags(trust_pickle, takes_memory)
        self._claimed: Other | None = None
        self.other: Other | None = None

    def _challenge(self, hello: bytes) -> bytes:
        _, oldest, newest, flags, python, numpy, _ = _HELLO.unpack(hello)
        if oldest > NEWEST or newest < OLDEST:
            raise self._refused(
                f"versions {OLDEST} to {NEWEST} are spoken here", "it speaks no version that is known here"
            )
        version = min(newest, NEWEST)
        self._claimed = _other(version, flags, self._flags, python, numpy)
        nonce = originals.urandom(NONCE_BYTES)
        return _ANSWER.pack(_PROTOCOL.challenge, version, 0, self._flags, _PYTHON, _numpy(), nonce)

    def _welcome(self) -> bytes:
        self.other = self._claimed
        return b""


def _key(key: bytes) -> bytes:
    return hmac_sha256(key, b"fastsock.rmi.hello/1")


def _flags(trust_pickle: bool, takes_memory: bool) -> int:
    return (
        (BIG_ENDIAN if sys.byteorder == "big" else 0)
        | (TRUSTS_PICKLE if trust_pickle else 0)
        | (TAKES_MEMORY if takes_memory else 0)
    )


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


def _numpy() -> bytes:
    """numpy's version where it is loaded, as three bytes."""
    module = sys.modules.get("numpy")
    parts = [part for part in getattr(module, "__version__", "").split(".")[:3] if part.isdigit()]
    return bytes(min(int(part), 255) for part in parts).ljust(3, b"\0")


_PYTHON = bytes(sys.version_info[:3])
