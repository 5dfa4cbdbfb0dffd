"""What a communicator has in the place of calls that it has not got."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Declining:
    """Stands for an object with a call for each collective, where that does none of them."""

    def __init__(self, answer: bool | None) -> None:
        self._answer = answer

    def _declined(self, *arguments: Any) -> bool | None:
        return self._answer

    barrier = bcast = gather = gatherv = scatter = scatterv = allgather = allgatherv = _declined
    alltoall = alltoallv = alltoallw = reduce = allreduce = reduce_scatter = reduce_scatter_block = _declined
    scan = exscan = _declined


NO_TEAM = _Declining(False)  # for TeamCalls or MessageCalls: neither suits, or members have not called yet
NO_START = _Declining(None)  # for StartCalls: messages go between two groups
