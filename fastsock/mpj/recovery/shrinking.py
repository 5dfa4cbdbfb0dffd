"""A communicator of the members that live."""

from __future__ import annotations

from ..constants import ERR_COMM, ERR_PROC_FAILED
from ..exceptions import Exception as MPIException
from . import consensus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .agreement import State


class Shrunk:
    """The agreement by which it is made: each member gives a number, and that of the first who lives is taken."""

    def __init__(self, communicator: Any) -> None:
        communicator.opened()
        self._communicator = communicator
        self._number: int = communicator.world.numbers.take()
        self._made: Any = None
        self._error: BaseException | None = None
        self.members = consensus.Members(communicator)
        self.state = consensus.own_state(communicator, self.members, -1, self._number)

    @property
    def placeholder(self) -> Any:
        """What stands for the record until it is there: it answers every question with ERR_COMM."""
        return type(self._communicator).not_there()

    def take(self, decision: State) -> None:
        """The members have agreed."""
        communicator, failed = self._communicator, set(self.members.named(decision.failed))
        given = zip(self.members.ranks, decision.numbers, strict=True)
        number = next(number for rank, number in given if rank not in failed)
        if number != self._number:
            communicator.world.numbers.give_back(self._number)
        ranks = [rank for rank in communicator.ranks if rank not in failed]
        peers = [rank for rank in communicator.peers if rank not in failed]
        if not peers:
            self._error = MPIException(ERR_PROC_FAILED, f"nobody is left in the other group of {communicator.title}")
            return
        kind = type(communicator)
        self._made = kind(communicator.world, number, ranks, *([peers] if communicator.inter else []))

    def made(self) -> Any:
        """Returns the record. Raises what kept it from being made."""
        if self._error is not None:
            raise self._communicator.failed(self._error)
        if self._made is None:
            raise self._communicator.fail(ERR_COMM, "the communicator is not there yet")
        return self._made
