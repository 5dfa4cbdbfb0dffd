"""
Making communicators: the members agree on a number that no other communicator of any of them has.

Numbers are given by one member, the first of the new communicator, out of a supply that no other process gives from
(`context_numbers`). So an agreement is a broadcast, and threads may make several communicators at the same time. Where
members belong to several jobs the first proposes a number at random, until all members say that they have it free.
"""

from __future__ import annotations

import binascii
from _thread import allocate_lock
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

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
from .context_numbers import proposed

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
    return bool(communicator.world.others.precedes(communicator.ranks[0], communicator.peers[0]))


def reaches_outside(world: World, ranks: Iterable[int]) -> bool:
    """Whether one of these ranks belongs to another job."""
    return any(rank >= world.size for rank in ranks)


def duplicate(communicator: Any) -> Communicator:
    """Returns a communicator of the same groups."""
    world = communicator.world
    if communicator.inter:
        agreed = Channel.of(communicator).agree(_both(communicator, first_side(communicator)))
        return Intercommunicator(world, agreed, communicator.ranks, communicator.peers)
    if communicator.mixed:
        agreed = Channel.of(communicator).agree(communicator.ranks)
        return inherit(Communicator(world, agreed, communicator.ranks, like=communicator), communicator)
    number = world.numbers.take() if communicator.rank == 0 else None
    number = communicator.objects.bcast(CODEC, number, 0)
    return inherit(Communicator(world, number, communicator.ranks, like=communicator), communicator)


def start_duplicate(communicator: Any) -> tuple[Communicator, Operation]:
    """Starts to make a communicator of the same groups; it is usable once the operation is complete."""
    world = communicator.world
    if communicator.inter or communicator.mixed:
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
    elif len(ranks) == communicator.size and communicator.team_objects is not None and not communicator.mixed:
        leads = ranks[0] == communicator.rank
        number = communicator.objects.integers(communicator.world.numbers.take() if leads else -1)[ranks[0]]
    else:  # nobody waits for those that are in other groups, or in none
        channel = Channel.of(communicator)
        members = [communicator.ranks[rank] for rank in ranks]
        number = channel.agree(members) if communicator.mixed else channel.share(members)
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
    places = list(ranks or ())
    number = world.numbers.take() if places and places[0] == communicator.rank else None
    local, remote = everything(communicator, (places, number))
    mine = next((entry for entry in local if communicator.rank in entry[0]), None)
    theirs = next((entry for entry in remote if entry[0]), None)
    if mine is None or theirs is None:
        if number is not None:
            world.numbers.give_back(number)
        return None
    members = [communicator.ranks[place] for place in mine[0]]
    others = [communicator.peers[place] for place in theirs[0]]
    ours_first = world.others.precedes(members[0], others[0])
    group = mine[0] if ours_first else theirs[0]
    numbers = {entry[0][0]: entry[1] for entry in (local if ours_first else remote) if entry[1] is not None}
    agreed = numbers[group[0]]
    if communicator.mixed:
        both = [*members, *others] if ours_first else [*others, *members]
        agreed = Channel.of(communicator).agree(both)
    if number is not None and number != agreed:
        world.numbers.give_back(number)
    return Intercommunicator(world, agreed, members, others)


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
    if communicator.mixed:
        chosen = Channel.of(communicator).agree([*map(communicator.ranks.__getitem__, places)])
    return _within(communicator, chosen, places), chosen


def _split_both(communicator: Any, color: int, key: int, number: int) -> tuple[Communicator | None, int]:
    world, first = communicator.world, first_side(communicator)
    everybody = _both(communicator, first)
    received = Channel.of(communicator).exchange((color, key, number), everybody)
    if color == UNDEFINED:
        return None, -1
    colors, keys = received[::3], received[1::3]
    chosen = [place for place, theirs in enumerate(colors) if theirs == color]
    chosen.sort(key=keys.__getitem__)
    cut = communicator.size if first else len(communicator.peers)
    before, behind = [place for place in chosen if place < cut], [place for place in chosen if place >= cut]
    if not before or not behind:
        return None, -1
    ranks = [everybody[place] for place in before]
    peers = [everybody[place] for place in behind]
    agreed = received[3 * (before[0] if world.others.precedes(ranks[0], peers[0]) else behind[0]) + 2]
    if communicator.mixed:
        agreed = Channel.of(communicator).agree([everybody[place] for place in chosen])
    if not first:
        ranks, peers = peers, ranks
    return Intercommunicator(world, agreed, ranks, peers), agreed


def _both(communicator: Any, ours_first: bool) -> tuple[int, ...]:
    """Returns the ranks in the world of both groups of an intercommunicator, in the order that `first_side` says."""
    ranks: tuple[int, ...] = communicator.ranks
    peers: tuple[int, ...] = communicator.peers
    return ranks + peers if ours_first else peers + ranks


class Channel:
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
    def of(cls, communicator: Any) -> Channel:
        """Returns that of operations that all members of a communicator call, in one order: one goes on at a time."""
        communicator.opened()
        lock = communicator.locks.get("agreement") or communicator.locks.setdefault("agreement", new_lock())
        return cls(communicator, communicator.context + 1, AGREEMENT, lock)

    @classmethod
    def tagged(cls, world: World, context: int, tag: int) -> Channel:
        """Returns one of several in a context, for one call: no other thread has it, and no forked child."""
        return cls(world.everyone, context, CREATION + tag % CREATION, allocate_lock())

    def agree(self, ranks: Sequence[int]) -> int:
        """Returns a number for a communicator of these ranks, which all give it."""
        if self.world.others.known is None or not reaches_outside(self.world, ranks):
            return self.share(ranks)
        place = ranks.index(self.world.rank)
        while True:
            number = self.share(ranks, proposed() if place == 0 else -1)
            free = self.world.numbers.claim(number)
            if all(self.exchange([free], ranks)):
                return number
            if free:
                self.world.numbers.free(number)

    def share(self, ranks: Sequence[int], own: int = -1) -> int:
        """Returns the number that the first of these ranks gives: `own`, or the next of its supply.

        It is told along a binomial tree.
        """
        place = ranks.index(self.world.rank)
        try:
            with self.lock:
                if place:
                    above = place & (place - 1)
                    number = self.receive(ranks[above], ranks if above else ())
                else:
                    number = own if own >= 0 else self.world.numbers.take()
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

    def receive(self, peer: int, ranks: Sequence[int] = ()) -> int:
        """Returns what a peer sends; it may wait for any of these ranks."""
        received = bytearray(_NUMBER)
        if len(ranks) <= 2:  # for nobody but this one
            self.engine.recv(received, peer, self.tag, self.context)
            return int.from_bytes(received, "little")
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
    return Communicator(world, Channel.tagged(world, context, tag).agree(ranks), ranks)


def part(communicator: Any) -> None:
    """Waits until all members of a communicator are about to free it. Who has ended is not waited for."""
    everybody = _both(communicator, first_side(communicator)) if communicator.inter else communicator.ranks
    channel = Channel.of(communicator)
    place, size, distance = everybody.index(communicator.world.rank), len(everybody), 1
    # by messages, not in shared memory: they tell of members that have finished while their process goes on
    with channel.lock:
        while distance < size:
            before, behind = everybody[place - distance], everybody[(place + distance) % size]
            with suppress(MessageError):  # the others are told all the same
                channel.engine.sendrecv(b"", before, bytearray(), behind, channel.tag, channel.context)
            distance *= 2


def string_tag(text: str) -> int:
    """Returns a tag for a string. It tells apart communicators that are made at the same time."""
    return binascii.crc32(text.encode())


def group_tag(world: World, text: str, *groups: Sequence[int]) -> int:
    """Returns a tag for a string and groups: the same in all their members."""
    known = [[world.others.key(rank) for rank in ranks] if reaches_outside(world, ranks) else ranks for ranks in groups]
    return string_tag(f"{text} {sorted(map(str, known))}")


def from_groups(
    world: World, local: Sequence[int], local_leader: int, remote: Sequence[int], remote_leader: int, tag: int
) -> Communicator:
    """Returns the intercommunicator of two groups that know each other; only their members take part."""
    context = world.internal_context
    leader = local[local_leader]
    other = remote[remote_leader]
    first, second = (leader, other) if world.others.precedes(leader, other) else (other, leader)
    # one order on both sides: the leader that gives the number, then the other one
    rest = [rank for rank in sorted([*local, *remote], key=world.others.key) if rank not in (leader, other)]
    number = Channel.tagged(world, context, tag).agree([first, second, *rest])
    return Intercommunicator(world, number, local, remote)


def merge(communicator: Any, high: bool) -> Communicator:
    """Returns the communicator of both groups of an intercommunicator; those that say `high` come last."""
    world, channel = communicator.world, Channel.of(communicator)
    gives = first_side(communicator)
    everybody = _both(communicator, gives)
    place = everybody.index(world.rank)
    try:
        with channel.lock:
            if not gives and communicator.rank == 0:
                channel.send(bool(high), everybody[0])
            if place == 0:
                theirs = channel.receive(communicator.peers[0])
                turned = bool(high) and not theirs  # both the same: the side that gives the number comes first
                both = int(turned) if communicator.mixed else 2 * world.numbers.take() + turned
            else:
                both = channel.receive(everybody[place & (place - 1)], everybody)
            channel.spread(both, everybody, place)
    except MessageError as error:
        raise communicator.failed(error) from error
    number, both_turned = divmod(both, 2)
    if communicator.mixed:
        number = channel.agree(everybody)
    ours_first = gives != bool(both_turned)
    first, second = (communicator.ranks, communicator.peers)[:: 1 if ours_first else -1]
    return Communicator(world, number, [*first, *second])
