"""The calls of communicators for going on when members have failed."""

from __future__ import annotations

from array import array

from ..constants import ERR_PROC_FAILED
from ..exceptions import Exception as MPIException
from ..handle import Handle
from ..messages.operation_records import Collective
from ..messages.request import Request
from . import agreement, consensus
from .shrinking import Shrunk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .agreement import State

_FLAG = 4  # bytes


class Recovery(Handle):
    """Going on without members that have failed (MPI 5 draft, fault tolerance; as in mpi4py 4.1).

    A job must have been started with `--keep-going`. Where a call raises MPI.Exception of the class ERR_PROC_FAILED,
    other members may not know of the failure, and wait. `Revoke` ends that; then `Shrink` gives a communicator of
    those that live.
    """

    __slots__ = ()

    ob: Any

    def Revoke(self) -> None:
        """Revoke the communicator. One member calls it, and it returns at once.

        In all members that live, pending and later calls on it raise MPI.Exception (ERR_REVOKED): all but `Agree`,
        `Shrink`, their non-blocking forms, `Get_failed`, `Ack_failed`, `Is_revoked` and `Free`.
        """
        communicator = self.ob
        communicator.opened()
        communicator.world.revocations.revoke(communicator)

    def Is_revoked(self) -> bool:
        """Return whether the communicator is revoked, as far as this process has heard."""
        communicator = self.ob
        if communicator.mixed:
            communicator.engine.progress()  # it comes as a message
        return bool(communicator.engine.is_revoked(communicator.context))

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledge the first `num_to_ack` members of `Get_failed` (default: all); return how many are acknowledged.

        From then on receives from ANY_SOURCE no longer raise since these have failed, and `Agree` neither.
        """
        communicator = self.ob
        failures = communicator.failures()
        wanted = len(failures) if num_to_ack is None else max(0, min(num_to_ack, len(failures)))
        if wanted and failures[wanted - 1][1] > communicator.acknowledged:
            communicator.acknowledged = failures[wanted - 1][1]
            communicator.engine.acknowledge(communicator.context, communicator.acknowledged)
        return sum(failure <= communicator.acknowledged for _, failure in failures)

    def Agree(self, flag: int) -> int:
        """Return the bitwise AND of all members' flags. All members call it; of an intercommunicator, both groups.

        All that live get the same, also where members die meanwhile. Where a member has failed that not all had
        acknowledged, all raise MPI.Exception (ERR_PROC_FAILED); its attribute `flag` is what was agreed on.
        """
        communicator = self.ob
        communicator.opened()
        members = consensus.Members(communicator)
        state = consensus.own_state(communicator, members, array("i", [flag])[0])
        steps = agreement.steps(consensus.Rounds(communicator, members), state)
        decision = _agreed(communicator, consensus.agree, communicator, steps)
        error = _failure(communicator, members, decision)
        if error is not None:
            raise error
        flags: int = decision.flags
        return flags

    def Iagree(self, flag: Any) -> Request:
        """Start to agree on the bitwise AND of all members' flags: `flag` is memory of one C int, and gets the result.

        The request's completion raises as `Agree` does. Raises ValueError for memory of another size.
        """
        memory = memoryview(flag).cast("B")
        if memory.nbytes != _FLAG:
            raise ValueError(f"a flag has {_FLAG} bytes, and not {memory.nbytes}")
        communicator = self.ob
        communicator.opened()
        members = consensus.Members(communicator)
        state = consensus.own_state(communicator, members, memory.cast("i")[0])
        decisions: list[State] = []
        steps = agreement.steps(consensus.Rounds(communicator, members), state)
        request = _agreed(communicator, consensus.start, communicator, steps, decisions.append)

        def land(_: int) -> None:
            memory.cast("i")[0] = decisions[0].flags
            error = _failure(communicator, members, decisions[0])
            if error is not None:
                raise error

        return Request.of(Collective(communicator, request, receives=False, owner=memory, land=land))

    def Shrink(self) -> Any:
        """Return a communicator of the members that live, in the same order. All of these call it.

        A member that dies meanwhile may still be one of the new communicator: then its calls raise, and it is shrunk in
        its turn. Raises MPI.Exception (ERR_PROC_FAILED) where nobody is left in the other group.
        """
        shrunk = Shrunk(self.ob)
        _agreed(self.ob, consensus.agree, self.ob, shrunk.steps())
        return self._wrap(shrunk.made())  # type: ignore[attr-defined]

    def Ishrink(self) -> tuple[Any, Request]:
        """Start what `Shrink` does; the communicator is there when the request is complete."""
        communicator = self.ob
        shrunk = Shrunk(communicator)
        coming = type(self).of(shrunk.placeholder)
        request = _agreed(communicator, consensus.start, communicator, shrunk.steps(), _nothing)

        def land(_: int) -> None:
            coming.ob = shrunk.made()

        return coming, Request.of(Collective(communicator, request, receives=False, land=land))


def _nothing(_: object) -> None:
    pass


def _agreed(communicator: Any, call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except MPIException:
        raise
    except OSError as error:
        raise communicator.failed(error) from error


def _failure(communicator: Any, members: consensus.Members, decision: State) -> BaseException | None:
    """The error that all members raise alike, None where all failures are acknowledged everywhere."""
    news = members.named(decision.failed & ~decision.acknowledged)
    if not news:
        return None
    ranks = ", ".join(map(str, news))
    error = communicator.fail(ERR_PROC_FAILED, f"members have failed, and not all others had acknowledged it: {ranks}")
    error.flag = decision.flags
    return error  # type: ignore[no-any-return]
