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
    """An ordered set of processes (MPI 4.1, chapter 7). Calls on a null group raise MPI.Exception (ERR_GROUP)."""

    __slots__ = ()

    ob: GroupRecord
    null = _null

    def _members(self) -> GroupRecord:
        record = self.ob
        if record is _null:
            raise Exception(ERR_GROUP, "the group is null: it was freed, or never made")
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
        """Return the number of processes."""
        return len(self._members().ranks)

    def Get_rank(self) -> int:
        """Return the rank of this process; UNDEFINED where it is not in the group."""
        record = self._members()
        return record.positions.get(record.me, UNDEFINED)

    size = property(Get_size, doc="Number of processes.")
    rank = property(Get_rank, doc="Rank of this process.")

    def Translate_ranks(self, ranks: Sequence[int] | None = None, group: Group | None = None) -> list[int]:
        """Return the ranks that members of this group have in another (None: that of COMM_WORLD); UNDEFINED for none.

        `ranks`: those to translate (None: all). Raises MPI.Exception (ERR_RANK) for one that is not in this group.
        """
        mine = self._members().ranks
        theirs = (_world() if group is None else group)._members().positions
        wanted = range(len(mine)) if ranks is None else [index(rank) for rank in ranks]
        return [PROC_NULL if rank == PROC_NULL else theirs.get(mine[self._checked(rank)], UNDEFINED) for rank in wanted]

    def Compare(self, group: Group) -> int:
        """Return IDENT for the same processes in the same order, SIMILAR in another order, else UNEQUAL."""
        one, other = self._members().ranks, group._members().ranks
        if one == other:
            return IDENT
        return SIMILAR if sorted(one) == sorted(other) else UNEQUAL

    def Dup(self) -> Self:
        """Return a group of the same processes."""
        return self._make(self._members().ranks, self.ob.me)

    @classmethod
    def Union(cls, group1: Group, group2: Group) -> Self:
        """Return the processes of the first group, then those of the second that are not among them."""
        one, other = group1._members(), group2._members()
        return cls._make(
            (*one.ranks, *(rank for rank in other.ranks if rank not in one.positions)), max(one.me, other.me)
        )

    @classmethod
    def Intersection(cls, group1: Group, group2: Group) -> Self:
        """Return the processes of the first group that are in the second too."""
        one, other = group1._members(), group2._members()
        return cls._make((rank for rank in one.ranks if rank in other.positions), max(one.me, other.me))

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: Group, group2: Group) -> Self:
        """Return the processes of the first group that are not in the second."""
        one, other = group1._members(), group2._members()
        return cls._make((rank for rank in one.ranks if rank not in other.positions), max(one.me, other.me))

    def Incl(self, ranks: Sequence[int]) -> Self:
        """Return the group of these ranks, in this order.

        Raises MPI.Exception (ERR_RANK) where a rank is not in this group, or is given twice.
        """
        mine = self._members().ranks
        return self._make([mine[rank] for rank in self._distinct(ranks)], self.ob.me)

    def Excl(self, ranks: Sequence[int]) -> Self:
        """Return the group without these ranks. Raises MPI.Exception (ERR_RANK) as `Incl` does."""
        mine = self._members().ranks
        without = set(self._distinct(ranks))
        return self._make([mine[rank] for rank in range(len(mine)) if rank not in without], self.ob.me)

    def Range_incl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Return the group of the ranks in ranges (first, last, stride), the last included.

        Raises MPI.Exception: ERR_ARG where a stride is 0 or leads away from the last rank, ERR_RANK as `Incl` does.
        """
        self._members()
        return self.Incl(_ranges(ranks))

    def Range_excl(self, ranks: Sequence[tuple[int, int, int]]) -> Self:
        """Return the group without the ranks in ranges (first, last, stride). Raises as `Range_incl` does."""
        self._members()
        return self.Excl(_ranges(ranks))

    @classmethod
    def Create_from_session_pset(cls, session: Any, pset_name: str) -> Self:
        """Return the group of a session's process set. Raises as `Session.Create_group` does."""
        return cls.of(session.Create_group(pset_name).ob)

    def Free(self) -> None:
        """Free the group: this handle becomes null."""
        self._members()
        self._forget()

    def _checked(self, rank: int) -> int:
        if not 0 <= rank < len(self.ob.ranks):
            raise Exception(ERR_RANK, f"no rank {rank} in a group of {len(self.ob.ranks)}")
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
            raise Exception(ERR_ARG, f"no range of ranks leads from {first} to {last} by {stride}")
        found.extend(range(first, last + (1 if stride > 0 else -1), stride))
    return found


def _world() -> Group:
    home = current()
    return Group.of(GroupRecord(range(home.size), home.rank))


GROUP_NULL = Group.named(_null, "GROUP_NULL")
GROUP_EMPTY = Group.named(GroupRecord((), -1), "GROUP_EMPTY")
