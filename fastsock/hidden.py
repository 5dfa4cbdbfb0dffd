"""Descriptors of ours that the program knows nothing of. It may close every number that it finds, as daemons do.

Then the number is free, and soon somebody else's. So none is used or closed before it was seen to be the same file
still, and who needs it can tell that it is gone.
"""

from __future__ import annotations

import stat

from .genuine import genuine


class Hidden:
    """A number that is ours as long as it is the same file as now."""

    __slots__ = ("_file", "_process", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        status = genuine.fstat(number)
        self._file = status.st_dev, status.st_ino
        self._process = _process_of(number, status.st_mode)

    @property
    def inode(self) -> int:
        """By which native code knows it."""
        return self._file[1]

    def is_ours(self) -> bool:
        """Whether it is open still, and as far as its inode tells nobody else's."""
        try:
            status = genuine.fstat(self.number)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._file

    def close(self) -> None:
        """Closes it, if it is ours still. Idempotent."""
        number, self.number = self.number, -1
        try:
            status = genuine.fstat(number)
            process = _process_of(number, status.st_mode)
        except OSError:
            return
        if (status.st_dev, status.st_ino) == self._file and process in (self._process, _REAPED):
            genuine.close(number)


_REAPED = "-1"


def _process_of(number: int, mode: int) -> str:
    """The process that a descriptor stands for: up to Linux 6.8 all of these share one inode, with others even."""
    if stat.S_IFMT(mode):
        return ""
    with genuine.open_file(f"/proc/self/fdinfo/{number}") as file:
        return "".join(line[4:].strip() for line in file if line.startswith("Pid:"))
