"""What is known about a message that was received."""

from __future__ import annotations

import array

from ..constants import ERR_TYPE, F_ERROR, F_SOURCE, F_STATUS_SIZE, F_TAG, UNDEFINED
from ..datatypes._memory import TypeRecord
from ..datatypes.elements import count_elements, element_bytes
from ..exceptions import Exception
from ..handle import public
from ._status import StatusFields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..datatypes.datatype import Datatype

_FLAG, _LOW, _HIGH = 3, 4, 5


@public
class Status(StatusFields):
    """What is known of a message that arrived (MPI 4.1, chapter 3)."""

    __slots__ = ()

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
        self._memory = array.array("i", self.py2f())
        return memoryview(self._memory)

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
