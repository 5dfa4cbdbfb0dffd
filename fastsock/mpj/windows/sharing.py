"""How the members of a communicator come to share a window's memory, or to reach that of each other's processes."""

from __future__ import annotations

import _socket
from collections.abc import Sequence

from fastsock.core.binding._requests import MessageError
from fastsock.core.binding._system import fetch_descriptor
from fastsock.core.binding._window import Window as Control
from fastsock.core.binding._window import create_window_memory, window_table_bytes
from fastsock.system.originals import originals

from ..collectives.meeting import meet
from ..constants import WIN_FLAVOR_DYNAMIC, WIN_FLAVOR_SHARED
from ..failures import translated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastsock.core.binding._team import Team

    from ..datatypes._memory import buffer

_LINE = 128  # parts begin at lines of the processor, so that members do not disturb each other
_OPEN, _UNFETCHED, _FAILED = 2, 1, 0


class Shared:
    """Memory that all members share. `offsets`, `sizes`, `units`: of the parts in it, by member."""

    __slots__ = ("control", "offsets", "sizes", "units")

    def __init__(self, control: Control, offsets: list[int], sizes: list[int], units: list[int]) -> None:
        self.control = control
        self.offsets = offsets
        self.sizes = sizes
        self.units = units


def share(communicator: Any, flavor: int, size: int, unit: int) -> Shared | None:
    """Returns the memory of a window; None where the members cannot share it. All members call it, and get the same.

    Parts follow each other in the order of the members, those of Allocate_shared without gaps.
    """
    calls = communicator.object_calls
    team = communicator.members.team
    if team is None:
        return None
    given = calls.integers(size, unit)
    sizes, units = given[::2], given[1::2]
    offsets, total = _lay_out(sizes, 1 if flavor == WIN_FLAVOR_SHARED else _LINE)
    control = _share_quickly(communicator, calls, team, total)
    return None if control is None else Shared(control, offsets, sizes, units)


class Opened:
    """Memory of the members' own processes, which all of them reach. `addresses`, `sizes`, `units`: by member."""

    __slots__ = ("addresses", "control", "sizes", "units")

    def __init__(self, control: Control, addresses: list[int], sizes: list[int], units: list[int]) -> None:
        self.control = control
        self.addresses = addresses
        self.sizes = sizes
        self.units = units


def open_to_all(communicator: Any, flavor: int, memory: buffer, unit: int) -> Opened | None:
    """Returns how the members reach each other's own memory; None where one cannot. All call it, and get the same."""
    calls = communicator.object_calls
    team = communicator.members.team
    if team is None:
        return None
    dynamic = flavor == WIN_FLAVOR_DYNAMIC
    given = calls.integers(0 if dynamic else memory.address, 0 if dynamic else memory.nbytes, unit)
    control = _share_quickly(communicator, calls, team, window_table_bytes(communicator.size) if dynamic else 0)
    if control is None:
        return None
    try:
        control.open_door()
        control.fence()
        met = control.meet_doors()
    except MessageError as error:
        raise translated(error, communicator) from error
    if not min(calls.integers(int(met))):
        control.shut_door()
        return None
    return Opened(control, given[::3], given[1::3], given[2::3])


def _lay_out(sizes: Sequence[int], step: int) -> tuple[list[int], int]:
    offsets, total = [], 0
    for size in sizes:
        offsets.append(total)
        total = -(-(total + size) // step) * step
    return offsets, total


def _share_quickly(communicator: Any, calls: Any, team: Team, total: int) -> Control | None:
    """Each member takes the leader's descriptor itself, where it may; else the leader hands it to all."""
    memory = _create(communicator, total) if communicator.rank == 0 else -1
    leaders = calls.integers(memory)[0]
    if leaders < 0:
        return None
    control, state = _take(communicator, team, leaders, total)
    states = calls.integers(state)
    if communicator.rank == 0:
        originals.close(memory)
    if min(states) == _OPEN:
        return control
    if min(states) == _FAILED:
        return None
    making = _Making(communicator, team, total)
    context, index = communicator.context + 1, communicator.rank
    handed: Control | None = meet(communicator.engine, context, communicator.ranks, index, making)
    return handed


def _create(communicator: Any, total: int) -> int:
    try:
        memory: int = create_window_memory(communicator.size, total, communicator.world.job.crowded)
    except OSError:
        return -1
    return memory


def _take(communicator: Any, team: Team, leaders: int, total: int) -> tuple[Control | None, int]:
    own = leaders
    if communicator.rank != 0:
        try:
            own = fetch_descriptor(team.watches[0], leaders)
        except OSError:
            return None, _UNFETCHED
    try:
        return Control(communicator.engine, own, team, total, team.threads), _OPEN
    except OSError:
        return None, _FAILED
    finally:
        if communicator.rank != 0:
            originals.close(own)


class _Making:
    """The memory of a window as what a leader hands over."""

    def __init__(self, communicator: Any, team: Team, total: int) -> None:
        self.communicator = communicator
        self.team = team
        self.total = total

    def count(self, size: int) -> int:
        return 1

    def make(self, streams: dict[int, _socket.socket], size: int) -> list[int]:
        return [create_window_memory(size, self.total, self.communicator.world.job.crowded)]

    def open(
        self, descriptors: list[int], ranks: Sequence[int], index: int, identities: bytes, threads: bool
    ) -> Control | None:
        try:
            return Control(self.communicator.engine, descriptors[0], self.team, self.total, self.team.threads)
        except OSError:
            return None
        finally:
            originals.close(descriptors[0])
