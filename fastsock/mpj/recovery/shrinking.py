"""A communicator of the members that live."""

from __future__ import annotations

from ..constants import ERR_COMM, ERR_OTHER, ERR_PROC_FAILED
from ..exceptions import Exception as MPIException
from . import agreement, consensus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

_TRIES = 8  # of numbers that come at random, until all have one free


class Shrunk:
    """The agreement by which it is made: each member gives a number, and that of the first who lives is taken.

    Where members belong to several jobs these numbers are proposals, and all agree whether they have that one free.
    """

    def __init__(self, communicator: Any) -> None:
        communicator.opened()
        self._communicator = communicator
        world = communicator.world
        self._numbers: Any = world.numbers
        self._number: int = world.proposed_number() if communicator.mixed else self._numbers.take()
        self._made: Any = None
        self._error: BaseException | None = None
        self._members = consensus.Members(communicator)
        self._rounds = consensus.Rounds(communicator, self._members)

    @property
    def placeholder(self) -> Any:
        """What stands for the record until it is there: it answers every question with ERR_COMM."""
        return type(self._communicator).not_there()

    def steps(self) -> Generator[Any, None, None]:
        """As agreement.steps(). Behind them the communicator is made."""
        state = consensus.own_state(self._communicator, self._members, -1, self._number)
        if not self._communicator.mixed:
            decision = yield from agreement.steps(self._rounds, state)
            number = self._chosen(decision)
            if number != self._number:
                self._numbers.give_back(self._number)
            self._make(number, decision.failed)
            return
        for number_of_try in range(_TRIES):
            decision = yield from agreement.steps(self._rounds.part(2 * number_of_try), state)
            number = self._chosen(decision)
            claimed = self._numbers.claim(number)
            try:
                state = decision.with_flags(int(claimed))
                decision = yield from agreement.steps(self._rounds.part(2 * number_of_try + 1), state)
            except BaseException:
                self._give_up(number, claimed)
                raise
            if decision.flags == 1:
                self._make(number, decision.failed)
                return
            self._give_up(number, claimed)
            another = self._communicator.world.proposed_number()
            state = consensus.own_state(self._communicator, self._members, -1, another)
        raise MPIException(ERR_OTHER, "the members find no number that all of them have free")

    def made(self) -> Any:
        """Returns the record. Raises what kept it from being made."""
        if self._error is not None:
            raise self._communicator.failed(self._error)
        if self._made is None:
            raise self._communicator.fail(ERR_COMM, "the communicator is not there yet")
        return self._made

    def _chosen(self, decision: agreement.State) -> int:
        failed = set(self._members.named(decision.failed))
        given = zip(self._members.ranks, decision.numbers, strict=True)
        return next(number for rank, number in given if rank not in failed)

    def _give_up(self, number: int, claimed: bool) -> None:
        if claimed:
            self._numbers.free(number)

    def _make(self, number: int, failed_members: int) -> None:
        communicator, failed = self._communicator, set(self._members.named(failed_members))
        ranks = [rank for rank in communicator.ranks if rank not in failed]
        peers = [rank for rank in communicator.peers if rank not in failed]
        if not peers:
            self._numbers.free(number)
            self._error = MPIException(ERR_PROC_FAILED, f"nobody is left in the other group of {communicator.title}")
            return
        kind = type(communicator)
        self._made = kind(communicator.world, number, ranks, *([peers] if communicator.inter else []))
