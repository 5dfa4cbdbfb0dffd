"""How ranks that share a host hand descriptors to each other: a leader makes them, and each member gets all.

The leader listens at a random abstract name. It tells the others the name by messages. Each connects, proves itself by
the token that came with the name, and receives the descriptors. Nothing has a name in a file system, so nothing is left
behind when a member is killed. Where anything is missing or refused on one host, all members agree that nothing was
made.
"""

from __future__ import annotations

import _socket
import struct
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from fastsock.core.binding._system import abstract_accept
from fastsock.core.binding._team import team_identity
from fastsock.meeting import unix_calls
from fastsock.system.originals import originals
from fastsock.system.proof import same
from fastsock.system.reading import exactly

from ..tags import TEAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from fastsock.core.binding._engine import Engine

    class Making(Protocol):
        """What is handed over, and what each member makes of it."""

        def count(self, size: int) -> int:
            """Returns how many descriptors each of so many members gets."""

        def make(self, streams: dict[int, _socket.socket], size: int) -> list[int]:
            """Returns them: the leader's part. `streams`: the others' by index. Raises OSError."""

        def open(
            self, descriptors: list[int], ranks: Sequence[int], index: int, identities: bytes, threads: bool
        ) -> Any:
            """Returns what a member makes of them; None where it cannot. Takes them over."""


PATIENCE_S = 10.0  # for what has been sent already
PREFIX = b"\0fastsock-team-"
OFFER = struct.Struct("32s32s")  # random part of the name, token
HELLO = struct.Struct("i32s24s")  # index, token, identity
DESCRIPTORS_A_MESSAGE = 100
YES, NO, THREADS = b"y", b"n", b"t"  # threads: yes, and members are threads of one process


def meet(engine: Engine, context: int, ranks: Sequence[int], index: int, making: Making) -> Any:
    """What this member made of the descriptors; None where any member could not.

    A collective call of the processes `ranks`, of which this is number `index`. Raises what the engine raises for
    a rank that died meanwhile.
    """
    with ExitStack() as stack:
        meeting = _Leader if index == 0 else _Member
        return meeting(engine, context, tuple(ranks), index, making, stack).meet()


class _Meeting:
    def __init__(
        self, engine: Engine, context: int, ranks: tuple[int, ...], index: int, making: Making, stack: ExitStack
    ) -> None:
        self.engine = engine
        self.context = context
        self.ranks = ranks
        self.index = index
        self.making = making
        self.stack = stack

    def send(self, member: int, data: bytes) -> None:
        self.engine.send(data, self.ranks[member], TEAM, self.context)

    def send_all(self, data: bytes) -> None:
        """To every other member. All messages are begun before any is waited for: connections are made side by side,
        and no member that computes delays the others."""
        others = [rank for index, rank in enumerate(self.ranks) if index != self.index]
        for request in [self.engine.isend(data, rank, TEAM, self.context) for rank in others]:
            request.wait()

    def hear(self, member: int, size: int) -> bytes:
        data = bytearray(size)
        self.engine.recv(data, self.ranks[member], TEAM, self.context)
        return bytes(data)

    def stream(self) -> _socket.socket:
        made = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        made.settimeout(PATIENCE_S)
        self.stack.callback(made.close)
        return made

    def open(self, descriptors: list[int], identities: bytes, threads: bool) -> Any:
        return self.making.open(descriptors, self.ranks, self.index, identities, threads)


class _Leader(_Meeting):
    def meet(self) -> Any:
        members = range(1, len(self.ranks))
        token, name = originals.urandom(32), originals.urandom(16).hex().encode()
        listener = self.listen(name)
        self.send_all(OFFER.pack(name if listener else b"", token))
        connected = [self.hear(member, 1) == YES for member in members]
        self.identities = [team_identity()] * len(self.ranks)
        streams = self.accept_all(listener, token) if listener and all(connected) else None
        descriptors = self.make(streams) if streams else None
        verdict = NO if descriptors is None else THREADS if self.has_threads() else YES
        self.send_all(verdict)
        if descriptors is None or streams is None:
            return None
        made = self.hand_over(streams, descriptors, verdict == THREADS)
        answers = [self.hear(member, 1) for member in members]
        agreed = made is not None and answers.count(YES) == len(answers)
        self.send_all(YES if agreed else NO)
        return made if agreed else None

    def listen(self, name: bytes) -> _socket.socket | None:
        try:
            listener = self.stream()
            listener.bind(PREFIX + name)
            listener.listen(len(self.ranks))
        except OSError:
            return None
        return listener

    def accept_all(self, listener: _socket.socket, token: bytes) -> dict[int, _socket.socket] | None:
        """The members' streams by index. They have connected already; strangers are sent away."""
        streams: dict[int, _socket.socket] = {}
        try:
            while len(streams) + 1 < len(self.ranks):
                stream = _socket.socket(fileno=abstract_accept(listener.fileno()))
                self.stack.callback(stream.close)
                stream.settimeout(PATIENCE_S)
                if not unix_calls.is_own_user(unix_calls.peer(stream.fileno())[1]):
                    stream.close()
                    continue
                index, proof, identity = HELLO.unpack(exactly(stream, HELLO.size))
                if same(proof, token) and 0 < index < len(self.ranks):
                    streams[index] = stream
                    self.identities[index] = identity
        except OSError:
            return None
        return streams

    def make(self, streams: dict[int, _socket.socket]) -> list[int] | None:
        try:
            return self.making.make(streams, len(self.ranks))
        except OSError:
            return None

    def has_threads(self) -> bool:
        """Whether members are threads of one process: process numbers do not tell, of another PID namespace."""
        return len(set(self.identities)) < len(self.identities)

    def hand_over(self, streams: dict[int, _socket.socket], descriptors: list[int], threads: bool) -> Any:
        identities = b"".join(self.identities)
        for stream in streams.values():
            for start in range(0, len(descriptors), DESCRIPTORS_A_MESSAGE):
                part = array("i", descriptors[start : start + DESCRIPTORS_A_MESSAGE])
                try:
                    stream.sendmsg([b"d"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, part)])
                except OSError:
                    break  # that member misses them, and says so
            with suppress(OSError):
                stream.sendall(identities)
        return self.open(descriptors, identities, threads)


class _Member(_Meeting):
    def meet(self) -> Any:
        name, token = OFFER.unpack(self.hear(0, OFFER.size))
        stream = self.connect(name, token) if name.strip(b"\0") else None
        self.send(0, YES if stream else NO)
        verdict = self.hear(0, 1)
        if verdict == NO or stream is None:
            return None
        descriptors = self.take(stream)
        made = self.open(descriptors, self.identities, verdict == THREADS) if descriptors else None
        self.send(0, YES if made else NO)
        agreed = self.hear(0, 1) == YES
        return made if agreed else None

    def connect(self, name: bytes, token: bytes) -> _socket.socket | None:
        try:
            stream = self.stream()
            stream.connect(PREFIX + name)
            stream.sendall(HELLO.pack(self.index, token, team_identity()))
        except OSError:
            return None
        return stream

    def take(self, stream: _socket.socket) -> list[int] | None:
        taken = array("i")
        wanted = self.making.count(len(self.ranks))
        try:
            while len(taken) < wanted:
                room = _socket.CMSG_SPACE(DESCRIPTORS_A_MESSAGE * taken.itemsize)
                data, messages, _flags, _address = stream.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
                for level, kind, content in messages:
                    if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                        taken.frombytes(content[: len(content) - len(content) % taken.itemsize])
                if not data:
                    raise ConnectionResetError
            self.identities = exactly(stream, len(self.ranks) * len(team_identity()))
            if len(taken) == wanted:
                return list(taken)
        except OSError:
            pass
        for descriptor in taken:
            originals.close(descriptor)
        return None
