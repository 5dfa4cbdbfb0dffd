"""How the members of a communicator form a window, and which kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from ..communicators import creation
from ..communicators.errhandler import ERRORS_RETURN
from ..constants import (
    ERR_COMM,
    ERR_DISP,
    ERR_RMA_SHARED,
    ERR_SIZE,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
)
from ..datatypes._memory import buffer
from .created import CreatedWindow
from .far import Own
from .mapped import MappedWindow
from .near import Near, meet
from .served import ServedWindow
from .sharing import open_to_all, share
from .window_record import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


SHARING = "alloc_shm"


def form(
    communicator: Any, flavor: int, memory: buffer | None, size: int, unit: int, hints: Mapping[str, str]
) -> Window:
    """Returns the window of this member. All members call it.

    `memory`: the program's own, where there is any; else `size` bytes are allocated. Raises MPI.Exception: ERR_COMM,
    ERR_SIZE, ERR_DISP, and ERR_RMA_SHARED where the members cannot share memory.
    """
    communicator.alive()
    if communicator.inter:
        raise communicator.fail(ERR_COMM, f"{communicator.title} is an intercommunicator: merge it first")
    if size < 0:
        raise communicator.fail(ERR_SIZE, f"a window of {size} bytes: its size is 0 or more")
    if unit < 1:
        raise communicator.fail(ERR_DISP, f"a displacement unit of {unit} bytes: it is 1 or more")
    if flavor == WIN_FLAVOR_SHARED or (flavor == WIN_FLAVOR_ALLOCATE and hints.get(SHARING) != "false"):
        shared = share(communicator, flavor, size, unit)
        if shared is not None:
            return MappedWindow(communicator, flavor, shared)
    if memory is None and flavor == WIN_FLAVOR_DYNAMIC:
        memory = buffer()
    if memory is not None and hints.get(SHARING) != "false":
        opened = open_to_all(communicator, flavor, memory, unit)
        if opened is not None:
            return CreatedWindow(communicator, flavor, memory, opened)
    if flavor == WIN_FLAVOR_SHARED and communicator.size > 1:
        _refuse_shared(communicator)
    duplicate = creation.duplicate(communicator)
    duplicate.errhandler = ERRORS_RETURN.ob  # the window's is told
    communicator.world.revocations.heed(communicator.context, duplicate)
    near = None
    if hints.get(SHARING) != "false" and flavor != WIN_FLAVOR_DYNAMIC and len(set(communicator.hosts)) > 1:
        near = _meet_near(duplicate, flavor, memory, size, unit)
    if memory is None:
        memory = buffer.allocate(size, True) if near is None else near.memory
    # they share memory for their fences from now on: once a member has died, that cannot be formed
    size = 0 if flavor == WIN_FLAVOR_DYNAMIC else memory.nbytes
    own = Own(duplicate.engine, memory, size != 0 and communicator.size > 1)
    try:
        given = duplicate.object_calls.integers(size, unit, *own.place)
    except BaseException:
        own.leave_open()  # another member may have heard of it
        raise
    places = list(zip(given[2::4], given[3::4], strict=True))
    return ServedWindow(duplicate, flavor, memory, given[::4], given[1::4], near, own, places)


def _meet_near(communicator: Any, flavor: int, memory: buffer | None, size: int, unit: int) -> Near | None:
    """Returns how the members on this host reach each other. All members of all hosts call it."""
    hosts = communicator.hosts
    here = hosts[communicator.rank]
    near = creation.split(communicator, hosts.index(here), 0)
    ranks = [rank for rank, host in enumerate(hosts) if host == here]
    return meet(near, ranks, flavor, memory, size, unit)


def _refuse_shared(communicator: Any) -> NoReturn:
    raise communicator.fail(
        ERR_RMA_SHARED,
        f"the {communicator.size} ranks of {communicator.title} cannot share memory: use Win.Allocate, Put and Get",
    )
