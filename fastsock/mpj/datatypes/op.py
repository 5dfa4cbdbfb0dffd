"""Reduction operations."""

from __future__ import annotations

import operator

from fastsock.core.binding._team import OPERATIONS

from ..constants import ERR_OP
from ..exceptions import Exception
from ..handle import Handle, Record, public
from . import _memory, buffers
from ._memory import TypeRecord, buffer, pack_into, span, unpack_from
from .datatype import Datatype
from .native_kernels import NUMBERS, kernel_of, reduce_local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

_MOST = 32  # operations that a program may have created at a time, as with mpi4py
_created = 0


class OpRecord(Record):
    """`name`: of a predefined operation. `function`: what it does to Python objects, or a program's own function.

    `combines`: what is known of it on the predefined types that it was used with.
    """

    __slots__ = ("combines", "commutative", "counted", "function", "name")

    def __init__(self, name: str, function: Callable[..., Any] | None, commutative: bool) -> None:
        super().__init__()
        self.name = name
        self.function = function
        self.commutative = commutative
        self.combines: dict[TypeRecord, Combine] = {}
        self.counted = False  # among those that a program has created and not freed


class Combine:
    """An operation on packed items of a type: called with (source, target), does `target = source op target`.

    Both are contiguous buffers of as many whole items of `itemsize` bytes each.
    """

    __slots__ = ("commutative", "itemsize", "kernel", "record", "type")

    kernel: tuple[int, int] | None
    """(type, operation) as the native kernels number them; None where these do not know it."""

    def __init__(self, record: OpRecord, type_: TypeRecord) -> None:
        self.record = record
        self.commutative = record.commutative
        self.type = type_
        self.itemsize = type_.size
        self.kernel = kernel_of(record.name, type_) if record.name else None
        if record.name and self.kernel is None:
            from . import kernels

            kernels.check_defined(record.name, type_)  # before anybody waits for this rank

    def __call__(self, source: Any, target: Any) -> None:
        """Combine the source into the target."""
        if self.kernel is not None:
            type_number, operation = self.kernel
            reduce_local(operation, type_number, source, target)
            return
        record, type_ = self.record, self.type
        if record.name:
            from . import kernels

            kernels.reduce_packed(record.name, type_, source, target)
            return
        if type_.dense:
            self._user(_memory.acquire(source, True, False), _memory.acquire(target, False, False))
            return
        # a program's function sees items as it made them, with their gaps
        count = len(target) // type_.size if type_.size else 0
        low, high = span(type_, count)
        low, high = min(low, 0), max(high, count * type_.extent)
        given, room = buffer.allocate(high - low, True), buffer.allocate(high - low, True)
        unpack_from(source, type_, given.address - low)
        unpack_from(target, type_, room.address - low)
        self._user(given[-low:] if low else given, room[-low:] if low else room)
        pack_into(target, type_, room.address - low)

    def _user(self, source: buffer, target: buffer) -> None:
        function = self.record.function
        datatype = Datatype.of(self.type)
        try:
            if function is not None:
                function(source, target, datatype)
        finally:
            datatype.ob = Datatype.null


_null = OpRecord("", None, False)


@public
class Op(Handle):
    """An operation of reductions (MPI 4.1, chapter 6). Raises MPI.Exception (ERR_OP) for a null one."""

    __slots__ = ("_by_number",)

    ob: OpRecord
    null = _null
    _by_number: bool

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle predefined operations by name, others by their function."""
        record = self.ob
        if record.constant is not None:
            return super().__reduce__()
        if getattr(self, "_by_number", False):
            raise ValueError("cannot pickle user-defined reduction operation")
        return type(self).Create, (record.function, record.commutative)

    def __call__(self, x: Any, y: Any) -> Any:
        """Return x op y, for Python objects. Raises ValueError where the operation has no Python function."""
        record = self.ob
        if record.function is None:
            raise ValueError("cannot call user-defined operation")
        return record.function(x, y) if record.name else record.function(x, y, None)

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        """Translate integer handle to object."""
        self = super().fromint(arg)
        if not self.ob.name and self.ob is not _null:
            self._by_number = True
        return self

    @classmethod
    def Create(cls, function: Callable[..., Any], commute: bool = False) -> Self:
        """Return an operation of the program's own: a function of (source, target, datatype).

        It does `target = source op target` for all items of two buffers; the source is of lower ranks. On objects it
        gets None as the datatype, and returns the result. Raises TypeError for what cannot be called, and RuntimeError
        where 32 operations are not freed.
        """
        global _created
        if not callable(function):
            raise TypeError(f"{function!r} is not callable")
        if _created >= _MOST:
            raise RuntimeError("cannot create too many user-defined reduction operations: free one first")
        _created += 1
        record = OpRecord("", function, bool(commute))
        record.counted = True
        return cls.of(record)

    def Free(self) -> None:
        """Free the operation: this handle becomes null. Raises MPI.Exception (ERR_OP) where it is predefined."""
        global _created
        if self.is_predefined:
            raise Exception(ERR_OP, f"{self.ob.name or 'the null operation'} cannot be freed")
        _created -= self.ob.counted
        self.ob.counted = False
        self._forget()

    def Is_commutative(self) -> bool:
        """Return whether the operation commutes."""
        return self._defined().commutative

    @property
    def is_commutative(self) -> bool:
        """Whether the operation commutes."""
        return self.Is_commutative()

    @property
    def is_predefined(self) -> bool:
        """Whether the operation is predefined; the null handle is."""
        return self.ob is _null or bool(self.ob.name)

    def Reduce_local(self, inbuf: Any, inoutbuf: Any) -> None:
        """Do `inoutbuf = inbuf op inoutbuf`, element by element.

        Raises ValueError where the buffers are not as many items of one type, and MPI.Exception (ERR_OP) where the
        operation is not defined on it.
        """
        target, source = buffers.simple(inoutbuf, False), buffers.simple(inbuf, True)
        buffers.check_equal(source, target)
        combine = self._combine(target.datatype)
        given = buffers.outgoing(source.address, source.count, source.datatype)
        room, finish = buffers.landing(target.address, target.count, target.datatype)
        if finish is not None:
            room[:] = buffers.outgoing(target.address, target.count, target.datatype)
        combine(given, room)
        if finish is not None:
            finish(len(room))

    def _combine(self, datatype: Datatype) -> Combine:
        """Returns what does `target = source op target` to contiguous buffers of packed items of a datatype."""
        record, type_ = self._defined(), datatype._type()
        found = record.combines.get(type_)
        if found is None:
            found = Combine(record, type_)
            if record.name and type_.predefined:
                record.combines[type_] = found
        return found

    def _defined(self) -> OpRecord:
        if self.ob is _null:
            raise Exception(ERR_OP, "the operation is null: it was freed, or never made")
        return self.ob


def check_op(op: object) -> None:
    """Raises TypeError for what is no operation."""
    if not isinstance(op, Op):
        raise TypeError(f"op: an MPI.Op is needed, not {op!r} ({type(op).__name__})")


def _maximum(x: Any, y: Any) -> Any:
    return y if y > x else x


def _minimum(x: Any, y: Any) -> Any:
    return y if y < x else x


def _logical(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: function(bool(x), bool(y))


def _locate(better: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def choose(x: Any, y: Any) -> Any:
        (u, i), (v, j) = x, y
        if better(v, u) or (not better(u, v) and j < i):
            return v, j
        return u, i

    return choose


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "MAX": _maximum,
    "MIN": _minimum,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": _logical(operator.and_),
    "BAND": operator.and_,
    "LOR": _logical(operator.or_),
    "BOR": operator.or_,
    "LXOR": _logical(operator.xor),
    "BXOR": operator.xor,
    "MAXLOC": _locate(operator.gt),
    "MINLOC": _locate(operator.lt),
    "REPLACE": lambda x, y: y,
    "NO_OP": lambda x, y: x,
}

OP_NULL = Op.named(_null, "OP_NULL")
constants_by_name: dict[str, Op] = {"OP_NULL": OP_NULL}
"""The predefined operations by the names of the module's constants."""
for _name, _function in _FUNCTIONS.items():
    _commutative = _name not in ("REPLACE", "NO_OP")
    constants_by_name[_name] = Op.named(OpRecord(_name, _function, _commutative), _name)
    if _name in OPERATIONS:
        NUMBERS[constants_by_name[_name].ob] = OPERATIONS[_name]

SUM = constants_by_name["SUM"]
