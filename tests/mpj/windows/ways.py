"""The ways that windows of Allocate go: through memory that the ranks share, or by messages; on each device."""

from __future__ import annotations

from .. import ranks

MESSAGES = " by messages"
PROCESSES = ["iodev", "sysvdev", f"iodev{MESSAGES}"]
DEVICES = [*PROCESSES, "smpdev", f"smpdev{MESSAGES}"]
BY_MESSAGES = """
def _by_messages(size, disp_unit=1, info=None, comm=None, allocate=MPI.Win.Allocate):
    return allocate(size, disp_unit, MPI.Info.Create({"alloc_shm": "false"}), comm)

MPI.Win.Allocate = _by_messages
"""


def run(function, size, way="iodev", status=0, before=""):
    """As ranks.run(), for a window that goes this way."""
    device = way.removesuffix(MESSAGES)
    return ranks.run(function, size, device, status, (BY_MESSAGES if device != way else "") + before)
