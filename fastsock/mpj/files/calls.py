"""The calls that move data: reads and writes in all their forms."""

from __future__ import annotations

from ..constants import ANY_SOURCE, ANY_TAG, SEEK_SET, SUCCESS
from ..datatypes import buffers
from ..handle import Handle
from ..messages.request import Request
from ..messages.status import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXPLICIT, INDIVIDUAL, JOINT, ORDERED = range(4)
"""Where an access begins: at an offset, at the member's own pointer, at the shared one, there in the order of ranks."""


class FileCalls(Handle):
    """Reads and writes."""

    __slots__ = ()

    def _now(
        self, writes: bool, pointer: int, buf: Any, status: Status | None, offset: int = 0, together: bool = False
    ) -> None:
        record = self.ob
        simple = buffers.simple(buf, writes)
        count = record.guarded(record.access, writes, pointer, simple, together, offset)
        if status is not None:
            status._set(ANY_SOURCE, ANY_TAG, count, SUCCESS)

    def _started(self, writes: bool, pointer: int, buf: Any, offset: int = 0, together: bool = False) -> Request:
        record = self.ob
        simple = buffers.simple(buf, writes)
        return Request.of(record.guarded(record.start, writes, pointer, simple, together, offset))

    def _begun(self, writes: bool, pointer: int, buf: Any, call: str, offset: int = 0) -> None:
        record = self.ob
        record.guarded(record.check_no_split)
        simple = buffers.simple(buf, writes)
        record.begin_split(call, record.guarded(record.start, writes, pointer, simple, True, offset))

    def _ended(self, call: str, status: Status | None) -> None:
        record = self.ob
        access = record.guarded(record.end_split, call)
        access.wait()
        access.finish(status)

    # At an offset

    def Read_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Read at an offset, which counts etypes of the view. The status tells how much there was.

        Raises MPI.Exception: ERR_ACCESS where the file is open with MODE_WRONLY, ERR_TYPE for a part of an etype,
        ERR_ARG for a negative offset, ERR_IO and others as the system refuses it.
        """
        self._now(False, EXPLICIT, buf, status, offset)

    def Read_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Do what `Read_at` does, together with all members."""
        self._now(False, EXPLICIT, buf, status, offset, True)

    def Write_at(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Write at an offset, which counts etypes of the view.

        Raises MPI.Exception: ERR_READ_ONLY where the file is open with MODE_RDONLY, ERR_NO_SPACE where the disk is
        full, else as `Read_at`.
        """
        self._now(True, EXPLICIT, buf, status, offset)

    def Write_at_all(self, offset: int, buf: Any, status: Status | None = None) -> None:
        """Do what `Write_at` does, together with all members."""
        self._now(True, EXPLICIT, buf, status, offset, True)

    def Iread_at(self, offset: int, buf: Any) -> Request:
        """Start what `Read_at` does."""
        return self._started(False, EXPLICIT, buf, offset)

    def Iread_at_all(self, offset: int, buf: Any) -> Request:
        """Start what `Read_at_all` does."""
        return self._started(False, EXPLICIT, buf, offset, True)

    def Iwrite_at(self, offset: int, buf: Any) -> Request:
        """Start what `Write_at` does."""
        return self._started(True, EXPLICIT, buf, offset)

    def Iwrite_at_all(self, offset: int, buf: Any) -> Request:
        """Start what `Write_at_all` does."""
        return self._started(True, EXPLICIT, buf, offset, True)

    # At the member's own pointer

    def Read(self, buf: Any, status: Status | None = None) -> None:
        """Read at the own pointer, and move it behind what was read. Raises as `Read_at`."""
        self._now(False, INDIVIDUAL, buf, status)

    def Read_all(self, buf: Any, status: Status | None = None) -> None:
        """Do what `Read` does, together with all members."""
        self._now(False, INDIVIDUAL, buf, status, together=True)

    def Write(self, buf: Any, status: Status | None = None) -> None:
        """Write at the own pointer, and move it behind what was written. Raises as `Write_at`."""
        self._now(True, INDIVIDUAL, buf, status)

    def Write_all(self, buf: Any, status: Status | None = None) -> None:
        """Do what `Write` does, together with all members."""
        self._now(True, INDIVIDUAL, buf, status, together=True)

    def Iread(self, buf: Any) -> Request:
        """Start what `Read` does. The pointer moves at once, by all that is asked for."""
        return self._started(False, INDIVIDUAL, buf)

    def Iread_all(self, buf: Any) -> Request:
        """Start what `Read_all` does."""
        return self._started(False, INDIVIDUAL, buf, together=True)

    def Iwrite(self, buf: Any) -> Request:
        """Start what `Write` does. The pointer moves at once."""
        return self._started(True, INDIVIDUAL, buf)

    def Iwrite_all(self, buf: Any) -> Request:
        """Start what `Write_all` does."""
        return self._started(True, INDIVIDUAL, buf, together=True)

    def Seek(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the own pointer, in etypes: to SEEK_SET, SEEK_CUR or SEEK_END and an offset.

        Raises MPI.Exception (ERR_ARG) where that is before the beginning.
        """
        self.ob.guarded(self.ob.seek, offset, whence)

    def Get_position(self) -> int:
        """Return where the own pointer is, in etypes of the view."""
        position: int = self.ob.guarded(self.ob.position)
        return position

    def Get_byte_offset(self, offset: int) -> int:
        """Return the byte of the file at which an etype of the view begins."""
        place: int = self.ob.guarded(self.ob.byte_offset, offset)
        return place

    # At the pointer that all share

    def Read_shared(self, buf: Any, status: Status | None = None) -> None:
        """Read at the shared pointer, and move it by all that is asked for. Raises as `Read_at`."""
        self._now(False, JOINT, buf, status)

    def Write_shared(self, buf: Any, status: Status | None = None) -> None:
        """Write at the shared pointer, and move it behind that. Raises as `Write_at`."""
        self._now(True, JOINT, buf, status)

    def Iread_shared(self, buf: Any) -> Request:
        """Start what `Read_shared` does. The pointer moves at once."""
        return self._started(False, JOINT, buf)

    def Iwrite_shared(self, buf: Any) -> Request:
        """Start what `Write_shared` does. The pointer moves at once."""
        return self._started(True, JOINT, buf)

    def Read_ordered(self, buf: Any, status: Status | None = None) -> None:
        """Read at the shared pointer, all members in the order of their ranks."""
        self._now(False, ORDERED, buf, status, together=True)

    def Write_ordered(self, buf: Any, status: Status | None = None) -> None:
        """Write at the shared pointer, all members in the order of their ranks."""
        self._now(True, ORDERED, buf, status, together=True)

    def Seek_shared(self, offset: int, whence: int = SEEK_SET) -> None:
        """Move the shared pointer as `Seek` does. All members call it, with the same arguments.

        Raises MPI.Exception (ERR_NOT_SAME) where these differ, and as `Seek`.
        """
        self.ob.guarded(self.ob.seek_shared, offset, whence)

    def Get_position_shared(self) -> int:
        """Return where the shared pointer is, in etypes of the view."""
        position: int = self.ob.guarded(self.ob.position_shared)
        return position

    # In two halves, between which the members go on

    def Read_at_all_begin(self, offset: int, buf: Any) -> None:
        """Begin what `Read_at_all` does. Raises MPI.Exception (ERR_OTHER) where another such call has begun."""
        self._begun(False, EXPLICIT, buf, "Read_at_all", offset)

    def Read_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        """End it. Raises MPI.Exception (ERR_OTHER) where it has not begun, and as `Read_at_all`."""
        self._ended("Read_at_all", status)

    def Write_at_all_begin(self, offset: int, buf: Any) -> None:
        """Begin what `Write_at_all` does."""
        self._begun(True, EXPLICIT, buf, "Write_at_all", offset)

    def Write_at_all_end(self, buf: Any, status: Status | None = None) -> None:
        """End it."""
        self._ended("Write_at_all", status)

    def Read_all_begin(self, buf: Any) -> None:
        """Begin what `Read_all` does."""
        self._begun(False, INDIVIDUAL, buf, "Read_all")

    def Read_all_end(self, buf: Any, status: Status | None = None) -> None:
        """End it."""
        self._ended("Read_all", status)

    def Write_all_begin(self, buf: Any) -> None:
        """Begin what `Write_all` does."""
        self._begun(True, INDIVIDUAL, buf, "Write_all")

    def Write_all_end(self, buf: Any, status: Status | None = None) -> None:
        """End it."""
        self._ended("Write_all", status)

    def Read_ordered_begin(self, buf: Any) -> None:
        """Begin what `Read_ordered` does."""
        self._begun(False, ORDERED, buf, "Read_ordered")

    def Read_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        """End it."""
        self._ended("Read_ordered", status)

    def Write_ordered_begin(self, buf: Any) -> None:
        """Begin what `Write_ordered` does."""
        self._begun(True, ORDERED, buf, "Write_ordered")

    def Write_ordered_end(self, buf: Any, status: Status | None = None) -> None:
        """End it."""
        self._ended("Write_ordered", status)
