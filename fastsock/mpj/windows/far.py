"""Memory that RDMA devices reach: the origin's writes and reads the target's, and the target does nothing.

A write is in the target's memory for certain once something that follows it on the same queue pair is there: its own
completion says no more than that the other device has it. So a flush reads a byte behind the writes. A message of the
same origin follows them too: what it asks of the target comes after them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..datatypes._memory import buffer
from ..datatypes.datatype import BYTE, Datatype
from ._reaching import reach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .target import Place

NOWHERE = (0, 0)
"""The address and key of memory that no device reaches."""

_left_open: list[Any] = []
"""What others may still write to: a member died before all could say that they do not."""


class Own:
    """This member's memory, as long as devices of the others reach it: `place` is its address and key."""

    def __init__(self, engine: Any, memory: buffer, opens: bool) -> None:
        self._engine = engine
        self._kept: Any = (memory, memory.obj)
        key = engine.expose(memory.address, memory.nbytes) if opens and memory.nbytes else None
        self.place: tuple[int, int] = NOWHERE if key is None else (memory.address, key)

    def close(self) -> None:
        """Closes it: nobody reaches for it any more."""
        if self.place != NOWHERE:
            self._engine.conceal(self.place[1])
        self.place, self._kept = NOWHERE, None

    def leave_open(self) -> None:
        """Keeps it as it is to the end: a write that found it closed would end a connection between living ranks."""
        if self.place != NOWHERE:
            _left_open.append(self._kept)


class Far:
    """The members' memory that this rank's device reaches. `places`: addresses and keys, by member."""

    def __init__(self, communicator: Any, places: Sequence[tuple[int, int]]) -> None:
        self._engine = communicator.engine
        self._context: int = communicator.context
        self._peers = communicator.ranks
        self._places = {rank: place for rank, place in enumerate(places) if place != NOWHERE}

    def write(self, rank: int, offset: int, place: Place, data: Any) -> Any:
        """Starts to write data over items. Returns the engine's request; None where it is to be a message."""
        return self._reach(rank, offset, place.datatype, data, True)

    def read(self, rank: int, offset: int, place: Place, room: Any) -> Any:
        """Starts to read items into memory, in the same way."""
        return self._reach(rank, offset, place.datatype, room, False)

    def read_back(self, rank: int, room: Any) -> Any:
        """Starts to read something, whatever it is."""
        return self._reach(rank, 0, BYTE, room, False)

    def _reach(self, rank: int, offset: int, datatype: Datatype, data: Any, writes: bool) -> Any:
        place = self._places.get(rank)
        if place is None:
            return None
        address, key = place
        return reach(
            self._engine, data, self._peers[rank], self._context, address + offset, key, datatype._type(), writes
        )
