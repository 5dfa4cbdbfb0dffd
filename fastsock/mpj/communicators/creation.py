"""
Making communicators: the members agree on a number that no other communicator of any of them has.

Numbers are given by one member, the first of the new communicator, out of a supply that no other process gives from
(`context_numbers`). So an agreement is a broadcast, and threads may make several communicators at the same time.
"""

from __future__ import annotations

import binascii
from array import array
from collections.abc import Iterable, Sequence

from fastsock.core.binding._requests import PEER_FAILED, STANDARD, MessageError
from fastsock.system.forkable import new_lock

from ..collectives import bcast
from ..collectives.exchange import PATIENCE_S
from ..collectives.object_collectives import ObjectCalls, exchanged
from ..constants import UNDEFINED
from ..messages.operation_records import Collective, Nothing, Operation
from ..messages.pickling import CODEC
from ..tags import AGREEMENT, CREATION
from .communicator_record import Communicator, Intercommunicator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .world import World


_NUMBER = 8  # bytes of the number of a communicator in a message


def everything(communicator: Any, obj: Any) -> tuple[list[Any], list[Any]]:
    """Returns the objects of all members, and those of the remote group where there is one."""
    if not communicator.inter:
        return communicator.objects.allgather(CODEC, obj), []
    remote = ObjectCalls(communicator).allgather(CODEC, obj)
    # each side tells the other what it got: its own objects
    return ObjectCalls(communicator).allgather(CODEC, remote)[0], remote


def first_side(communicator: Any) -> bool:
    """Whether the local group of an intercommunicator comes first in what both groups must see the same way."""
    return bool(communicator.ranks[0] < communicator.peers[0])


def duplicate(communicator: Any) -> Communicator:
    """Returns a communicator of the same groups."""
    world = communicator.world
    if communicator.inter:
        agreed = _Channel.of(communicator).share(_both(communicator))
        return Intercommunicator(world, agreed, communicator.ranks, communicator.peers)
    number = world.numbers.take() if communicator.rank == 0 else None
    number = communicator.objects.bcast(CODEC, number, 0)
    return inherit(Communicator(world, number, communicator.ranks, like=communicator), communicator)


def start_duplicate(communicator: Any) -> tuple[Communicator, Operation]:
    """Starts to make a communicator of the same groups; it is usable once the operation is complete."""
    world = communicator.world
    if communicator.inter:
        return duplicate(communicator), Nothing(receives=False)
    number = world.numbers.take() if communicator.rank == 0 else 0
    received = bytearray(number.to_bytes(_NUMBER, "little"))
    record = Communicator(world, -1, communicator.ranks, like=communicator)
    request = bcast.start(communicator.members.exchange(blocking=False), memoryview(received), 0)

    def agreed(_: int) -> None:
        record.open(int.from_bytes(received, "little"))

    return inherit(record, communicator), Collective(communicator, request, receives=False, owner=received, land=agreed)


def inherit(new: Communicator, communicator: Any) -> Communicator:
    """Gives a duplicate what follows from the groups."""
    new.topology = communicator.topology
    return new


def among(communicator: Any, ranks: Sequence[int] | None) -> Communicator | None:
    """Returns a communicator of some members, named by their ranks here; None where this rank is not one of them."""
    if not ranks or communicator.rank not in ranks:
        return None
    if len(ranks) == 1:
        number = communicator.world.numbers.take()
    elif len(ranks) == communicator.size and communicator.team_objects is not None:
        leads = ranks[0] == communicator.rank
        number = communicator.objects.integers(communicator.world.numbers.take() if leads else -1)[ranks[0]]
    else:  # nobody waits for those that are in other groups, or in none
        number = _Channel.of(communicator).share([communicator.ranks[rank] for rank in ranks])
    return _within(communicator, number, ranks)


def _within(communicator: Any, number: int, places: Sequence[int]) -> Communicator:
    """Returns a communicator of the members at these places: often all of them, in the same order."""
    ranks = communicator.ranks
    chosen = tuple([ranks[place] for place in places])
    if chosen == ranks:
        return Communicator(communicator.world, number, ranks, like=communicator)
    return Communicator(communicator.world, number, chosen)


def among_both(communicator: Any, ranks: Sequence[int] | None) -> Communicator | None:
    """As `among`, on an intercommunicator: the members on both sides."""
    world = communicator.world
    members = [communicator.ranks[rank] for rank in ranks or ()]
    number = world.numbers.take() if members and members[0] == world.rank else None
    local, remote = everything(communicator, (members, number))
    mine = next((entry for entry in local if world.rank in entry[0]), None)
    theirs = next((entry for entry in remote if entry[0]), None)
    if mine is None or theirs is None:
        return None
    numbers = {members[0]: number for members, number in local + remote if number is not None}
    first = min(mine[0][0], theirs[0][0])
    return Intercommunicator(world, numbers[first], mine[0], theirs[0])


def split(communicator: Any, color: int, key: int) -> Communicator | None:
    """Returns a communicator of the members that gave the same color, in the order of their keys."""
    world = communicator.world
    number = world.numbers.take()
    if communicator.inter:
        found, chosen = _split_both(communicator, color, key, number)
    else:
        found, chosen = _split_one(communicator, color, key, number)
    if chosen != number:
        world.numbers.give_back(number)
    return found


def _split_one(communicator: Any, color: int, key: int, number: int) -> tuple[Communicator | None, int]:
    received = communicator.objects.integers(color, key, number)
    if color == UNDEFINED:
        return None, -1
    colors, keys = received[::3], received[1::3]
    places = [place for place, theirs in enumerate(colors) if theirs == color]
    places.sort(key=keys.__getitem__)
    chosen = received[3 * places[0] + 2]
    return _within(communicator, chosen, places), chosen


def _split_both(communicator: Any, color: int, key: int, number: int) -> tuple[Communicator | None, int]:
    everybody = _both(communicator)
    received = _Channel.of(communicator).exchange((color, key, number), everybody)
    if color == UNDEFINED:
        return None, -1
    colors, keys = received[::3], received[1::3]
    chosen = [place for place, theirs in enumerate(colors) if theirs == color]
    chosen.sort(key=keys.__getitem__)
    first = first_side(communicator)
    cut = communicator.size if first else len(communicator.peers)
    before, behind = [place for place in chosen if place < cut], [place for place in chosen if place >= cut]
    if not before or not behind:
        return None, -1
    ranks = [everybody[place] for place in before]
    peers = [everybody[place] for place in behind]
    agreed = received[3 * (before[0] if ranks[0] < peers[0] else behind[0]) + 2]
    if not first:
        ranks, peers = peers, ranks
    return Intercommunicator(communicator.world, agreed, ranks, peers), agreed


def _both(communicator: Any) -> tuple[int, ...]:
    """Returns the ranks in the world of both groups of an intercommunicator, in one order on both sides."""
    ranks: tuple[int, ...] = communicator.ranks
    peers: tuple[int, ...] = communicator.peers
    return ranks + peers if first_side(communicator) else peers + ranks


class _Channel:
    """Messages between the processes of a new communicator, which are not all members of one that there is."""

    __slots__ = ("communicator", "context", "engine", "lock", "tag", "world")

    def __init__(self, communicator: Any, context: int, tag: int, lock: Any) -> None:
        self.communicator = communicator  # hears of errors
        self.world = communicator.world
        self.engine = communicator.engine
        self.context = context
        self.tag = tag
        self.lock = lock

    @classmethod
    def of(cls, communicator: Any) -> _Channel:
        """Returns that of operations that all members of a communicator call, in one order: one goes on at a time."""
        communicator.opened()
        lock = communicator.locks.get("agreement") or communicator.locks.setdefault("agreement", new_lock())
        return cls(communicator, communicator.context + 1, AGREEMENT, lock)

    @classmethod
    def tagged(cls, world: World, context: int, tag: int) -> _Channel:
        """Returns one of several in a context."""
        return cls(world.everyone, context, CREATION + tag % CREATION, new_lock())

    def share(self, ranks: Sequence[int]) -> int:
        """Returns the number that the first of these ranks gives. It is told along a binomial tree."""
        place = ranks.index(self.world.rank)
        try:
            with self.lock:
                number = self.receive(ranks[place & (place - 1)], ranks) if place else self.world.numbers.take()
                self.spread(number, ranks, place)
        except MessageError as error:
            raise self.communicator.failed(error) from error
        return int(number)

    def spread(self, number: int, ranks: Sequence[int], place: int) -> None:
        """Tells those that stand below this place in the tree."""
        step = place & -place if place else 1 << (len(ranks) - 1).bit_length()
        while step > 1:
            step //= 2
            if place + step < len(ranks):
                self.send(number, ranks[place + step])

    def exchange(self, own: Sequence[int], ranks: Sequence[int]) -> list[int]:
        """Returns the integers that all these ranks gave, as many each, one after the other."""
        place = ranks.index(self.world.rank)
        try:
            with self.lock:
                return exchanged(self.engine, ranks, place, self.tag, self.context, own)
        except MessageError as error:
            raise self.communicator.failed(error) from error

    def send(self, number: int, peer: int) -> None:
        self.engine.send(number.to_bytes(_NUMBER, "little"), peer, self.tag, self.context)

    def receive(self, peer: int, ranks: Sequence[int]) -> int:
        """Returns what a peer sends; it may wait for any of these ranks."""
        received = bytearray(_NUMBER)
        request = self.engine.irecv(received, peer, self.tag, self.context)
        while not self.engine.wait_all((request,), PATIENCE_S):
            for rank, _ in self.engine.failures(ranks):
                request.cancel()
                raise MessageError(PEER_FAILED, rank, f"a communicator with rank {rank} cannot be made")
        if request.error is not None:
            raise request.error
        return int.from_bytes(received, "little")

    def swap(self, own: Iterable[int], peer: int) -> list[int]:
        """Returns the integers that a peer gave for these."""
        request = self.engine.isend(array("q", own), peer, self.tag, self.context, STANDARD)
        found = self.engine.recv_new(peer, self.tag, self.context)[0]
        request.wait()
        return list(memoryview(found).cast("q"))


def from_group(world: World, ranks: Sequence[int], context: int, tag: int) -> Communicator:
    """Returns a communicator of a group; only its members take part, the first one gives the number."""
    return Communicator(world, _Channel.tagged(world, context, tag).share(ranks), ranks)


def string_tag(text: str) -> int:
    """Returns a tag for a string. It tells apart communicators that are made at the same time."""
    return binascii.crc32(text.encode())


def bridge(communicator: Any, local_leader: int, peer: Any, remote_leader: int, tag: int) -> Communicator:
    """Returns the intercommunicator of two groups whose leaders know each other in the communicator `peer`."""
    world = communicator.world
    agreed: list[int] = []
    communicator.root(local_leader, communicator.size)
    if communicator.rank == local_leader:
        channel = _Channel.tagged(world, peer.context + 1, tag)
        number = world.numbers.take()
        try:
            agreed = channel.swap([number, *communicator.ranks], peer.origin(remote_leader, tag))
        except MessageError as error:
            raise peer.failed(error) from error
        if communicator.ranks[0] < agreed[1]:
            agreed[0] = number
        else:
            world.numbers.give_back(number)
    if communicator.size > 1:
        agreed = communicator.objects.bcast(CODEC, agreed, local_leader)
    return Intercommunicator(world, agreed[0], communicator.ranks, agreed[1:])


def from_groups(
    world: World, local: Sequence[int], local_leader: int, remote: Sequence[int], remote_leader: int, tag: int
) -> Communicator:
    """Returns the intercommunicator of two groups that know each other; only their members take part."""
    context = world.internal_context
    leader = local[local_leader]
    other = remote[remote_leader]
    first, second = (leader, other) if leader < other else (other, leader)
    # one order on both sides: the leader that gives the number, then the other one
    rest = [rank for rank in sorted([*local, *remote]) if rank not in (leader, other)]
    number = _Channel.tagged(world, context, tag).share([first, second, *rest])
    return Intercommunicator(world, number, local, remote)


def merge(communicator: Any, high: bool) -> Communicator:
    """Returns the communicator of both groups of an intercommunicator; those that say `high` come last."""
    world, channel = communicator.world, _Channel.of(communicator)
    everybody, gives = _both(communicator), first_side(communicator)
    place = everybody.index(world.rank)
    try:
        with channel.lock:
            if not gives and communicator.rank == 0:
                channel.send(bool(high), everybody[0])
            if place == 0:
                theirs = channel.receive(communicator.peers[0], everybody)
                turned = bool(high) and not theirs  # both the same: the side that gives the number comes first
                both = 2 * world.numbers.take() + turned
            else:
                both = channel.receive(everybody[place & (place - 1)], everybody)
            channel.spread(both, everybody, place)
    except MessageError as error:
        raise communicator.failed(error) from error
    number, turned = divmod(both, 2)
    ours_first = gives != bool(turned)
    first, second = (communicator.ranks, communicator.peers)[:: 1 if ours_first else -1]
    return Communicator(world, number, [*first, *second])
