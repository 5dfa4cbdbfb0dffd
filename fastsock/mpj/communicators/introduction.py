"""How two groups that may belong to several jobs come to an intercommunicator.

One member of each group, the leader, has a line to the other leader. Over it each group hears who the members of the
other are, and where they listen. Then all members of both agree on a number for the communicator. A member lets the
others connect before it agrees, so whoever has the communicator reaches all.
"""

from __future__ import annotations

import json

from fastsock.core.binding._requests import MessageError
from fastsock.system.originals import originals
from fastsock.system.proof import SECRET_BYTES, hmac_sha256
from fastsock.xxdev.bonds import Bond, Process

from ..constants import ERR_OTHER
from ..exceptions import Exception as MPIException
from ..messages.pickling import CODEC
from .communicator_record import Intercommunicator
from .context_numbers import proposed
from .creation import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from .communicator_record import Communicator

    class Line(Protocol):
        """Between the leaders of two groups. Nobody else can write to it."""

        secret: bytes  # what the leaders know, and nobody who only hears the line

        def send(self, data: bytes) -> None:
            """Raises OSError, MessageError."""

        def receive(self) -> bytes:
            """The next that the other leader has sent. Raises OSError, MessageError."""


def bridge(communicator: Any, local_leader: int, peer: Any, remote_leader: int, tag: int) -> Communicator:
    """Returns the intercommunicator of two groups whose leaders know each other in the communicator `peer`."""
    world = communicator.world
    agreed: list[int] = []
    communicator.root(local_leader, communicator.size)
    other, channel, first = -1, None, False
    if communicator.rank == local_leader:
        channel = Channel.tagged(world, peer.context + 1, tag)
        other = peer.origin(remote_leader, tag)
        first = world.others.precedes(world.rank, other)
        number = world.numbers.take()
        outside = communicator.mixed or other >= world.size
        try:
            agreed = channel.swap([number, outside, *communicator.ranks], other)
        except MessageError as error:
            raise peer.failed(error) from error
        if outside or agreed[1]:  # what numbers mean differs from job to job
            agreed = []
        elif communicator.ranks[0] < agreed[2]:
            agreed[0] = number
        if not agreed or agreed[0] != number:
            world.numbers.give_back(number)
    if communicator.size > 1:
        agreed, first = communicator.objects.bcast(CODEC, (agreed, first), local_leader)
    if agreed:
        return Intercommunicator(world, agreed[0], communicator.ranks, agreed[2:])
    known = world.job.secret if other < world.size else world.others.outside.secret_with(other)
    return introduce(communicator, local_leader, lambda: MessageLine(channel, other, known), first=first)


class MessageLine:
    """Between the leaders of two groups that are members of one communicator (introduction.py)."""

    def __init__(self, channel: Any, peer: int, secret: bytes) -> None:
        self._channel, self._peer, self.secret = channel, peer, secret

    def send(self, data: bytes) -> None:
        """As introduction.Line."""
        self._channel.engine.send(data, self._peer, self._channel.tag, self._channel.context)

    def receive(self) -> bytes:
        """As introduction.Line."""
        channel = self._channel
        return bytes(channel.engine.recv_new(self._peer, channel.tag, channel.context)[0])


def introduce(
    communicator: Communicator,
    leader: int,
    dial: Callable[[], Line],
    *,
    first: bool,
    error_class: int = ERR_OTHER,
) -> Communicator:
    """Returns the intercommunicator of this group with the one at the other end of the line.

    A collective call of both groups. `dial`: called by the leader; `first`: this group gives the number, and the other
    one does not. Where the leader cannot go on, all members raise an MPI.Exception of `error_class`.
    """
    outside = communicator.world.others.outside
    leads = communicator.rank == leader
    cards: Any = communicator.objects.gather(CODEC, outside.own.card(), leader)
    with _Talk(communicator, leader, dial if leads else None, error_class) as talk:
        met = talk.share(lambda: _swap_groups(talk.line, cards, first))
        secret, theirs, number = bytes.fromhex(met[0]), [Process(*card) for card in met[1]], met[2]
        ours = [outside.key(rank) for rank in communicator.ranks]
        others = [process.key for process in theirs]
        bond = Bond(secret, [*ours, *others] if first else [*others, *ours])
        peers = outside.numbers(theirs)
        outside.join(bond)
        number = _agree(talk, communicator, first, number)
        outside.trust(bond)
    return Intercommunicator(communicator.world, number, communicator.ranks, peers)


class _Talk:
    """What the leader does for its group: all members get its result, or its error."""

    def __init__(
        self, communicator: Communicator, leader: int, dial: Callable[[], Line] | None, error_class: int
    ) -> None:
        self.communicator, self.leader, self.error_class = communicator, leader, error_class
        self.leads = dial is not None
        self._dial = dial
        self._line: Any = None

    def __enter__(self) -> _Talk:
        return self

    def __exit__(self, *_: object) -> None:
        close = getattr(self._line, "close", None)
        if close is not None:
            close()

    @property
    def line(self) -> Any:
        """Of the leader."""
        if self._line is None:
            assert self._dial is not None
            self._line = self._dial()
        return self._line

    def share(self, act: Callable[[], Any]) -> Any:
        """Returns what `act()` returns at the leader. Raises MPI.Exception where it fails there."""
        told: Any = None
        if self.leads:
            try:
                told = True, act()
            except MPIException as error:
                told = False, (error.Get_error_class(), error.detail)
            except (OSError, MessageError, ValueError, KeyError, TypeError, IndexError) as error:
                told = False, (self.error_class, f"the other group is lost: {error}")
            except BaseException as error:  # an interrupt: nobody is to wait for this rank
                self.communicator.objects.bcast(CODEC, (False, (self.error_class, repr(error))), self.leader)
                raise
        well, value = self.communicator.objects.bcast(CODEC, told, self.leader)
        if not well:
            raise self.communicator.fail(*value)
        return value


def _swap_groups(line: Line, cards: list[Any], first: bool) -> tuple[str, list[Any], int]:
    """A secret for all, the cards of the other group, and the first number that is proposed."""
    own, mine = originals.urandom(SECRET_BYTES).hex(), proposed()
    other, theirs, yours = _swap(line, [own, cards, mine], first)
    both = own + other if first else other + own
    secret = hmac_sha256(line.secret, b"fastsock.mpj introduction/2\0" + bytes.fromhex(both)).hex()
    return secret, theirs, int(mine if first else yours)


def _swap(line: Line, value: Any, first: bool) -> Any:
    """What the other leader gives for a value. One sends before the other: a line may hold little."""
    if first:
        line.send(json.dumps(value).encode())
    found = json.loads(line.receive())
    if not first:
        line.send(json.dumps(value).encode())
    return found


def _agree(talk: _Talk, communicator: Communicator, first: bool, number: int) -> int:
    """A number that all members of both groups have free: the first that they hear of, or one that is proposed here."""
    numbers, objects = communicator.world.numbers, communicator.objects

    def propose() -> int:
        if not first:
            return int(json.loads(talk.line.receive()))
        number = proposed()
        talk.line.send(json.dumps(number).encode())
        return number

    def decide(free: list[bool]) -> bool:
        return bool(_swap(talk.line, all(free), first)) and all(free)

    while True:
        claimed = numbers.claim(number)
        free = objects.gather(CODEC, claimed, talk.leader)
        try:
            if talk.share(lambda free=free: decide(free)):  # type: ignore[misc]
                return number
        except BaseException:
            if claimed:
                numbers.free(number)
            raise
        if claimed:
            numbers.free(number)
        number = talk.share(propose)
