"""How the members that live agree, although members die in the middle of it: flooding that ends early.

In each round a member tells all others what it knows, and hears from each, or that it has failed. What it knows is a
state that only moves one way: flags by AND, who has failed by OR, and so on. Where all that came is the same as what
it has told, nobody who lives can come to know anything else. So that is the decision; else it goes on with all that
it has heard.

Who has decided tells so in the place of the next round's state, to all that have not, and is done. Those may hear it,
or that this member failed, and not the one here and the other there: a member that took part in the decision knows of
nobody that has failed in between. tests/model/agreement.pml has it, with the mistakes that it would not survive.

So two rounds are enough where nobody fails, and one where all begin with the same. Each member that dies costs two at
most.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Generator, Iterable, Sequence

from fastsock.core.binding._requests import PEER_FAILED, PROTOCOL

from ..constants import ERR_OTHER, ERR_PROC_FAILED
from ..exceptions import Exception as MPIException

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Rounds(Protocol):
        """The messages of one agreement, with a round's number each."""

        size: int
        own: int

        def send(self, data: bytes, member: int, number: int) -> Any:
            """Starts to send."""

        def receive(self, member: int, number: int) -> Any:
            """Starts to receive: the request's `payload`."""


_PROPOSAL, _DECISION = 0, 1
_HEAD = struct.Struct("<BiI")  # kind, flags, bytes of a set of members


class State:
    """What a member knows. Sets of members are the bits of a number; `numbers`: one that each gives, -1 unknown."""

    __slots__ = ("acknowledged", "failed", "flags", "numbers")

    def __init__(self, flags: int, acknowledged: int, failed: int, numbers: Sequence[int] = ()) -> None:
        self.flags = flags
        self.acknowledged = acknowledged
        self.failed = failed
        self.numbers = array("i", numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.packed(_PROPOSAL, 0) == other.packed(_PROPOSAL, 0)

    __hash__ = None  # type: ignore[assignment]

    def with_all_of(self, other: State) -> State:
        """What one knows who knows both."""
        return State(
            self.flags & other.flags,
            self.acknowledged & other.acknowledged,
            self.failed | other.failed,
            list(map(max, self.numbers, other.numbers)),
        )

    def with_flags(self, flags: int) -> State:
        """The same with other flags."""
        return State(flags, self.acknowledged, self.failed, self.numbers)

    def without(self, member: int) -> State:
        """What one knows who hears that a member has failed."""
        return State(self.flags, self.acknowledged, self.failed | 1 << member, self.numbers)

    def packed(self, kind: int, size: int) -> bytes:
        """As it travels, of so many members."""
        width = (max(size, self.acknowledged.bit_length(), self.failed.bit_length()) + 7) // 8
        sets = self.acknowledged.to_bytes(width, "little") + self.failed.to_bytes(width, "little")
        return _HEAD.pack(kind, self.flags, width) + sets + self.numbers.tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> tuple[int, State]:
        """The kind of message, and what it says."""
        kind, flags, width = _HEAD.unpack_from(data)
        sets, end = _HEAD.size, _HEAD.size + 2 * width
        acknowledged, failed = data[sets : sets + width], data[sets + width : end]
        numbers = array("i", data[end:])
        return kind, cls(flags, int.from_bytes(acknowledged, "little"), int.from_bytes(failed, "little"), numbers)


def steps(rounds: Rounds, state: State) -> Generator[Sequence[Any], None, State]:
    """The text of one member. Yields requests that must be complete, well or not; returns the decision, a State.

    Raises MPI.Exception (ERR_PROC_FAILED) where the others have given this member up.
    """
    number, decision = 0, None
    while decision is None:
        if state.failed >> rounds.own & 1:
            raise MPIException(ERR_PROC_FAILED, "the other members have given this rank up")
        others = [member for member in range(rounds.size) if member != rounds.own and not state.failed >> member & 1]
        _send_all(rounds, others, number, state.packed(_PROPOSAL, rounds.size))
        coming = [rounds.receive(member, number) for member in others]
        yield coming
        proposals: dict[int, State] = {}
        known = state
        for member, request in zip(others, coming, strict=True):
            if _has_failed(request):
                known = known.without(member)
                continue
            kind, theirs = State.unpacked(bytes(request.payload))
            if len(theirs.numbers) != len(state.numbers):
                raise MPIException(ERR_OTHER, "some members have called Agree here, and others Shrink")
            if kind == _DECISION:
                decision = theirs
            else:
                proposals[member] = theirs
                known = known.with_all_of(theirs)
        if known == state and len(proposals) == len(others) and all(theirs == state for theirs in proposals.values()):
            decision = state
        state, number = known, number + 1
    undecided = list(proposals)
    _send_all(rounds, undecided, number, decision.packed(_DECISION, rounds.size))
    for member in undecided:
        rounds.receive(member, number)  # what it says in that round; nobody looks at it
    return decision


def _send_all(rounds: Rounds, members: Iterable[int], number: int, data: bytes) -> None:
    for member in members:
        rounds.send(data, member, number)


def _has_failed(request: Any) -> bool:
    """Whether a receive ended since its sender failed, or has left. Raises any other error."""
    error = request.error
    if error is None:
        return False
    if getattr(error, "code", None) not in (PEER_FAILED, PROTOCOL):
        raise error
    return True
