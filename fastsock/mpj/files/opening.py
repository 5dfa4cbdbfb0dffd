"""How the members of a communicator open a file together."""

from __future__ import annotations

import os
from stat import S_ISDIR, S_ISREG

from ..communicators.communicator_record import Communicator
from ..constants import (
    ERR_AMODE,
    ERR_BAD_FILE,
    ERR_COMM,
    ERR_NOT_SAME,
    MODE_APPEND,
    MODE_CREATE,
    MODE_EXCL,
    MODE_RDONLY,
    MODE_RDWR,
    MODE_SEQUENTIAL,
    MODE_WRONLY,
)
from ..exceptions import Exception as MPIException
from .open_file import COLLECTIVE_BUFFERING, OpenFile, wants_two_phases
from .pointers import ALONE, OwnPointer, SlotPointer, WindowPointer, choose, give_back
from .system_errors import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLAGS = {MODE_RDONLY: os.O_RDONLY, MODE_WRONLY: os.O_WRONLY, MODE_RDWR: os.O_RDWR}
_PERMISSION = "file_perm"


def open_file(communicator: Any, filename: Any, amode: int, hints: dict[str, str]) -> OpenFile:
    """Returns the file of this member. All members call it; where one cannot open the file, none does.

    Raises MPI.Exception: ERR_COMM, ERR_AMODE, ERR_NOT_SAME, and as the system refuses it.
    """
    communicator.alive()
    name = os.fsdecode(filename)
    if communicator.inter:
        raise MPIException(ERR_COMM, f"{communicator.title} is an intercommunicator: merge it first")
    if communicator.size == 1:
        _check_mode(amode)
        record = OpenFile(communicator, _open(name, amode, hints), name, amode, OwnPointer())
        record.take_hints(hints)
    else:
        record = _open_together(communicator, name, amode, hints)
    if amode & MODE_APPEND:
        record.go_to_end()
    return record


def _open_together(communicator: Any, name: str, amode: int, hints: dict[str, str]) -> OpenFile:
    """In two exchanges: the first member opens the file, which it may create, and then the others do."""
    calls, numbers = communicator.object_calls, communicator.world.numbers
    slot, number, descriptor, error = choose(communicator), -1, -1, None
    if communicator.rank == 0:
        number = numbers.take()
        descriptor, error = _tried(name, amode, hints)
    given = calls.integers(amode, number, error is not None, slot)
    number, failed, slot = given[1:4]
    same = all(mode == amode for mode in given[::4])
    if communicator.rank and same and not failed:
        descriptor, error = _tried(name, amode & ~MODE_EXCL, hints)
    inode = os.fstat(descriptor).st_ino if descriptor >= 0 else 0
    given = calls.integers(0 if error is None else int(error), inode, wants_two_phases(hints))
    wrong = _wrong(communicator, name, amode, same, error, given)
    if wrong is not None:
        if descriptor >= 0:
            os.close(descriptor)
        if communicator.rank == 0:
            numbers.give_back(number)
            give_back(communicator, slot)
        raise wrong
    pointer = WindowPointer(communicator) if slot == ALONE else SlotPointer(communicator, slot)
    own = Communicator(communicator.world, number, communicator.ranks, like=communicator)
    record = OpenFile(own, descriptor, name, amode, pointer)
    record.take_hints(hints)
    return record


def _wrong(
    communicator: Any, name: str, amode: int, same: bool, error: MPIException | None, given: list[int]
) -> MPIException | None:
    """Returns why nobody has the file open; None where all have."""
    errors, inodes, choices = given[::3], given[1::3], given[2::3]
    if not same:
        return MPIException(ERR_NOT_SAME, f"file {name!r}: the ranks of {communicator.title} gave different modes")
    if any(errors):
        _check_mode(amode)
        return error or _of_another(errors, communicator, name)
    if len(set(communicator.hosts)) == 1 and len(set(inodes)) > 1:
        return MPIException(ERR_NOT_SAME, f"{name!r} is not the same file on all ranks of {communicator.title}")
    if len(set(choices)) > 1:
        return MPIException(ERR_NOT_SAME, f"file {name!r}: not all ranks give the hint {COLLECTIVE_BUFFERING}")
    return None


def _of_another(errors: list[int], communicator: Any, name: str) -> MPIException:
    rank = next(rank for rank, error in enumerate(errors) if error)
    return MPIException(errors[rank], f"file {name!r} is not open: rank {rank} of {communicator.title} cannot open it")


def _check_mode(amode: int) -> None:
    modes = amode & (MODE_RDONLY | MODE_WRONLY | MODE_RDWR)
    if modes not in _FLAGS:
        raise MPIException(ERR_AMODE, "exactly one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR is wanted")
    if modes == MODE_RDONLY and amode & (MODE_CREATE | MODE_EXCL):
        raise MPIException(ERR_AMODE, "MODE_RDONLY creates no file: leave MODE_CREATE and MODE_EXCL out")
    if modes == MODE_RDWR and amode & MODE_SEQUENTIAL:
        raise MPIException(ERR_AMODE, "MODE_SEQUENTIAL goes with MODE_RDONLY or MODE_WRONLY, not with MODE_RDWR")


def _tried(name: str, amode: int, hints: dict[str, str]) -> tuple[int, MPIException | None]:
    try:
        _check_mode(amode)
        return _open(name, amode, hints), None
    except MPIException as error:
        return -1, error


def _open(name: str, amode: int, hints: dict[str, str]) -> int:
    flags = _FLAGS[amode & (MODE_RDONLY | MODE_WRONLY | MODE_RDWR)] | os.O_CLOEXEC
    flags |= os.O_CREAT if amode & MODE_CREATE else 0
    flags |= os.O_EXCL if amode & MODE_EXCL else 0
    try:
        permission = int(hints.get(_PERMISSION, "666"), 8)
    except ValueError:
        permission = 0o666
    try:
        descriptor = os.open(name, flags, permission)
    except OSError as error:
        raise told(error.errno or 0, str(error.strerror), f"file {name!r} cannot be opened") from error
    except ValueError as error:  # a zero byte in the name
        raise MPIException(ERR_BAD_FILE, f"file {name!r} cannot be opened: {error}") from error
    kind = os.fstat(descriptor).st_mode
    if S_ISDIR(kind):
        os.close(descriptor)
        raise MPIException(ERR_BAD_FILE, f"file {name!r} cannot be opened: it is a directory")
    return _readable(descriptor) if amode & MODE_WRONLY and S_ISREG(kind) else descriptor


def _readable(descriptor: int) -> int:
    """Returns a descriptor of the same file that may be read, too, where the user may: then it can be mapped."""
    try:
        both = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return descriptor
    os.close(descriptor)
    return both


def delete(filename: Any) -> None:
    """Removes a file. Raises MPI.Exception as the system refuses it."""
    name = os.fsdecode(filename)
    try:
        os.unlink(name)
    except OSError as error:
        raise told(error.errno or 0, str(error.strerror), f"file {name!r} cannot be deleted") from error
