"""Who is at the other end of a fresh connection: both ends prove that they know the job's secret, then data may follow.

    connecting                                        accepting
    HELLO: role, own rank, wanted rank, nonce  ---->
                                               <----  CHALLENGE: nonce
    PROOF: HMAC(key, all of the above)         ---->
                                               <----  WELCOME: HMAC(key, all of the above)

Each end puts a fresh nonce under both proofs, so a recorded hello is worth nothing later; each proof has its own label,
so none can be sent back to its maker; the key is derived from the job's name, so jobs that share a secret stay apart.
A stranger learns nothing but a nonce. Every message has one size, and nothing of it is interpreted beyond fixed fields.

What this does not do: encrypt, or sign what follows. Who can change packets between two hosts can change those.
"""

from __future__ import annotations

import struct

from ..system.genuine import genuine
from ..system.proof import DIGEST_BYTES, SECRET_BYTES, End, HelloError, drive, hmac_sha256, new_secret, printable, same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["SECRET_BYTES", "SERVER", "Acceptor", "Caller", "Connector", "HelloError", "accept", "connect", "new_secret"]

SERVER = -1  # the rank of the wire-up server

_HELLO = struct.Struct("!8s16sii32s")
_ANSWER = struct.Struct("!8s32s")
_MAGIC = b"FSHELLO1"
_CHALLENGE = b"FSCHALL1"
_WELCOME = b"FSWELCO1"
_REFUSAL = b"FSREFUS1"


class Caller:
    """The connecting rank, and the role of the connection."""

    __slots__ = ("rank", "role")

    def __init__(self, rank: int, role: str) -> None:
        self.rank = rank
        self.role = role

    def __repr__(self) -> str:
        return f"Caller(rank={self.rank}, role={self.role!r})"


def _key(secret: bytes, job: str) -> bytes:
    return hmac_sha256(secret, b"fastsock.xxdev.hello/1\0" + job.encode())


class Connector(End):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`."""

    def __init__(self, *, secret: bytes, job: str, rank: int, peer: int, role: str) -> None:
        super().__init__()
        self._key = _key(secret, job)
        self._transcript = _HELLO.pack(_MAGIC, role.encode(), rank, peer, genuine.urandom(32))
        self._proof = b""
        self._due = _ANSWER.size

    def start(self) -> bytes:
        """The first bytes to send."""
        return self._transcript

    def _step(self, message: bytes) -> bytes:
        kind, value = _ANSWER.unpack(message)
        if kind == _REFUSAL:
            raise HelloError(f"it refused: {printable(value)}")
        if not self._proof:
            if kind != _CHALLENGE:
                raise HelloError("what answers there is no rank of a fastsock job")
            self._transcript += message
            self._proof = hmac_sha256(self._key, b"connecting" + self._transcript)
            return self._proof
        if kind != _WELCOME or not same(value, hmac_sha256(self._key, b"accepting" + self._transcript + self._proof)):
            raise HelloError("it did not prove that it knows this job's secret")
        self.done = True
        return b""


class Acceptor(End):
    """The accepting end, without a socket: feed() what arrives until `done`; then `caller` is who connected."""

    def __init__(self, *, secret: bytes, job: str, rank: int, size: int, roles: Collection[str]) -> None:
        super().__init__()
        self._secret, self._job = secret, job
        self._rank, self._size, self._roles = rank, size, roles
        self._transcript = b""
        self._claimed: Caller | None = None
        self.caller: Caller | None = None
        self._due = _HELLO.size

    def _step(self, message: bytes) -> bytes:
        if self._claimed is None:
            self._claimed = self._claim(message)
            challenge = _ANSWER.pack(_CHALLENGE, genuine.urandom(32))
            self._transcript = message + challenge
            self._due = DIGEST_BYTES
            return challenge
        key = _key(self._secret, self._job)
        if not same(message, hmac_sha256(key, b"connecting" + self._transcript)):
            raise _refusal("another job or secret", "it does not know this job's secret")
        self.caller = self._claimed
        self.done = True
        return _ANSWER.pack(_WELCOME, hmac_sha256(key, b"accepting" + self._transcript + message))

    def _claim(self, message: bytes) -> Caller:
        magic, padded, rank, peer, _ = _HELLO.unpack(message)
        if magic != _MAGIC:
            raise HelloError("it does not speak this protocol")  # no answer: whatever it is, it would not understand
        role = padded.rstrip(b"\0").decode("ascii", "replace")
        if role not in self._roles:
            raise _refusal("no such role here", f"it asks for the role {role!r}: there is none of that name")
        if peer != self._rank:
            raise _refusal(f"here is rank {self._rank}", f"it looks for rank {peer}, and this is rank {self._rank}")
        if not 0 <= rank < self._size:
            raise _refusal(f"the job has {self._size} ranks", f"it says that it is rank {rank} of {self._size}")
        return Caller(rank, role)


def _refusal(told: str, reason: str) -> HelloError:
    error = HelloError(reason)
    error.reply = _ANSWER.pack(_REFUSAL, told.encode())
    return error


def connect(sock: Any, *, secret: bytes, job: str, rank: int, peer: int, role: str, timeout: float = 10.0) -> None:
    """Prove to the end that accepted `sock` who this is, and see that it is rank `peer` of the same job.

    Raises HelloError (a ConnectionError) or TimeoutError; the socket's timeout is as it was afterwards.
    """
    end = Connector(secret=secret, job=job, rank=rank, peer=peer, role=role)
    drive(sock, end, end.start(), timeout)


def accept(
    sock: Any, *, secret: bytes, job: str, rank: int, size: int, roles: Collection[str], timeout: float = 10.0
) -> Caller:
    """See who connected by `sock`, and prove to it that this is rank `rank` of its job.

    Raises HelloError (a ConnectionError) or TimeoutError: then close the socket. Waits for one stranger as long as
    `timeout`: a thread that accepts from many uses Acceptor.
    """
    end = Acceptor(secret=secret, job=job, rank=rank, size=size, roles=roles)
    drive(sock, end, b"", timeout)
    assert end.caller is not None
    return end.caller
