"""Groups: ordered sets of processes."""

from __future__ import annotations

from operator import index

from ..constants import ERR_ARG, ERR_GROUP, ERR_RANK, IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL
from ..exceptions import Exception
from ..handle import Handle, Record, public
from ..ranks import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Self


class GroupRecord(Record):
    """`ranks`: the members' ranks in the world, in order. `me`: this process's rank in the world, if known."""

    __slots__ = ("me", "positions", "ranks")

    def __init__(self, ranks: Iterable[int], me: int) -> None:
        super().__init__()
        self.ranks = tuple(ranks)
        self.me = me
        self.positions = {rank: position for position, rank in enumerate(self.ranks)}


_null = GroupRecord((), -1)


@public
class Group(Handle):
    """Group of processes."""

    __slots__ = ()

    ob: GroupRecord
    null = _null

    def _members(self) -> GroupRecord:
        record = self.ob
        if record is _null:
            raise Exception(ERR_GROUP, "the group is null")
        return record

    @classmethod
    def _make(cls, ranks: Iterable[int], me: int) -> Self:
        """Returns the group of these world ranks; `me` is the world rank of this process."""
        return cls.of(GroupRecord(ranks, me))

    @property
    def _ranks(self) -> tuple[int, ...]:
        """The members' ranks in the world."""
        return self._members().ranks

    def Get_size(self) -> int:
        """Return the number of processes in a group."""
        return len(self._members().ranks)

    def Get_rank(self) -> int:
        """Return the rank of this process in a group."""
        record = self._members()
        return record.positions.get(record.me, UNDEFINED)

    size = property(Get_size, doc="Number of processes.")
    rank = property(Get_rank, doc="Rank of this process.")

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Translate ranks in a group to those in another group."""
        mine = self._members().ranks
        theirs = (_world() if group is None else group)._members().positions
        wanted = range(len(mine)) if ranks is None else [index(rank) for rank in ranks]
        return [PROC_NULL if rank == PROC_NULL else theirs.get(mine[self._checked(rank)], UNDEFINED) for rank in wanted]

    def Compare(self, group: Group) -> int:
        """Compare two groups."""
        one, other = self._members().ranks, group._members().ranks
        if one == other:
            return IDENT
        return SIMILAR if sorted(one) == sorted(other) else UNEQUAL

    def Dup(self) -> Self:
        """Duplicate a group."""
        return self._make(self._members().ranks, self.ob.me)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        """Create a new group from the union of two existing groups."""
        one, other = group1._members(), group2._members()
        return cls._make(
            (*one.ranks, *(rank for rank in other.ranks if rank not in one.positions)), max(one.me, other.me)
        )

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        """Create a new group from the intersection of two existing groups."""
        one, other = group1._members(), group2._members()
        return cls._make((rank for rank in one.ranks if rank in other.positions), max(one.me, other.me))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        """Create a new group from the difference of two existing groups."""
        one, other = group1._members(), group2._members()
        return cls._make((rank for rank in one.ranks if rank not in other.positions), max(one.me, other.me))

    def Incl(self, ranks: Sequence[int]) -> Self:
        """Create a new group by including listed members."""
        mine = self._members().ranks
        return self._make([mine[rank] for rank in self._distinct(ranks)], self.ob.me)

    def Excl(self, ranks: Sequence[int]) -> Self:
        """Create a new group by excluding listed members."""
        mine = self._members().ranks
        without = set(self._distinct(ranks))
        return self._make([mine[rank] for rank in range(len(mine)) if rank not in without], self.ob.me)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Create a new group by including ranges of members."""
        self._members()
        return self.Incl(_ranges(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Create a new group by excluding ranges of members."""
        self._members()
        return self.Excl(_ranges(ranks))

    @classmethod
    def Create_from_session_pset(cls, session: Any, pset_name: str) -> Self:
        """Create a new group from session and process set."""
        return cls.of(session.Create_group(pset_name).ob)

    def Free(self) -> None:
        """Free a group."""
        self._members()
        self._forget()

    def _checked(self, rank: int) -> int:
        if not 0 <= rank < len(self.ob.ranks):
            raise Exception(ERR_RANK, f"rank {rank} is not in a group of {len(self.ob.ranks)}")
        return rank

    def _distinct(self, ranks: Sequence[int]) -> list[int]:
        found = [self._checked(index(rank)) for rank in ranks]
        if len(set(found)) != len(found):
            raise Exception(ERR_RANK, f"a rank occurs twice in {found}")
        return found


def _ranges(triples: Sequence[tuple[int, int, int]]) -> list[int]:
    found: list[int] = []
    for triple in triples:
        first, last, stride = (index(value) for value in triple)
        if stride == 0 or (last - first) * stride < 0:
            raise Exception(ERR_ARG, f"no ranks from {first} to {last} by {stride}")
        found.extend(range(first, last + (1 if stride > 0 else -1), stride))
    return found


def _world() -> Group:
    home = current()
    return Group.of(GroupRecord(range(home.size), home.rank))


GROUP_NULL = Group.named(_null, "GROUP_NULL")
GROUP_EMPTY = Group.named(GroupRecord((), -1), "GROUP_EMPTY")
