"""The records that File handles refer to: what the calls on an open file do."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from fcntl import F_GETFL, fcntl

from fastsock.core.binding._requests import MessageError
from fastsock.system.forkable import new_lock
from fastsock.system.originals import originals

from ..communicators.errhandler import ERRORS_RETURN
from ..constants import (
    DISPLACEMENT_CURRENT,
    ERR_ACCESS,
    ERR_ARG,
    ERR_FILE,
    ERR_NOT_SAME,
    ERR_OTHER,
    ERR_READ_ONLY,
    ERR_UNSUPPORTED_OPERATION,
    MODE_DELETE_ON_CLOSE,
    MODE_RDONLY,
    MODE_SEQUENTIAL,
    MODE_WRONLY,
    SEEK_CUR,
    SEEK_END,
    SEEK_SET,
)
from ..exceptions import Exception as MPIException
from ..failures import translated
from ..handle import Record
from . import two_phases
from ._direct import Direct
from ._transfer import ALONE, CLAIMS, LOCKED, READS, SHARED, UNLOCK, file_system, forget_claims, lock
from .background import Access, Background
from .calls import EXPLICIT, INDIVIDUAL, JOINT, ORDERED
from .system_errors import told
from .view import View, whole_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes._memory import buffer
    from ..datatypes.buffers import Simple

_BETWEEN_HOSTS = frozenset(
    {
        0x6969,  # NFS
        0x517B,  # SMB
        0xFF534D42,  # CIFS
        0xFE534D42,  # SMB2
        0x0BD00BD0,  # Lustre
        0x47504653,  # GPFS
        0x65735546,  # FUSE
        0x00C36400,  # Ceph
        0x5346414F,  # AFS
        0x01021997,  # 9P
        0x7461636F,  # OCFS2
        0x01161970,  # GFS2
        0x20030528,  # OrangeFS
        0x19830326,  # BeeGFS
        0xAAD7AAEA,  # PanFS
    }
)
"""File systems where another host may see a page later than this one: nothing is mapped there."""

COLLECTIVE_BUFFERING = "collective_buffering"


def wants_two_phases(hints: dict[str, str]) -> int:
    """Returns whether hints ask for collective access in two phases; -1 where they do not say."""
    return {"true": 1, "false": 0}.get(hints.get(COLLECTIVE_BUFFERING, ""), -1)


class NoFile(Record):
    """The record of the null handle: it has the error handler of files that are opened, and refuses all else."""

    __slots__ = ("errhandler",)

    direct = None

    def __init__(self) -> None:
        super().__init__()
        self.errhandler = ERRORS_RETURN.ob

    def __getattr__(self, name: str) -> Any:
        raise MPIException(ERR_FILE, "the file is null: it was closed, or never opened")


_REFUSED = MODE_WRONLY | MODE_SEQUENTIAL, MODE_RDONLY | MODE_SEQUENTIAL
"""Modes with which there is something to refuse to reads, and to writes."""


class OpenFile(Record):
    """An open file. `communicator`: a duplicate that nobody else uses, where it has several members. `pointer`: the one
    that they share."""

    def __init__(self, communicator: Any, descriptor: int, name: str, amode: int, pointer: Any) -> None:
        super().__init__()
        self.communicator = communicator
        self.engine = communicator.engine
        self.name = name
        self.amode = amode
        self.pointer = pointer
        self.errhandler: Any = None
        self.info: dict[str, str] = {}
        self.views: Any = None
        """Those of all members, once they told each other."""
        self.between_hosts = file_system(descriptor) in _BETWEEN_HOSTS
        how = 0 if fcntl(descriptor, F_GETFL) & os.O_ACCMODE == os.O_WRONLY else READS
        how |= 0 if self.between_hosts else CLAIMS
        self.direct = Direct(self.engine, descriptor, how, amode, pointer, _REFUSED, whole_file())
        """What the calls look at, and what changes: the view, the descriptor, the own pointer, the atomic mode."""
        self.two_phases = False
        self.split: tuple[str, Access] | None = None
        self._one_by_one = new_lock()
        self._alone = Background(f"accesses of {name}")
        self._together = Background(f"collective accesses of {name}")

    # Errors

    @property
    def title(self) -> str:
        """The file in error messages."""
        return f"file {self.name!r}"

    def fail(self, code: int, detail: str) -> BaseException:
        """Tells the error handler. Returns the exception that the caller is to raise."""
        return self.failed(MPIException(code, detail))

    def failed(self, error: BaseException) -> BaseException:
        """Makes an MPI exception of an error and tells the error handler; returns what to raise."""
        exception = self._said(error)
        if isinstance(exception, MPIException):
            self.errhandler.invoke(self, exception)
        return exception

    def _said(self, error: BaseException) -> BaseException:
        if isinstance(error, OSError) and error.errno is not None:
            return told(error.errno, str(error.strerror), f"{self.title} cannot do that")
        return translated(error, self.communicator)

    def guarded(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Makes a call on the file. The error handler hears of its errors."""
        try:
            if self.engine.closed:
                raise MPIException(ERR_OTHER, f"{self.title} is not there: MPI is finalized, or this is a forked child")
            if self.direct.descriptor < 0:  # another handle refers to it
                raise MPIException(ERR_FILE, f"{self.title} was closed")
            return call(*arguments)
        except (OSError, MPIException, MessageError) as error:
            raise self.failed(error) from error

    # What all members do together

    def exchange(self, *own: int) -> list[int]:
        """Returns the integers that the members gave, as many each, one after the other."""
        if self.communicator.size == 1:
            return list(own)
        found: list[int] = self.communicator.objects.integers(*own)
        return found

    def agree(self, what: str, *own: int) -> None:
        """Waits for all members. Raises MPI.Exception (ERR_NOT_SAME) where they did not give the same."""
        self.settle()
        given = self.exchange(*own)
        if any(given[place] != own[place % len(own)] for place in range(len(given))):
            raise MPIException(ERR_NOT_SAME, f"{self.title}: its {self.communicator.size} ranks gave different {what}")

    def by_one(self, what: Callable[[], None]) -> None:
        """Has the first member do what is to be done once, after `agree`. All members get its error."""
        error: OSError | None = None
        if self.communicator.rank == 0:
            try:
                what()
            except OSError as found:
                error = found
        number = self.exchange(0 if error is None else error.errno or errno.EIO)[0]
        if number:
            raise error or OSError(number, os.strerror(number))

    def settle(self) -> None:
        """Waits until collective accesses that were started are made."""
        self._together.settle()

    # Sizes, and what it is

    @property
    def descriptor(self) -> int:
        """Its number, which the kernel knows; -1 once it is closed."""
        found: int = self.direct.descriptor
        return found

    def size(self) -> int:
        """Returns its bytes."""
        return originals.fstat(self.descriptor).st_size

    def set_size(self, size: int) -> None:
        if size < 0:
            raise MPIException(ERR_ARG, f"{self.title}: a size of {size} bytes, which is less than none")
        self.check_writes()
        self.agree("sizes", size)
        self.by_one(lambda: os.ftruncate(self.descriptor, size))

    def preallocate(self, size: int) -> None:
        if size < 0:
            raise MPIException(ERR_ARG, f"{self.title}: a size of {size} bytes, which is less than none")
        self.check_writes()
        self.agree("sizes", size)
        if size:
            self.by_one(lambda: os.posix_fallocate(self.descriptor, 0, size))

    def set_atomicity(self, flag: bool) -> None:
        self.agree("modes", flag)
        forget_claims(self.descriptor)
        self.direct.atomic = flag

    def sync(self) -> None:
        self.settle()
        forget_claims(self.descriptor)
        if self.between_hosts or len(set(self.communicator.hosts)) > 1:
            os.fsync(self.descriptor)
            self.exchange(0)
        else:
            self.exchange(0)
            self.by_one(lambda: os.fsync(self.descriptor))

    def take_hints(self, hints: dict[str, str]) -> None:
        """Takes over what all members agree on."""
        self.info |= hints
        wanted = wants_two_phases(self.info)
        self.two_phases = self.communicator.size > 1 and (self.between_hosts if wanted < 0 else bool(wanted))

    def set_info(self, hints: dict[str, str]) -> None:
        self.agree(f"values of {COLLECTIVE_BUFFERING}", wants_two_phases(self.info | hints))
        self.take_hints(hints)

    def see(self, disp: int, etype: Any, filetype: Any, datarep: str | None, hints: dict[str, str]) -> None:
        """Sets the view."""
        if disp == DISPLACEMENT_CURRENT:
            disp = self._place_of_pointer()
        view = View(disp, etype, etype if filetype is None else filetype, "native" if datarep is None else datarep)
        if hints:
            self.set_info(hints)
        self.agree("etypes or data representations", view.unit, sum(view.datarep.encode()))
        forget_claims(self.descriptor)
        self.direct.view, self.views = view, None
        self._place(0)
        self._set_pointer(0)

    def _place_of_pointer(self) -> int:
        if not self.amode & MODE_SEQUENTIAL:
            raise MPIException(ERR_ARG, f"{self.title}: DISPLACEMENT_CURRENT is for files open with MODE_SEQUENTIAL")
        view = self.direct.view
        return int(view.places.place(self.pointer.read() * view.unit))

    def extent(self, datatype: Any) -> int:
        """Returns the extent of a datatype in the file."""
        found: int = self.direct.view.representation.in_file(datatype)._type().extent
        return found

    # Pointers

    def after_end(self) -> int:
        """Returns the first etype behind the end of the file."""
        found: int = self.direct.view.after(self.size())
        return found

    def _sought(self, offset: int, whence: int, current: int) -> int:
        if whence == SEEK_CUR:
            offset += current
        elif whence == SEEK_END:
            offset += self.after_end()
        elif whence != SEEK_SET:
            raise MPIException(ERR_ARG, f"{whence} is none of SEEK_SET, SEEK_CUR and SEEK_END")
        if offset < 0:
            raise MPIException(ERR_ARG, f"{self.title}: etype {offset} lies before the beginning of the view")
        return offset

    def go_to_end(self) -> None:
        """Moves both pointers to the end of the file."""
        self._place(self.after_end())
        self._set_pointer(self.direct.position)

    def _place(self, place: int) -> None:
        """Moves the own pointer."""
        while not self.direct.move(self.direct.position, place):
            pass

    def seek(self, offset: int, whence: int) -> None:
        self._check_order(INDIVIDUAL)
        before = self.direct.position
        while not self.direct.move(before, self._sought(offset, whence, before)):  # another thread has moved it
            before = self.direct.position

    def position(self) -> int:
        self._check_order(INDIVIDUAL)
        found: int = self.direct.position
        return found

    def position_shared(self) -> int:
        found: int = self.pointer.read()
        return found

    def seek_shared(self, offset: int, whence: int) -> None:
        self._check_order(JOINT)
        self.agree("offsets", offset, whence)
        self._set_pointer(self._sought(offset, whence, self.pointer.read() if whence == SEEK_CUR else 0))

    def _set_pointer(self, place: int) -> None:
        """After `agree`, so that nobody uses it meanwhile."""
        if self.communicator.rank == 0:
            self.pointer.set(place)
        self.exchange(0)

    def byte_offset(self, offset: int) -> int:
        self._check_offset(offset)
        view = self.direct.view
        return int(view.places.place(offset * view.unit))

    def _check_offset(self, offset: int) -> None:
        if offset < 0:
            raise MPIException(ERR_ARG, f"{self.title}: etype {offset} lies before the beginning of the view")

    def _check_order(self, pointer: int) -> None:
        if self.amode & MODE_SEQUENTIAL and pointer in (EXPLICIT, INDIVIDUAL):
            raise MPIException(
                ERR_UNSUPPORTED_OPERATION, f"{self.title} is open with MODE_SEQUENTIAL: use the shared pointer"
            )

    def check_writes(self) -> None:
        """Refuses what is not open for writing."""
        if self.amode & MODE_RDONLY:
            raise MPIException(ERR_READ_ONLY, f"{self.title} is open with MODE_RDONLY: open it for writing, too")

    def _check(self, writing: bool, pointer: int, offset: int) -> None:
        self._check_order(pointer)
        self._check_offset(offset)
        if writing:
            self.check_writes()
        elif self.amode & MODE_WRONLY:
            raise MPIException(ERR_ACCESS, f"{self.title} is open with MODE_WRONLY: open it for reading, too")

    # Accesses

    def access(self, writing: bool, pointer: int, simple: Simple, together: bool, offset: int) -> int:
        """Reads or writes items; returns the bytes of data."""
        if offset < 0 or self.direct.refuses(writing):
            self._check(writing, pointer, offset)
        if together:
            self.settle()
        view = self.direct.view
        count = view.etypes(simple)
        begin = self._begin(pointer, count, offset)
        return self._move(view, writing, begin, count, simple, together, pointer == INDIVIDUAL)

    def start(self, writing: bool, pointer: int, simple: Simple, together: bool, offset: int) -> Access:
        """Starts that."""
        self._check(writing, pointer, offset)
        view = self.direct.view
        count = view.etypes(simple)
        begin = None if pointer == ORDERED else self._begin(pointer, count, offset)

        def work() -> int:
            place = self._in_order(count) if begin is None else begin
            return self._move(view, writing, place, count, simple, together, False)

        access = Access(self.engine, work, self.failed)
        (self._together if together else self._alone).add(access)
        return access

    def _begin(self, pointer: int, count: int, offset: int) -> int:
        """The etype at which an access of so many begins."""
        if pointer == EXPLICIT:
            return offset
        if pointer == JOINT:
            return int(self.pointer.take(count))
        if pointer == ORDERED:
            return self._in_order(count)
        return int(self.direct.take(count))

    def _in_order(self, count: int) -> int:
        counts = self.exchange(count)
        rank = self.communicator.rank
        begin = self.pointer.take(sum(counts)) if rank == 0 else 0
        return self.exchange(begin)[0] + sum(counts[:rank])

    def _move(
        self, view: View, writing: bool, begin: int, count: int, simple: Simple, together: bool, returns: bool
    ) -> int:
        carry = self._carry if not self.direct.atomic else self._carry_apart
        if writing:
            data = view.outgoing(simple)
            carry(view, True, begin * view.unit, data, together)
            return int(simple.count * simple.datatype.ob.size)
        data, land = view.landing(simple)
        got = carry(view, False, begin * view.unit, data, together)
        if returns and got < data.nbytes:
            self.direct.move(begin + count, begin + got // view.unit)  # unless somebody moved it since
        return got if land is None else int(land(got))

    def _carry(self, view: View, writing: bool, start: int, data: buffer, together: bool) -> int:
        if together and self.two_phases:
            if self.views is None:
                self.views = two_phases.views(self)
            return two_phases.carry(self, view, writing, start, data.address, data.nbytes)
        carry = view.places.write if writing else view.places.read
        return carry(self.descriptor, start, data.address, data.nbytes, self.direct.how)

    def _carry_apart(self, view: View, writing: bool, start: int, data: buffer, together: bool) -> int:
        """In atomic mode: while nobody else is in that place. Each by itself, or some would wait for each other."""
        if data.nbytes == 0:
            return 0
        first = view.places.place(start)
        length = view.places.place(start + data.nbytes - 1) + 1 - first
        with self._one_by_one:
            lock(self.descriptor, first, length, ALONE if writing else SHARED)
            try:
                carry = view.places.write if writing else view.places.read
                return carry(self.descriptor, start, data.address, data.nbytes, self.direct.how | LOCKED)
            finally:
                lock(self.descriptor, first, length, UNLOCK)

    # Split collective accesses

    def begin_split(self, name: str, access: Access) -> None:
        self.split = name, access

    def check_no_split(self) -> None:
        if self.split is not None:
            raise MPIException(ERR_OTHER, f"{self.title}: {self.split[0]}_begin is not ended: call {self.split[0]}_end")

    def end_split(self, name: str) -> Access:
        if self.split is None or self.split[0] != name:
            raise MPIException(ERR_OTHER, f"{self.title}: {name}_end without {name}_begin")
        access = self.split[1]
        self.split = None
        return access

    # Its end

    def close(self) -> None:
        self.check_no_split()
        self._alone.end()
        self._together.end()
        several = self.communicator.size > 1
        try:
            self.pointer.close()  # now all have called it
            if self.amode & MODE_DELETE_ON_CLOSE:
                if self.communicator.rank == 0:
                    with suppress(FileNotFoundError):
                        os.unlink(self.name)
                self.exchange(0)
        finally:
            descriptor, self.direct.descriptor = self.direct.descriptor, -1
            forget_claims(descriptor)
            os.close(descriptor)
            if several:
                self.communicator.close()
