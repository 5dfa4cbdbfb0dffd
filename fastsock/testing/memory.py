"""Measures the peak memory of a part of a test."""

from __future__ import annotations


class PeakGrowth:
    """The peak growth of this process's resident memory from now on.

    A forked process inherits the high-water mark of its parent. The mark would hide any growth below it, so it is set
    back to the memory that is resident now (proc(5), clear_refs).
    """

    def __init__(self) -> None:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        self._before = _peak_kib()

    def kib(self) -> int:
        """KiB between the memory that was resident at the beginning and the highest point since."""
        return _peak_kib() - self._before


def _peak_kib() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
