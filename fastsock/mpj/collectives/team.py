"""How the ranks of a communicator that share a host come to share memory for their collectives.

The leader makes the memory and listens at a random abstract name. It tells the others the name by messages. Each
connects, proves itself by the token that came with the name, and receives the descriptors: the memory, an eventfd and a
descriptor of the process of every member. Nothing has a name in a file system, so nothing is left behind when a member
is killed. Where anything is missing or refused on one host, all members agree that there is no team, and use messages.
"""

from __future__ import annotations

import _socket
import os
import struct
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from fastsock.core.binding._system import abstract_accept
from fastsock.core.binding._team import TEAM_MOST, Team, create_team_memory, team_identity
from fastsock.meeting import unix_calls
from fastsock.system.originals import originals
from fastsock.system.proof import same
from fastsock.xxdev import settings

from ..tags import TEAM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fastsock.core.binding._engine import Engine

_WAKE_FLAGS = os.EFD_NONBLOCK | os.EFD_CLOEXEC
PATIENCE_S = 10.0  # for what has been sent already
PREFIX = b"\0fastsock-team-"
OFFER = struct.Struct("32s32s")  # random part of the name, token
HELLO = struct.Struct("i32s24s")  # index, token, identity
SO_PEERPIDFD = 77
DESCRIPTORS_A_MESSAGE = 100
YES, NO, THREADS = b"y", b"n", b"t"  # threads: yes, and members are threads of one process


def form(engine: Engine, context: int, ranks: Sequence[int], index: int, *, crowded: bool) -> Team | None:
    """The team of the processes `ranks`, of which this is number `index`; None where they cannot share memory.

    A collective call: all of them make it, for the same communicator. `crowded`: their host has more ranks than cores.
    Raises what the engine raises for a rank that died meanwhile.
    """
    if len(ranks) > TEAM_MOST:
        return None
    if len(ranks) == 1:
        return _alone(engine, ranks[0])
    with ExitStack() as stack:
        meeting = _Leader if index == 0 else _Member
        return meeting(engine, context, tuple(ranks), index, crowded, stack).meet()


def _alone(engine: Engine, rank: int) -> Team | None:
    """One process: nobody is waited for, watched or woken, but its calls are as short as those of several."""
    with suppress(OSError):
        return Team(engine, create_team_memory(1, False), 0, [-1], [-1], [rank])
    return None


class _Meeting:
    def __init__(
        self, engine: Engine, context: int, ranks: tuple[int, ...], index: int, crowded: bool, stack: ExitStack
    ) -> None:
        self.engine = engine
        self.context = context
        self.ranks = ranks
        self.index = index
        self.crowded = crowded
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

    def open(self, descriptors: list[int], identities: bytes, threads: bool) -> Team | None:
        """Takes the descriptors over."""
        size = len(self.ranks)
        memory, bells, watches = descriptors[0], descriptors[1 : size + 1], descriptors[size + 1 :]
        try:
            team = Team(self.engine, memory, self.index, bells, watches, self.ranks, threads)
        except OSError:
            for descriptor in bells + watches:
                originals.close(descriptor)
            return None
        team.keep(settings.current().shared_memory)
        team.meet(identities)
        return team


class _Leader(_Meeting):
    def meet(self) -> Team | None:
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
        team = self.hand_over(streams, descriptors, verdict == THREADS)
        answers = [self.hear(member, 1) for member in members]
        agreed = team is not None and answers.count(YES) == len(answers)
        self.send_all(YES if agreed else NO)
        return _kept(team, agreed)

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
                index, proof, identity = HELLO.unpack(_exactly(stream, HELLO.size))
                if same(proof, token) and 0 < index < len(self.ranks):
                    streams[index] = stream
                    self.identities[index] = identity
        except OSError:
            return None
        return streams

    def make(self, streams: dict[int, _socket.socket]) -> list[int] | None:
        made: list[int] = []
        try:
            made.append(create_team_memory(len(self.ranks), self.crowded))
            for _ in self.ranks:
                made.append(originals.eventfd(0, _WAKE_FLAGS))
            for index in range(len(self.ranks)):
                made.append(_process_of(streams[index]) if index else originals.pidfd_open(originals.getpid()))
        except OSError:
            for descriptor in made:
                originals.close(descriptor)
            return None
        return made

    def has_threads(self) -> bool:
        """Whether members are threads of one process: process numbers do not tell, of another PID namespace."""
        return len(set(self.identities)) < len(self.identities)

    def hand_over(self, streams: dict[int, _socket.socket], descriptors: list[int], threads: bool) -> Team | None:
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
    def meet(self) -> Team | None:
        name, token = OFFER.unpack(self.hear(0, OFFER.size))
        stream = self.connect(name, token) if name.strip(b"\0") else None
        self.send(0, YES if stream else NO)
        verdict = self.hear(0, 1)
        if verdict == NO or stream is None:
            return None
        descriptors = self.take(stream)
        team = self.open(descriptors, self.identities, verdict == THREADS) if descriptors else None
        self.send(0, YES if team else NO)
        return _kept(team, self.hear(0, 1) == YES)

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
        wanted = 2 * len(self.ranks) + 1
        try:
            while len(taken) < wanted:
                room = _socket.CMSG_SPACE(DESCRIPTORS_A_MESSAGE * taken.itemsize)
                data, messages, _flags, _address = stream.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
                for level, kind, content in messages:
                    if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
                        taken.frombytes(content[: len(content) - len(content) % taken.itemsize])
                if not data:
                    raise ConnectionResetError
            self.identities = _exactly(stream, len(self.ranks) * len(team_identity()))
            if len(taken) == wanted:
                return list(taken)
        except OSError:
            pass
        for descriptor in taken:
            originals.close(descriptor)
        return None


def _kept(team: Team | None, agreed: bool) -> Team | None:
    if team is not None and not agreed:
        team.close()
        return None
    return team


def _exactly(stream: _socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


def _process_of(stream: _socket.socket) -> int:
    """A descriptor of the process at the other end. It becomes readable when that process dies."""
    try:
        return stream.getsockopt(_socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        return originals.pidfd_open(unix_calls.peer(stream.fileno())[0])  # it is connected still: the number is its own
