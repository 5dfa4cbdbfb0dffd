"""Which calls may be made on a window now: its epochs, as the standard orders them (MPI 4.1, section 12.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from ..constants import (
    ERR_ASSERT,
    ERR_LOCKTYPE,
    ERR_RMA_SYNC,
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
)

_FENCE = MODE_NOSTORE | MODE_NOPUT | MODE_NOPRECEDE | MODE_NOSUCCEED
_POST = MODE_NOCHECK | MODE_NOSTORE | MODE_NOPUT


class Epochs:
    """The epochs of one member. `fail` makes the exception of an error class and a text."""

    __slots__ = ("_fail", "all_locked", "fenced", "locked", "posted", "started", "used")

    def __init__(self, fail: Callable[[int, str], BaseException]) -> None:
        self._fail = fail
        self.fenced = False
        self.used = False
        """Whether there was an operation since the fence: until then it opens nothing."""
        self.started: frozenset[int] | None = None
        self.posted: frozenset[int] | None = None
        self.locked: dict[int, bool] = {}
        """Ranks whose lock is held: whether the lock was taken, or the program said that nobody else wants it."""
        self.all_locked: bool | None = None

    def _refuse(self, text: str) -> NoReturn:
        raise self._fail(ERR_RMA_SYNC, text)

    def _check_assertion(self, assertion: int, known: int) -> None:
        if assertion & ~known:
            raise self._fail(ERR_ASSERT, f"assertion {assertion} has modes that this call does not know")

    # Operations

    def access(self, rank: int) -> None:
        """Refuses an operation on the memory of a rank to which no epoch is open."""
        if rank in self.locked or self.all_locked is not None:
            return
        if self.started is not None:
            if rank not in self.started:
                self._refuse(f"rank {rank} is not in the group of Start")
        elif self.fenced:
            self.used = True
        else:
            self._refuse(f"no epoch is open to rank {rank}: call Fence, Start, Lock or Lock_all first")

    def flush(self, rank: int | None = None) -> None:
        """Refuses to flush where nothing is locked. `rank`: of which the lock is needed; None: of any."""
        if self.all_locked is None and (not self.locked if rank is None else rank not in self.locked):
            self._refuse("only between Lock and Unlock, or Lock_all and Unlock_all, there is something to flush")

    # Fence

    def fence(self, assertion: int) -> None:
        """Goes over a fence."""
        self._check_assertion(assertion, _FENCE)
        self._check_no_locks("Fence")
        self._check_no_groups("Fence")
        self.used = False
        self.fenced = not assertion & MODE_NOSUCCEED

    def _leave_fence(self, call: str) -> None:
        if self.fenced and self.used:
            self._refuse(f"the operations since the last Fence go on: call Fence before {call}")
        self.fenced = False

    def _check_no_locks(self, call: str) -> None:
        if self.locked:
            self._refuse(f"rank {next(iter(self.locked))} is locked: call Unlock before {call}")
        if self.all_locked is not None:
            self._refuse(f"all ranks are locked: call Unlock_all before {call}")

    def _check_no_groups(self, call: str) -> None:
        if self.started is not None:
            self._refuse(f"Start was called: call Complete before {call}")
        if self.posted is not None:
            self._refuse(f"Post was called: call Wait before {call}")

    # Start, Complete, Post, Wait

    def start(self, ranks: Iterable[int], assertion: int) -> None:
        """Opens access to a group."""
        self._check_assertion(assertion, MODE_NOCHECK)
        self._check_no_locks("Start")
        if self.started is not None:
            self._refuse("Start was called already: call Complete first")
        self._leave_fence("Start")
        self.started = frozenset(ranks)

    def complete(self) -> frozenset[int]:
        """Returns the group that Start opened access to."""
        if self.started is None:
            self._refuse("Complete ends what Start began: call Start first")
        return self.started

    def post(self, ranks: Iterable[int], assertion: int) -> None:
        """Opens the memory to a group."""
        self._check_assertion(assertion, _POST)
        if self.posted is not None:
            self._refuse("Post was called already: call Wait first")
        self._leave_fence("Post")
        self.posted = frozenset(ranks)

    def wait(self) -> frozenset[int]:
        """Returns the group that Post opened the memory to."""
        if self.posted is None:
            self._refuse("Wait and Test end what Post began: call Post first")
        return self.posted

    # Locks

    def lock(self, rank: int, lock_type: int, assertion: int) -> None:
        """Refuses a lock that may not be taken now."""
        if lock_type not in (LOCK_EXCLUSIVE, LOCK_SHARED):
            raise self._fail(ERR_LOCKTYPE, f"{lock_type} is no type of lock: LOCK_EXCLUSIVE and LOCK_SHARED are")
        self._check_assertion(assertion, MODE_NOCHECK)
        if rank in self.locked:
            self._refuse(f"rank {rank} is locked already: call Unlock first")
        self._open_passive("Lock")

    def lock_all(self, assertion: int) -> None:
        """Refuses to lock all where that may not be done now."""
        self._check_assertion(assertion, MODE_NOCHECK)
        if self.locked:
            self._refuse(f"rank {next(iter(self.locked))} is locked: call Unlock before Lock_all")
        self._open_passive("Lock_all")

    def _open_passive(self, call: str) -> None:
        if self.all_locked is not None:
            self._refuse(f"all ranks are locked already: call Unlock_all before {call}")
        if self.started is not None:
            self._refuse(f"Start was called: call Complete before {call}")
        self._leave_fence(call)

    def unlock(self, rank: int) -> bool:
        """Returns whether the lock of a rank was taken."""
        if rank not in self.locked:
            self._refuse(f"rank {rank} is not locked: Unlock ends what Lock began")
        return self.locked[rank]

    def unlock_all(self) -> bool:
        """Returns whether the locks of all ranks were taken."""
        if self.all_locked is None:
            self._refuse("Unlock_all ends what Lock_all began: call Lock_all first")
        return self.all_locked

    # The end

    def free(self) -> None:
        """Refuses to free a window with an open epoch. That of a fence is none."""
        self._check_no_locks("Free")
        self._check_no_groups("Free")
