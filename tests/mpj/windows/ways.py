"""The ways that windows go, on each device: in memory that ranks map, in each other's processes, by messages."""

from __future__ import annotations

from .. import ranks

MESSAGES = " by messages"
OWN = " of own memory"
PROCESSES = ["iodev", "sysvdev", f"iodev{OWN}", f"iodev{MESSAGES}"]
DEVICES = [*PROCESSES, "smpdev", f"smpdev{OWN}", f"smpdev{MESSAGES}"]
BY_MESSAGES = """
def _hinted(info):
    hints = info.Dup() if info else MPI.Info.Create()
    hints.Set("alloc_shm", "false")
    return hints

def _by_messages(size, disp_unit=1, info=None, comm=None, allocate=MPI.Win.Allocate):
    return allocate(size, disp_unit, _hinted(info), comm)

def _created_by_messages(memory, disp_unit=1, info=None, comm=None, create=MPI.Win.Create):
    return create(memory, disp_unit, _hinted(info), comm)

def _dynamic_by_messages(info=None, comm=None, create=MPI.Win.Create_dynamic):
    return create(_hinted(info), comm)

MPI.Win.Allocate, MPI.Win.Create, MPI.Win.Create_dynamic = _by_messages, _created_by_messages, _dynamic_by_messages
"""
OF_OWN_MEMORY = """
def _of_own_memory(size, disp_unit=1, info=None, comm=None):
    return MPI.Win.Create(np.zeros(size, "u1"), disp_unit, comm=comm)

MPI.Win.Allocate = _of_own_memory
"""


def device_of(way):
    """The device of a way."""
    return way.removesuffix(MESSAGES).removesuffix(OWN)


def before(way):
    """What makes Allocate make a window that goes this way."""
    return BY_MESSAGES if way.endswith(MESSAGES) else OF_OWN_MEMORY if way.endswith(OWN) else ""


def run(function, size, way="iodev", status=0, before_it="", **more):
    """As ranks.run(), for a window that goes this way."""
    return ranks.run(function, size, device_of(way), status, before(way) + before_it, **more)
