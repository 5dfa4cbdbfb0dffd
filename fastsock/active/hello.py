"""Both ends of a fresh connection prove that they know the key; then the one that connects is told whether it may map.

The steps are those of fastsock/system/proof.py. The hello says the version, the name and the tag; the welcome says the
credits and the longest bulk. Whether the name is registered and the tag matches is looked up, and told, only after the
proof: a stranger learns nothing of names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ..system.originals import originals
from ..system.proof import (
    DIGEST_BYTES,
    MAGIC_BYTES,
    NONCE_BYTES,
    Accepting,
    Connecting,
    HelloError,
    Protocol,
    hmac_sha256,
)

VERSION = 1
_HELLO = struct.Struct(
    "<8sI70sBxQQ32s"
)  # magic, version, name, flags, tag, longest bulk that the connecting end takes, nonce
_CHALLENGE = struct.Struct("<8s32s")
_WELCOME = struct.Struct("<IIQB71x")  # what Terms has, flags; the magic stands before it, the proof behind
_PROTOCOL = Protocol(
    b"FSACTHEL",
    b"FSACTCHA",
    b"FSACTWEL",
    b"FSACTREF",
    hello_bytes=_HELLO.size,
    challenge_bytes=_CHALLENGE.size,
    welcome_bytes=MAGIC_BYTES + _WELCOME.size + DIGEST_BYTES,
    stranger="what answers there is no endpoint of fastsock.active",
    proof_at=MAGIC_BYTES + _WELCOME.size,
)


class Terms(NamedTuple):
    """What the accepting end grants: short and bulk requests under way, and bytes of the longest bulk."""

    shorts: int
    longs: int
    most_bulk: int


class Wanted(NamedTuple):
    """What the connecting end asks for."""

    name: str
    tag: int
    most_bulk: int


TAKES_MEMORY = 1  # of the flags: this end takes memory for the connection


def _key(key: bytes) -> bytes:
    return hmac_sha256(key, b"fastsock.active.hello/1")


class Connector(Connecting):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`; then `terms`."""

    def __init__(self, key: bytes, wanted: Wanted, takes_memory: bool = False) -> None:
        self._takes_memory = takes_memory
        self.agreed = False  # both ends take memory
        self.terms: Terms | None = None
        hello = _HELLO.pack(
            _PROTOCOL.hello,
            VERSION,
            wanted.name.encode(),
            TAKES_MEMORY if takes_memory else 0,
            wanted.tag,
            wanted.most_bulk,
            originals.urandom(NONCE_BYTES),
        )
        super().__init__(_PROTOCOL, _key(key), hello)

    def _welcomed(self, message: bytes) -> None:
        shorts, longs, most_bulk, flags = _WELCOME.unpack_from(message, MAGIC_BYTES)
        self.terms = Terms(shorts, longs, most_bulk)
        self.agreed = bool(flags & TAKES_MEMORY) and self._takes_memory


class Acceptor(Accepting):
    """The accepting end, without a socket: feed() what arrives until `done`; then `wanted` is what was asked for.

    admit: called with that, after the proof; gives the terms, or raises HelloError with what the other end is told.
    """

    def __init__(self, key: bytes, admit: Callable[[Wanted], Terms], takes_memory: bool = False) -> None:
        super().__init__(_PROTOCOL, _key(key))
        self._takes_memory = takes_memory
        self.agreed = False  # both ends take memory
        self._admit = admit
        self.wanted: Wanted | None = None
        self.terms: Terms | None = None

    def _challenge(self, hello: bytes) -> bytes:
        version = _HELLO.unpack(hello)[1]
        if version != VERSION:
            raise self._refused(f"version {VERSION} is spoken here", f"it speaks version {version}")
        return _CHALLENGE.pack(_PROTOCOL.challenge, originals.urandom(NONCE_BYTES))

    def _welcome(self) -> bytes:
        _, _, name, flags, tag, most_bulk, _ = _HELLO.unpack(self._transcript[: _HELLO.size])
        wanted = Wanted(name.rstrip(b"\0").decode("utf-8", "replace"), tag, most_bulk)
        try:
            terms = self._admit(wanted)
        except HelloError as error:
            raise self._refused(str(error), str(error)) from None
        self.wanted, self.terms = wanted, terms
        self.agreed = bool(flags & TAKES_MEMORY) and self._takes_memory
        return _WELCOME.pack(*terms, TAKES_MEMORY if self._takes_memory else 0)
