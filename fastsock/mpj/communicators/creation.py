"""
Making communicators: the members agree on a number that no other communicator of any of them has.

Numbers are given by one member, the first of the new communicator, out of a supply that no other process gives from
(`context_numbers`). So an agreement is a broadcast, and threads may make several communicators at the same time.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Sequence

from fastsock.core.binding._core import STANDARD, MessageError

from ..collectives import bcast
from ..collectives.object_collectives import ObjectCalls
from ..constants import UNDEFINED
from ..messages.operation_records import Collective, Nothing, Operation
from ..messages.pickling import CODEC
from ..tags import CREATION
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
        leads = communicator.rank == 0 and first_side(communicator)
        local, remote = everything(communicator, world.numbers.take() if leads else None)
        number = local[0] if first_side(communicator) else remote[0]
        return Intercommunicator(world, number, communicator.ranks, communicator.peers)
    number = world.numbers.take() if communicator.rank == 0 else None
    number = communicator.objects.bcast(CODEC, number, 0)
    return inherit(Communicator(world, number, communicator.ranks, like=communicator), communicator)


def start_duplicate(communicator: Any) -> tuple[Communicator, Operation]:
    """Starts to make a communicator of the same groups; it is usable once the operation is complete."""
    world = communicator.world
    if communicator.inter:
        return duplicate(communicator), Nothing(receives=False)
    number = world.numbers.take() if communicator.rank == 0 else 0
    told = bytearray(number.to_bytes(_NUMBER, "little"))
    record = Communicator(world, -1, communicator.ranks, like=communicator)
    request = bcast.start(communicator.members.exchange(blocking=False), memoryview(told), 0)

    def agreed(_: int) -> None:
        record.open(int.from_bytes(told, "little"))

    return inherit(record, communicator), Collective(communicator, request, receives=False, owner=told, land=agreed)


def inherit(new: Communicator, communicator: Any) -> Communicator:
    """Gives a duplicate what follows from the groups."""
    new.topology = communicator.topology
    return new


def among(communicator: Any, ranks: Sequence[int] | None) -> Communicator | None:
    """Returns a communicator of some members, named by their ranks here; None where this rank is not one of them."""
    world = communicator.world
    number = world.numbers.take() if ranks and ranks[0] == communicator.rank else -1
    numbers = communicator.objects.integers(number)
    if not ranks or communicator.rank not in ranks:
        return None
    return _within(communicator, numbers[ranks[0]], ranks)


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
    told = communicator.objects.integers(color, key, number)
    if color == UNDEFINED:
        return None, -1
    colors, keys = told[::3], told[1::3]
    places = [place for place, theirs in enumerate(colors) if theirs == color]
    places.sort(key=keys.__getitem__)
    chosen = told[3 * places[0] + 2]
    return _within(communicator, chosen, places), chosen


def _split_both(communicator: Any, color: int, key: int, number: int) -> tuple[Communicator | None, int]:
    local, remote = everything(communicator, (color, key, number))
    if color == UNDEFINED:
        return None, -1
    mine = _colored(local, communicator.ranks, color)
    theirs = _colored(remote, communicator.peers, color)
    if not theirs:
        return None, -1
    chosen = min(mine[0], theirs[0])[1]
    ranks, peers = [rank for rank, _ in mine], [rank for rank, _ in theirs]
    return Intercommunicator(communicator.world, chosen, ranks, peers), chosen


def _colored(entries: Iterable[tuple[int, int, int]], ranks: Sequence[int], color: int) -> list[tuple[int, int]]:
    """Returns (rank in the world, number) of the members with a color, in the order of keys, then ranks."""
    chosen = [(key, place, number) for place, (theirs, key, number) in enumerate(entries) if theirs == color]
    return [(ranks[place], number) for _, place, number in sorted(chosen)]


class _Channel:
    """Messages between processes that take part in no collective operation together."""

    def __init__(self, world: World, context: int, tag: int) -> None:
        self.engine = world.engine
        self.context = context
        self.tag = CREATION + tag % CREATION

    def tell(self, number: int, peers: Iterable[int]) -> None:
        told = number.to_bytes(_NUMBER, "little")
        for peer in peers:
            self.engine.send(told, peer, self.tag, self.context)

    def hear(self, peer: int) -> int:
        told = bytearray(_NUMBER)
        self.engine.recv(told, peer, self.tag, self.context)
        return int.from_bytes(told, "little")

    def recv(self, peer: int) -> Any:
        return CODEC.load(self.engine.recv_new(peer, self.tag, self.context)[0])

    def swap(self, obj: Any, peer: int) -> Any:
        request = self.engine.isend(CODEC.message(obj), peer, self.tag, self.context, STANDARD)
        found = self.recv(peer)
        request.wait()
        return found


def from_group(world: World, ranks: Sequence[int], context: int, tag: int) -> Communicator:
    """Returns a communicator of a group; only its members take part, the first one gives the number."""
    channel = _Channel(world, context, tag)
    if world.rank == ranks[0]:
        number = world.numbers.take()
        channel.tell(number, ranks[1:])
    else:
        number = channel.hear(ranks[0])
    return Communicator(world, number, ranks)


def string_tag(text: str) -> int:
    """Returns a tag for a string. It tells apart communicators that are made at the same time."""
    return binascii.crc32(text.encode())


def bridge(communicator: Any, local_leader: int, peer: Any, remote_leader: int, tag: int) -> Communicator:
    """Returns the intercommunicator of two groups whose leaders know each other in the communicator `peer`."""
    world = communicator.world
    agreed: Any = None
    communicator.root(local_leader, communicator.size)
    if communicator.rank == local_leader:
        channel = _Channel(world, peer.context + 1, tag)
        number = world.numbers.take()
        try:
            remote, their_number = channel.swap((communicator.ranks, number), peer.origin(remote_leader, tag))
        except MessageError as error:
            raise peer.failed(error) from error
        if communicator.ranks[0] < remote[0]:
            agreed = remote, number
        else:
            agreed = remote, their_number
            world.numbers.give_back(number)
    remote, number = ObjectCalls(communicator).bcast(CODEC, agreed, local_leader)
    return Intercommunicator(world, number, communicator.ranks, remote)


def from_groups(
    world: World, local: Sequence[int], local_leader: int, remote: Sequence[int], remote_leader: int, tag: int
) -> Communicator:
    """Returns the intercommunicator of two groups that know each other; only their members take part."""
    context = world.internal_context
    leader = local[local_leader]
    channel = _Channel(world, context, tag)
    if world.rank == leader:
        number = world.numbers.take()
        theirs = channel.swap(number, remote[remote_leader])
        if leader > remote[remote_leader]:
            world.numbers.give_back(number)
            number = theirs
        channel.tell(number, [rank for rank in local if rank != leader])
    else:
        number = channel.hear(leader)
    return Intercommunicator(world, number, local, remote)


def merge(communicator: Any, high: bool) -> Communicator:
    """Returns the communicator of both groups of an intercommunicator; those that say `high` come last."""
    world = communicator.world
    number = world.numbers.take() if communicator.rank == 0 else None
    local, remote = everything(communicator, (bool(high), number))
    ours_first = first_side(communicator) if local[0][0] == remote[0][0] else not local[0][0]
    sides = [(communicator.ranks, local), (communicator.peers, remote)]
    (first, entries), (second, _) = sides if ours_first else reversed(sides)
    if number is not None and not ours_first:
        world.numbers.give_back(number)
    return Communicator(world, entries[0][1], [*first, *second])
