"""How much memory a stretch of a test took at its highest point."""

from __future__ import annotations


class PeakGrowth:
    """The growth of this process's resident memory from now on.

    A forked process inherits the high-water mark of its parent, which would hide any growth below it: the mark is
    set back to what is resident now (proc(5), clear_refs).
    """

    def __init__(self) -> None:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self._before = _peak_kib()

    def kib(self) -> int:
        """KiB by which the highest point since exceeds what was resident at the beginning."""
        return _peak_kib() - self._before


def _peak_kib() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
