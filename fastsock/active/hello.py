"""Both ends of a fresh connection prove that they know the key; then the one that connects is told whether it may map.

    connecting                                          accepting
    HELLO: version, name, tag, nonce            ---->
                                               <----   CHALLENGE: nonce
    PROOF: HMAC(key, all of the above)          ---->
                                               <----   WELCOME: credits, longest bulk, HMAC(key, all of the above)

Every message has one size. A stranger learns a nonce and nothing of names: whether the name is registered and the tag
matches is looked up, and told, only after the proof. What this does not do: encrypt, or sign what follows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from ..system.genuine import genuine
from ..system.proof import DIGEST_BYTES, NONCE_BYTES, End, HelloError, hmac_sha256, printable, same

VERSION = 1
_HELLO = struct.Struct(
    "<8sI70sBxQQ32s"
)  # magic, version, name, flags, tag, longest bulk that the connecting end takes, nonce
_CHALLENGE = struct.Struct("<8s32s")
_WELCOME = struct.Struct("<8sIIQB71x32s")  # magic, what Terms has, flags, proof
_MAGIC, _CHALLENGES, _WELCOMES, _REFUSES = b"FSACTHEL", b"FSACTCHA", b"FSACTWEL", b"FSACTREF"


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


class Connector(End):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`; then `terms`."""

    def __init__(self, key: bytes, wanted: Wanted, takes_memory: bool = False) -> None:
        super().__init__()
        self._takes_memory = takes_memory
        self.agreed = False  # both ends take memory
        self._key = _key(key)
        name = wanted.name.encode()
        self._transcript = _HELLO.pack(
            _MAGIC,
            VERSION,
            name,
            TAKES_MEMORY if takes_memory else 0,
            wanted.tag,
            wanted.most_bulk,
            genuine.urandom(NONCE_BYTES),
        )
        self._proof = b""
        self._due = _CHALLENGE.size
        self.terms: Terms | None = None

    def start(self) -> bytes:
        """The first bytes to send."""
        return self._transcript

    def _step(self, message: bytes) -> bytes:
        if not self._proof:
            if message.startswith(_REFUSES):
                raise HelloError(f"it refused: {printable(message[8:])}")
            if not message.startswith(_CHALLENGES):
                raise HelloError("what answers there is no endpoint of fastsock.active")
            self._transcript += message
            self._proof = hmac_sha256(self._key, b"connecting" + self._transcript)
            self._due = _WELCOME.size
            return self._proof
        if message.startswith(_REFUSES):
            raise HelloError(f"it refused: {printable(message[8:])}")
        magic, shorts, longs, most_bulk, flags, digest = _WELCOME.unpack(message)
        proof = hmac_sha256(self._key, b"accepting" + self._transcript + self._proof + message[: -len(digest)])
        if magic != _WELCOMES or not same(digest, proof):
            raise HelloError("it did not prove that it knows the key")
        self.terms = Terms(shorts, longs, most_bulk)
        self.agreed = bool(flags & TAKES_MEMORY) and self._takes_memory
        self.done = True
        return b""


class Acceptor(End):
    """The accepting end, without a socket: feed() what arrives until `done`; then `wanted` is what was asked for.

    admit: called with that, after the proof; gives the terms, or raises HelloError with what the other end is told.
    """

    def __init__(self, key: bytes, admit: Callable[[Wanted], Terms], takes_memory: bool = False) -> None:
        super().__init__()
        self._takes_memory = takes_memory
        self.agreed = False  # both ends take memory
        self._key = _key(key)
        self._admit = admit
        self._transcript = b""
        self._due = _HELLO.size
        self.wanted: Wanted | None = None
        self.terms: Terms | None = None

    def _step(self, message: bytes) -> bytes:
        if not self._transcript:
            magic, version = _HELLO.unpack(message)[:2]
            if magic != _MAGIC:
                raise HelloError("it does not speak this protocol")  # no answer: it would not understand
            if version != VERSION:
                raise _refusal(f"version {VERSION} is spoken here", f"it speaks version {version}", _CHALLENGE.size)
            challenge = _CHALLENGE.pack(_CHALLENGES, genuine.urandom(NONCE_BYTES))
            self._transcript = message + challenge
            self._due = DIGEST_BYTES
            return challenge
        if not same(message, hmac_sha256(self._key, b"connecting" + self._transcript)):
            raise _refusal("another key", "it does not know the key", _WELCOME.size)
        _, _, name, flags, tag, most_bulk, _ = _HELLO.unpack(self._transcript[: _HELLO.size])
        wanted = Wanted(name.rstrip(b"\0").decode("utf-8", "replace"), tag, most_bulk)
        try:
            terms = self._admit(wanted)
        except HelloError as error:
            raise _refusal(str(error), str(error), _WELCOME.size) from None
        self.wanted, self.terms, self.done = wanted, terms, True
        self.agreed = bool(flags & TAKES_MEMORY) and self._takes_memory
        own = TAKES_MEMORY if self._takes_memory else 0
        welcome = _WELCOME.pack(_WELCOMES, *terms, own, bytes(DIGEST_BYTES))[:-DIGEST_BYTES]
        return welcome + hmac_sha256(self._key, b"accepting" + self._transcript + message + welcome)


def _refusal(told: str, reason: str, size: int) -> HelloError:
    error = HelloError(reason)
    error.reply = (_REFUSES + told.encode()[: size - 8]).ljust(size, b"\0")
    return error
