"""Who is at the other end of a fresh connection: both ends prove that they know one secret, then data may follow.

The steps are those of fastsock/system/proof.py. The hello says the role, the own rank and the wanted rank; the
challenge and the welcome say nothing. The role says which secret is meant: the job's, or one that ranks of several
jobs share. The key is derived from a name too, so jobs that share a secret stay apart.
"""

from __future__ import annotations

import struct

from ..system.originals import originals
from ..system.proof import (
    NONCE_BYTES,
    SECRET_BYTES,
    Accepting,
    Connecting,
    HelloError,
    Protocol,
    drive,
    hmac_sha256,
    new_secret,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = [
    "SECRET_BYTES",
    "SERVER",
    "Acceptor",
    "Caller",
    "Connector",
    "HelloError",
    "Party",
    "accept",
    "connect",
    "new_secret",
]

SERVER = -1  # the rank of the wire-up server

_HELLO = struct.Struct("!8s16sii32s")
_ANSWER = struct.Struct("!8s32s")
_PROTOCOL = Protocol(
    b"FSHELLO1",
    b"FSCHALL1",
    b"FSWELCO1",
    b"FSREFUS1",
    hello_bytes=_HELLO.size,
    challenge_bytes=_ANSWER.size,
    welcome_bytes=_ANSWER.size,
    stranger="what answers there is no rank of a fastsock job",
    secret="this job's secret",
    another="another job or secret",
)


class Caller:
    """The connecting rank, and the role of the connection."""

    __slots__ = ("rank", "role")

    def __init__(self, rank: int, role: str) -> None:
        self.rank = rank
        self.role = role

    def __repr__(self) -> str:
        return f"Caller(rank={self.rank}, role={self.role!r})"


class Party:
    """What the accepting end is to those that come by one role: rank `rank` of `size` that share a secret."""

    __slots__ = ("job", "rank", "secret", "size")

    def __init__(self, secret: bytes, job: str, rank: int, size: int) -> None:
        self.secret, self.job, self.rank, self.size = secret, job, rank, size


def _key(secret: bytes, job: str) -> bytes:
    return hmac_sha256(secret, b"fastsock.xxdev.hello/1\0" + job.encode())


class Connector(Connecting):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`."""

    def __init__(self, *, secret: bytes, job: str, rank: int, peer: int, role: str) -> None:
        hello = _HELLO.pack(_PROTOCOL.hello, role.encode(), rank, peer, originals.urandom(NONCE_BYTES))
        super().__init__(_PROTOCOL, _key(secret, job), hello)


class Acceptor(Accepting):
    """The accepting end, without a socket: feed() what arrives until `done`; then `caller` is who connected."""

    def __init__(self, parties: Mapping[str, Party]) -> None:
        """`parties`: by the roles of those that may come."""
        super().__init__(_PROTOCOL, b"")
        self._parties = parties
        self._claimed: Caller | None = None
        self.caller: Caller | None = None

    def _challenge(self, hello: bytes) -> bytes:
        self._claimed = self._claim(hello)
        return _ANSWER.pack(_PROTOCOL.challenge, originals.urandom(NONCE_BYTES))

    def _welcome(self) -> bytes:
        self.caller = self._claimed
        return b""

    def _claim(self, message: bytes) -> Caller:
        _, padded, rank, peer, _ = _HELLO.unpack(message)
        role = padded.rstrip(b"\0").decode("ascii", "replace")
        party = self._parties.get(role)
        if party is None:
            raise self._refused("no such role here", f"it asks for the role {role!r}: there is none of that name")
        if peer != party.rank:
            raise self._refused(
                f"here is rank {party.rank}", f"it looks for rank {peer}, and this is rank {party.rank}"
            )
        if not 0 <= rank < party.size:
            raise self._refused(f"the job has {party.size} ranks", f"it says that it is rank {rank} of {party.size}")
        self._key = _key(party.secret, party.job)
        return Caller(rank, role)


def connect(sock: Any, *, secret: bytes, job: str, rank: int, peer: int, role: str, timeout: float = 10.0) -> None:
    """Prove to the end that accepted `sock` who this is, and see that it is rank `peer` of the same job.

    Raises HelloError (a ConnectionError) or TimeoutError; the socket's timeout is as it was afterwards.
    """
    end = Connector(secret=secret, job=job, rank=rank, peer=peer, role=role)
    drive(sock, end, end.start(), timeout)


def accept(sock: Any, parties: Mapping[str, Party], *, timeout: float = 10.0) -> Caller:
    """See who connected by `sock`, and prove to it that this is the rank that it looks for. `parties`: by role.

    Raises HelloError (a ConnectionError) or TimeoutError: then close the socket. Waits for one stranger as long as
    `timeout`: a thread that accepts from many uses Acceptor.
    """
    end = Acceptor(parties)
    drive(sock, end, b"", timeout)
    assert end.caller is not None
    return end.caller
