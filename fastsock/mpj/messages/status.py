"""What is known about a message that was received."""

from __future__ import annotations

import array

from ..constants import ANY_SOURCE, ANY_TAG, ERR_TYPE, F_ERROR, F_SOURCE, F_STATUS_SIZE, F_TAG, SUCCESS, UNDEFINED
from ..datatypes._memory import TypeRecord
from ..datatypes.elements import count_elements, element_bytes
from ..exceptions import Exception
from ..handle import public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes.datatype import Datatype

_FLAG, _LOW, _HIGH = 3, 4, 5


@public
class Status:
    """What is known of a message that arrived (MPI 4.1, chapter 3).

    `_length` is the message's length in bytes. Other modules of this package set the fields directly.
    """

    __slots__ = ("__weakref__", "_cancelled", "_error", "_length", "_memory", "_source", "_tag")

    _memory: array.array[int] | None

    def __new__(cls, status: Status | None = None) -> Status:
        """Return a copy of `status`, or an empty one."""
        self = object.__new__(cls)
        self._memory = None
        if status is None:
            self._source = ANY_SOURCE
            self._tag = ANY_TAG
            self._error = SUCCESS
            self._length = 0
            self._cancelled = False
        elif isinstance(status, Status):
            status._load()
            self._source = status._source
            self._tag = status._tag
            self._error = status._error
            self._length = status._length
            self._cancelled = status._cancelled
        else:
            raise TypeError(f"expected a Status, got a {type(status).__name__}")
        return self

    def _set(self, source: int, tag: int, length: int, error: int = SUCCESS, cancelled: bool = False) -> None:
        """Tells of a message: the one call that completes a status."""
        self._memory = None
        self._source = source
        self._tag = tag
        self._length = length
        self._error = error
        self._cancelled = cancelled

    def _load(self) -> None:
        """Takes over the fields that were written through `tomemory`."""
        if self._memory is not None:
            fields = self._memory
            self._source, self._tag, self._error = fields[F_SOURCE], fields[F_TAG], fields[F_ERROR]

    def _fields(self) -> tuple[int, int, int, int, bool]:
        self._load()
        return self._source, self._tag, self._error, self._length, self._cancelled

    def __eq__(self, other: object) -> bool:
        """Return self==value."""
        return self._fields() == other._fields() if isinstance(other, Status) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the fields."""
        return _new, (type(self),), self.__getstate__()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle the fields."""
        return self.__reduce__()

    def __getstate__(self) -> dict[str, int]:
        """Return the fields by name."""
        return dict(zip(("source", "tag", "error", "count", "cancelled"), self._fields(), strict=True))

    def __setstate__(self, state: dict[str, int]) -> None:
        """Take over fields by name."""
        length, cancelled = state.get("count", 0), bool(state.get("cancelled", False))
        self._set(state["source"], state["tag"], length, state["error"], cancelled)

    def Get_source(self) -> int:
        """Return the rank that sent the message."""
        self._load()
        return self._source

    def Set_source(self, source: int) -> None:
        """Set the rank that sent the message."""
        self._load()
        self._source = source
        self._store()

    def Get_tag(self) -> int:
        """Return the message's tag."""
        self._load()
        return self._tag

    def Set_tag(self, tag: int) -> None:
        """Set the message's tag."""
        self._load()
        self._tag = tag
        self._store()

    def Get_error(self) -> int:
        """Return the error code of the operation."""
        self._load()
        return self._error

    def Set_error(self, error: int) -> None:
        """Set the error code of the operation."""
        self._load()
        self._error = error
        self._store()

    source = property(Get_source, Set_source, doc="Message source.")
    tag = property(Get_tag, Set_tag, doc="Message tag.")
    error = property(Get_error, Set_error, doc="Message error.")

    def Get_count(self, datatype: Datatype | None = None) -> int:
        """Return how many items of a datatype arrived, or bytes without one; UNDEFINED where the last is not whole.

        Raises MPI.Exception (ERR_TYPE) for a null datatype.
        """
        if datatype is None:
            return self._length
        size = _type(datatype).size
        if size == 0:
            return 0
        return self._length // size if self._length % size == 0 else UNDEFINED

    def Get_elements(self, datatype: Datatype) -> int:
        """Return how many basic elements of a datatype arrived; UNDEFINED where the last one is not whole.

        Raises MPI.Exception (ERR_TYPE) for a null datatype.
        """
        return count_elements(_type(datatype), self._length)

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Set how many basic elements of a datatype arrived; for generalized requests."""
        self._length = element_bytes(_type(datatype), count)

    def _get_count(self) -> int:
        return self._length

    def _set_count(self, value: int) -> None:
        self._length = int(value)

    count = property(_get_count, _set_count, doc="Byte count.")

    def Is_cancelled(self) -> bool:
        """Return whether the operation was cancelled."""
        return self._cancelled

    def Set_cancelled(self, flag: bool) -> None:
        """Say whether the operation was cancelled; for generalized requests."""
        self._cancelled = bool(flag)

    cancelled = property(Is_cancelled, Set_cancelled, doc="Cancelled state.")

    def tomemory(self) -> memoryview:
        """Return the fields as memory of C's int. Source, tag and error that are written there become the status's."""
        self._load()
        self._memory = array.array("i", self.py2f())
        return memoryview(self._memory)

    def _store(self) -> None:
        if self._memory is not None:
            fields = self._memory
            fields[F_SOURCE], fields[F_TAG], fields[F_ERROR] = self._source, self._tag, self._error

    def py2f(self) -> list[int]:
        """Return the fields as integers."""
        source, tag, error, length, cancelled = self._fields()
        fields = [0] * F_STATUS_SIZE
        fields[F_SOURCE], fields[F_TAG], fields[F_ERROR] = source, tag, error
        fields[_FLAG], fields[_LOW], fields[_HIGH] = int(cancelled), length & 0x7FFFFFFF, length >> 31
        return fields

    @classmethod
    def f2py(cls, arg: list[int]) -> Status:
        """Return the status whose fields are given as integers."""
        self = cls.__new__(cls)
        self._set(arg[F_SOURCE], arg[F_TAG], arg[_LOW] | arg[_HIGH] << 31, arg[F_ERROR], bool(arg[_FLAG]))
        return self


def _new(cls: type[Status]) -> Status:
    return cls.__new__(cls)


def _type(datatype: Datatype) -> TypeRecord:
    record: TypeRecord = datatype.ob
    if record.combiner < 0:
        raise Exception(ERR_TYPE, "the datatype is null: it was freed, or never made")
    return record
