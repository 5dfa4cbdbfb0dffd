"""The ranks of a communicator by host: which ranks share a host, and which rank speaks for it."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache


class Hierarchy:
    """Ranks on several hosts, at least two of them on one: the ranks of each host in ascending order, the hosts in the
    order of their first ranks; the index of this rank's host, and of each rank's.

    `in_order`: each host holds a run of ranks, so that a partial result of a host is one of neighbouring ranks.
    """

    __slots__ = ("groups", "home", "in_order", "mine")

    def __init__(self, groups: tuple[tuple[int, ...], ...], home: tuple[int, ...], mine: int) -> None:
        self.groups, self.home, self.mine = groups, home, mine
        self.in_order = all(ranks[-1] - ranks[0] == len(ranks) - 1 for ranks in groups)

    @staticmethod
    @lru_cache(256)
    def of(rank: int, hosts: tuple[Hashable, ...]) -> Hierarchy | None:
        """The hierarchy of ranks on these hosts; None where one level is all there is."""
        if len(set(hosts)) in (1, len(hosts)):
            return None
        found: dict[Hashable, list[int]] = {}
        for member, host in enumerate(hosts):
            found.setdefault(host, []).append(member)
        index = {host: place for place, host in enumerate(found)}
        home = tuple([index[host] for host in hosts])
        return Hierarchy(tuple([tuple(ranks) for ranks in found.values()]), home, home[rank])

    @property
    def local(self) -> tuple[int, ...]:
        """The ranks of this rank's host."""
        return self.groups[self.mine]

    def leaders(self, root: int = -1) -> tuple[int, ...]:
        """One rank of each host that speaks for it: its first, but the root for its own host."""
        return tuple(root if root in group else group[0] for group in self.groups)
