"""One collective call, its arguments ready: it blocks, goes on by itself, or is started again and again."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from fastsock.core.binding._requests import MessageError

from ..constants import PROC_NULL, ROOT
from ..messages.operation_records import Collective, Operation, Persistent
from . import schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .exchange import Exchange
    from .protocols import Prepared

_PACKAGE = f"{__package__}."


class Call:
    """One collective operation on one communicator."""

    __slots__ = ("communicator", "name", "prepare")

    def __init__(self, communicator: Any, name: str, prepare: Callable[[], Prepared]) -> None:
        self.communicator = communicator
        self.name = name
        self.prepare = prepare

    def run(self) -> None:
        """Does it, and returns when this rank's part is done."""
        communicator = self.communicator
        arguments, land = self.prepare()
        try:
            if communicator.inter:
                _between(self.name).run(communicator.remote.exchange(), *arguments)
            else:
                _among(self.name).run(communicator.exchange(), *arguments)
        except MessageError as error:
            raise communicator.failed(error) from error
        if land is not None:
            land()

    def start(self) -> Operation:
        """Starts it."""
        communicator = self.communicator
        arguments, land = self.prepare()
        try:
            if communicator.inter:
                request = _between(self.name).start(communicator.remote.exchange(blocking=False), *arguments)
            else:
                request = _among(self.name).start(communicator.members.exchange(blocking=False), *arguments)
        except MessageError as error:
            raise communicator.failed(error) from error
        return Collective(
            communicator, request, receives=False, owner=(self, arguments), land=land and (lambda _: land())
        )

    def schedule(self, exchange: Exchange, memory: list[memoryview]) -> Any:
        """The schedule that the engine follows for it, None where there is none; its memory is added to `memory`."""
        arguments, land = self.prepare()
        return None if land is not None else schedule.find(exchange, _among(self.name).steps, arguments, memory)

    def persistent(self) -> Persistent:
        """Makes it startable again and again."""
        return Persistent(self.start)


_primitives: dict[str, Any] = {}


def _among(name: str) -> Any:
    """Returns the primitive of that name."""
    found = _primitives.get(name)
    if found is None:
        module = name.rstrip("vw") if name.startswith("neighbour_") else name
        _primitives[name] = found = import_module(_PACKAGE + module)
    return found


def _between(name: str) -> Any:
    """Returns the primitive of that name over an intercommunicator; there the `v` and `w` forms are the same."""
    plain = name if name == "reduce" else name.rstrip("vw")
    return getattr(import_module(_PACKAGE + "intercommunicator"), plain.removesuffix("_block"))


def check_root(communicator: Any, root: int) -> None:
    """Refuses a rank that cannot be the root. Raises MPI.Exception (ERR_ROOT)."""
    if not communicator.inter:
        communicator.root(root, communicator.size)
    elif root not in (ROOT, PROC_NULL):
        communicator.root(root, len(communicator.peers))


def is_root(communicator: Any, root: int) -> bool:
    """Whether this rank is the root (of an intercommunicator too)."""
    if communicator.inter:
        return root == ROOT
    return bool(root == communicator.rank)
