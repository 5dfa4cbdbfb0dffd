"""A collective primitive: its algorithms by name, and which of them suit a call."""

from __future__ import annotations

from itertools import chain

from .exchange import MESSAGES
from .table import TABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from .exchange import Exchange
    from .protocols import Combine

    Function = TypeVar("Function", bound=Callable[..., Any])
    Needs = Callable[[Exchange, Combine | None], str | None]


def team(exchange: Exchange, combine: Combine | None) -> str | None:
    """Why this call cannot go through shared memory; None where it can."""
    if exchange.team is None:
        return "its ranks share no memory, or the call does not block"
    if combine is not None and combine.kernel is None:
        return "the native kernels do not know this operation on this type"
    return None


def hierarchy(exchange: Exchange, combine: Combine | None) -> str | None:
    """Why this call cannot go in two levels; None where it can."""
    if exchange.hierarchy is None:
        return "no host has two of its ranks while another has some too"
    if combine is not None and not combine.commutative and not exchange.hierarchy.in_order:
        return "the operation does not commute, and the hosts hold no runs of neighbouring ranks"
    return None


def hierarchy_in_order(exchange: Exchange, combine: Combine | None) -> str | None:
    """Why this call cannot go in two levels of neighbouring ranks; None where it can."""
    if exchange.hierarchy is not None and not exchange.hierarchy.in_order:
        return "the hosts hold no runs of neighbouring ranks"
    return hierarchy(exchange, combine)


PRIMITIVES: dict[str, Primitive] = {}  # by name: those that were imported


class Primitive:
    """A collective primitive and its algorithms."""

    __slots__ = ("_chosen", "_needs", "algorithms", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        PRIMITIVES[name] = self
        self.algorithms: dict[str, Callable[..., Any]] = {}
        self._needs: dict[str, Needs] = {}
        self._chosen: dict[tuple[Any, ...], Callable[..., Any]] = {}
        TABLE.watch(self._chosen.clear)

    def algorithm(self, needs: Needs | None = None) -> Callable[[Function], Function]:
        """Offer a generator function as an algorithm of this primitive, for calls that `needs` has nothing against."""

        def offer(function: Function) -> Function:
            self.offer(function.__name__, function, needs)
            return function

        return offer

    def offer(self, name: str, function: Callable[..., Any], needs: Needs | None = None) -> None:
        """Offer an algorithm under a name."""
        self.algorithms[name] = function
        if needs is not None:
            self._needs[name] = needs

    def against(self, name: str, exchange: Exchange, combine: Combine | None = None) -> str | None:
        """Why a call cannot use an algorithm; None where it can."""
        needs = self._needs.get(name)
        return None if needs is None else needs(exchange, combine)

    def choose(
        self, exchange: Exchange, nbytes: int, name: str | None, combine: Combine | None = None
    ) -> Callable[..., Any]:
        """The algorithm for a call: that of this name, or the selection table's."""
        if name is not None:
            return self._named(name, exchange, combine)
        kind = None if combine is None else (combine.commutative, combine.kernel is None)
        key = (nbytes, exchange.size, exchange.reach, exchange.hierarchy, kind)
        function = self._chosen.get(key)
        if function is None:
            function = self._from_table(exchange, nbytes, combine)
            if len(self._chosen) >= 4096:
                self._chosen.clear()
            self._chosen[key] = function
        return function

    def _named(self, name: str, exchange: Exchange, combine: Combine | None) -> Callable[..., Any]:
        function = self.algorithms.get(name)
        if function is None:
            raise ValueError(f"{self.name} has no algorithm {name!r}; it has {', '.join(self.algorithms)}")
        reason = self.against(name, exchange, combine)
        if reason is not None:
            raise ValueError(f"{self.name} cannot use the algorithm {name!r} here: {reason}")
        return function

    def _from_table(self, exchange: Exchange, nbytes: int, combine: Combine | None) -> Callable[..., Any]:
        reaches = dict.fromkeys((exchange.reach, MESSAGES))
        candidates = [TABLE.plan(self.name, reach, exchange.size).candidates(nbytes) for reach in reaches]
        for name in chain(*candidates, self.algorithms):
            if name not in self.algorithms:
                raise ValueError(
                    f"the selection table names {name!r} for {self.name}, which has {', '.join(self.algorithms)}"
                )
            if self.against(name, exchange, combine) is None:
                return self.algorithms[name]
        raise AssertionError(f"{self.name} has no algorithm for every call")
