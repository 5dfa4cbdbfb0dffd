"""Descriptors of fastsock that the program does not know. It may close every number that it finds, as daemons do.

Then the number is free, and soon it is another file's. So a number is used or closed only after a look has shown the
same file. Its owner can ask whether it is still there.
"""

from __future__ import annotations

import stat
from collections.abc import Callable

from .. import core
from .originals import originals

TYPE_CHECKING = False


def _file_of(number: int) -> tuple[int, int, bool]:
    """A file's device and inode, and whether it has a type. A descriptor of a process has none. Raises OSError."""
    status = originals.fstat(number)
    return status.st_dev, status.st_ino, bool(stat.S_IFMT(status.st_mode))


def _is_file(number: int, device: int, inode: int) -> bool:
    try:
        return _file_of(number)[:2] == (device, inode)
    except OSError:
        return False


file_of: Callable[[int], tuple[int, int, bool]] = core.file_of if core.available else _file_of
is_file: Callable[[int, int, int], bool] = core.is_file if core.available else _is_file


class OwnedDescriptor:
    """A number that is fastsock's as long as it is the same file as now."""

    __slots__ = ("_file", "_process", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        device, inode, typed = file_of(number)
        self._file = device, inode
        self._process = "" if typed else _process_of(number)

    @property
    def inode(self) -> int:
        """The inode. Native code knows the descriptor by it."""
        return self._file[1]

    def is_ours(self) -> bool:
        """Whether the number is still open on the same file, as far as device and inode tell."""
        return is_file(self.number, *self._file)

    def close(self) -> None:
        """Closes it, if it is still the same file. Idempotent."""
        number, self.number = self.number, -1
        if not is_file(number, *self._file):
            return
        if self._process:
            try:
                process = _process_of(number)
            except OSError:
                return
            if process not in (self._process, _REAPED):
                return
        originals.close(number)


_REAPED = "-1"


def _process_of(number: int) -> str:
    """The process that a descriptor stands for: up to Linux 6.8 all of these share one inode, with others even."""
    with originals.open_file(f"/proc/self/fdinfo/{number}") as file:
        return "".join(line[4:].strip() for line in file if line.startswith("Pid:"))


if core.available and not TYPE_CHECKING:
    OwnedDescriptor = core.OwnedDescriptor
