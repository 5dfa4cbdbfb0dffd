"""Proof that both ends of a fresh connection know one key: HMAC, and the steps of a hello, without a socket.

    connecting                                               accepting
    HELLO: magic, what the protocol says, nonce     ---->
                                                    <----    CHALLENGE: magic, what the protocol says, nonce
    PROOF: HMAC(key, all of the above)              ---->
                                                    <----    WELCOME: magic, what the protocol says, HMAC(key, all)

Every message has a fixed size, and a magic of eight bytes. In the place of an answer a refusal with a text may stand.
`End` collects the bytes of the message that is due, and asks for no byte beyond it. Each end puts a fresh nonce under
both proofs, so a recorded hello is worth nothing later. Each proof has its own label, so none can be sent back to its
maker. A stranger learns a nonce, and what the protocol says in its challenge.

Who the ends are, and what they say, is the business of the protocols: the files `hello.py` of xxdev, rmi and active.
What this does not do: encrypt, or sign what follows. Who can change packets between two hosts can change those.
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

from .originals import originals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "DIGEST_BYTES",
    "MAGIC_BYTES",
    "NONCE_BYTES",
    "SECRET_BYTES",
    "Accepting",
    "Connecting",
    "End",
    "HelloError",
    "Protocol",
    "drive",
    "hmac_sha256",
    "new_secret",
    "printable",
    "same",
]

SECRET_BYTES = 32
NONCE_BYTES = 32
DIGEST_BYTES = 32
MAGIC_BYTES = 8
_BLOCK = 64


class HelloError(ConnectionError):
    """The other end did not prove that it knows the key. The text says what was wrong."""

    reply = b""  # what the accepting end should still send before it closes


def new_secret() -> bytes:
    """A fresh secret."""
    return originals.urandom(SECRET_BYTES)


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


class Protocol:
    """What one protocol's hello has of its own. The first four are the magics of its messages.

    proof_at: where the proof stands in the welcome. What the welcome says before it, behind the magic, is proved too.
    stranger, unproved, unknown: reasons of errors. another: what an end with another key is told.
    """

    __slots__ = (
        "another",
        "challenge",
        "challenge_bytes",
        "hello",
        "hello_bytes",
        "proof_at",
        "refusal",
        "stranger",
        "unknown",
        "unproved",
        "welcome",
        "welcome_bytes",
    )

    def __init__(
        self,
        hello: bytes,
        challenge: bytes,
        welcome: bytes,
        refusal: bytes,
        *,
        hello_bytes: int,
        challenge_bytes: int,
        welcome_bytes: int,
        stranger: str,
        secret: str = "the key",
        another: str = "another key",
        proof_at: int = MAGIC_BYTES,
    ) -> None:
        self.hello, self.challenge, self.welcome, self.refusal = hello, challenge, welcome, refusal
        self.hello_bytes, self.challenge_bytes, self.welcome_bytes = hello_bytes, challenge_bytes, welcome_bytes
        self.stranger, self.another = stranger, another
        self.unproved = f"it did not prove that it knows {secret}"
        self.unknown = f"it does not know {secret}"
        self.proof_at = proof_at

    def refused(self, text: str, reason: str, size: int) -> HelloError:
        """The error of an accepting end. text: what the other end reads in the place of an answer of that size."""
        error = HelloError(reason)
        error.reply = (self.refusal + text.encode())[:size].ljust(size, b"\0")
        return error

    def welcome_proof(self, key: bytes, transcript: bytes, proof: bytes, welcome: bytes) -> bytes:
        """What the accepting end proves. welcome: at least what stands before that."""
        said = welcome[: self.proof_at] if self.proof_at > MAGIC_BYTES else b""
        return hmac_sha256(key, b"accepting" + transcript + proof + said)


class Connecting(End):
    """The connecting end, without a socket: send `start()`, then feed() what arrives until `done`."""

    def __init__(self, protocol: Protocol, key: bytes, hello: bytes) -> None:
        super().__init__()
        self._protocol, self._key, self._transcript = protocol, key, hello
        self._proof = b""
        self._due = protocol.challenge_bytes

    def start(self) -> bytes:
        """The first bytes to send."""
        return self._transcript

    def _step(self, message: bytes) -> bytes:
        protocol = self._protocol
        if message.startswith(protocol.refusal):
            raise HelloError(f"it refused: {printable(message[MAGIC_BYTES:])}")
        if not self._proof:
            if not message.startswith(protocol.challenge):
                raise HelloError(protocol.stranger)
            self._challenged(message)
            self._transcript += message
            self._proof = hmac_sha256(self._key, b"connecting" + self._transcript)
            self._due = protocol.welcome_bytes
            return self._proof
        digest = message[protocol.proof_at : protocol.proof_at + DIGEST_BYTES]
        expected = protocol.welcome_proof(self._key, self._transcript, self._proof, message)
        if not message.startswith(protocol.welcome) or not same(digest, expected):
            raise HelloError(protocol.unproved)
        self._welcomed(message)
        self.done = True
        return b""

    def _challenged(self, message: bytes) -> None:
        """What a challenge says; nothing of it is proved yet. May raise HelloError."""

    def _welcomed(self, message: bytes) -> None:
        """What a welcome says. It is proved, and so is the challenge."""


class Accepting(End):
    """The accepting end, without a socket: feed() what arrives until `done`."""

    def __init__(self, protocol: Protocol, key: bytes) -> None:
        super().__init__()
        self._protocol, self._key, self._transcript = protocol, key, b""
        self._due = protocol.hello_bytes

    def _step(self, message: bytes) -> bytes:
        protocol = self._protocol
        if not self._transcript:
            if not message.startswith(protocol.hello):
                raise HelloError("it does not speak this protocol")  # no answer: it would not understand
            challenge = self._challenge(message)
            self._transcript = message + challenge
            self._due = DIGEST_BYTES
            return challenge
        if not same(message, hmac_sha256(self._key, b"connecting" + self._transcript)):
            raise self._refused(protocol.another, protocol.unknown)
        welcome = protocol.welcome + self._welcome()
        self.done = True
        welcome += protocol.welcome_proof(self._key, self._transcript, message, welcome)
        return welcome.ljust(protocol.welcome_bytes, b"\0")

    def _refused(self, text: str, reason: str) -> HelloError:
        """Of a size that the other end expects now."""
        protocol = self._protocol
        return protocol.refused(text, reason, protocol.welcome_bytes if self._transcript else protocol.challenge_bytes)

    def _challenge(self, hello: bytes) -> bytes:
        """The whole challenge. Nothing of the hello is proved yet. May raise what _refused() gives."""
        raise NotImplementedError

    def _welcome(self) -> bytes:
        """What the welcome says between magic and proof. The hello is proved. May raise what _refused() gives."""
        return b""


def printable(text: bytes) -> str:
    """What a stranger wrote, fit to be shown."""
    return "".join(character if character.isprintable() else "?" for character in text.rstrip(b"\0").decode("latin-1"))


def drive(sock: Any, end: End, output: bytes, timeout: float) -> None:
    """Sends `output`, then what `end` asks for, until it is done. The socket's timeout is as before afterwards.

    Raises HelloError, TimeoutError after `timeout` seconds, and what the socket raises.
    """
    before = sock.gettimeout()
    deadline = originals.monotonic() + timeout
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
    left = deadline - originals.monotonic()
    if left <= 0:
        raise TimeoutError("the hello took too long")
    return left
