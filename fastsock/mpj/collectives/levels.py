"""The ranks of a communicator by host: who is with whom, and who speaks for each host."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple


class Levels(NamedTuple):
    """Ranks on several hosts, at least two of them on one."""

    groups: tuple[tuple[int, ...], ...]
    """The ranks of each host, ascending; the hosts in the order of their first ranks."""
    mine: int
    """The index of this rank's host."""
    in_order: bool
    """Each host holds a run of ranks, so that a partial result of a host is one of neighbouring ranks."""
    home: tuple[int, ...]
    """The index of each rank's host."""

    @staticmethod
    def of(rank: int, hosts: Sequence[Hashable]) -> Levels | None:
        """The levels of ranks on these hosts; None where one level is all there is."""
        found = _by_host(tuple(hosts))
        return None if found is None else Levels(found[0], found[2][rank], found[1], found[2])

    @property
    def local(self) -> tuple[int, ...]:
        """The ranks of this rank's host."""
        return self.groups[self.mine]

    def leaders(self, root: int = -1) -> tuple[int, ...]:
        """One rank of each host that speaks for it: its first, but the root for its own host."""
        return tuple(root if root in group else group[0] for group in self.groups)


@lru_cache(256)
def _by_host(hosts: tuple[Hashable, ...]) -> tuple[tuple[tuple[int, ...], ...], bool, tuple[int, ...]] | None:
    if len(set(hosts)) in (1, len(hosts)):
        return None
    found: dict[Hashable, list[int]] = {}
    for rank, host in enumerate(hosts):
        found.setdefault(host, []).append(rank)
    groups = tuple(tuple(ranks) for ranks in found.values())
    in_order = all(ranks[-1] - ranks[0] == len(ranks) - 1 for ranks in groups)
    index = {host: place for place, host in enumerate(found)}
    return groups, in_order, tuple(index[host] for host in hosts)
