"""Message arguments: what a program may pass as a buffer, and the memory and type that it means.

`simple` reads the arguments of point-to-point calls and of collectives with equal blocks, `vector` those of the `v`
forms, `vector_w` those of the `w` forms. They return addresses, and the `owner` that keeps the memory there. `outgoing`
and `landing` make contiguous bytes of such memory: the memory itself where the type is dense, else a packed copy.
"""

from __future__ import annotations

from operator import index

from ..exceptions import Exception
from ..handle import numbered
from ._memory import (
    BOTTOM,
    IN_PLACE,
    Simple,
    TypeRecord,
    acquire,
    buffer,
    configure,
    configure_types,
    format_of,
    is_buffer,
    landing,
    outgoing,
    simple,
    span,
)
from .datatype import BYTE, Datatype, by_code
from .typemap import parts_of, runs_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Finish = Callable[[int], None]

_by_format: dict[str, Datatype] = {"": BYTE, "B": by_code["B"]}


class Vector:
    """`counts[i]` items of a datatype `displs[i]` extents from `address` on, for each block i."""

    __slots__ = ("address", "counts", "datatype", "displs", "owner")

    def __init__(
        self, address: int, counts: list[int], displs: list[int], datatype: Datatype, owner: buffer | None
    ) -> None:
        self.address = address
        self.counts = counts
        self.displs = displs
        self.datatype = datatype
        self.owner = owner


class VectorW:
    """`counts[i]` items of `datatypes[i]` `displs[i]` bytes from `address` on, for each block i."""

    __slots__ = ("address", "counts", "datatypes", "displs", "owner")

    def __init__(
        self, address: int, counts: list[int], displs: list[int], datatypes: Sequence[Datatype], owner: buffer | None
    ) -> None:
        self.address = address
        self.counts = counts
        self.displs = displs
        self.datatypes = datatypes
        self.owner = owner


NOTHING = Simple(0, 0, BYTE, None)
"""The message to or from no process."""


def is_in_place(argument: Any) -> bool:
    """Returns whether a collective's argument says that its data are in the other buffer."""
    return argument is None or argument is IN_PLACE


def is_dense(datatype: Datatype) -> bool:
    """Returns whether items of a datatype are just bytes, one after another."""
    return datatype.ob.dense


def _simple(message: Any, readonly: bool, blocks: int) -> Simple:
    """Reads a buffer, or a list or tuple: [buf, type], [buf, count], [buf, (count, displ)], [buf, count, type], ...

    `readonly`: it is to be sent. `blocks`: so many equal blocks make up the memory; `count` is that of one of them.
    Raises TypeError, ValueError, KeyError and BufferError as mpi4py does; ValueError also where items are not in there.
    """
    where, count, displ, type_ = _split(message, (list, tuple))
    memory, datatype = _resolve(where, type_, readonly)
    length = 0 if memory is None else memory.nbytes
    offset = 0
    if displ is not None:
        displ = index(displ)
        if displ < 0:
            raise ValueError(f"message: negative displacement {displ}")
        if displ > 0:
            extent = _extent(datatype, "handle displacement")
            offset = displ * extent
            if offset > length:
                raise ValueError(
                    f"message: displacement {displ} out of bounds, number of datatype entries {length // extent}"
                )
    if count is not None:
        count = index(count)
        _check_counts(where, (count,))
        if count and memory is not None:
            _check(memory, offset, count * blocks if blocks > 1 else count, datatype.ob)
    elif length > offset:
        count = _inferred(length - offset, datatype, _extent(datatype, "infer count"))
        if blocks > 1:
            if count % blocks:
                raise ValueError(
                    f"message: cannot infer count, number of entries {count} is not a multiple of "
                    f"required number of blocks {blocks}"
                )
            count //= blocks
    else:
        count = 0
    return Simple(offset if memory is None else memory.address + offset, count, datatype, memory)


def vector(message: Any, readonly: bool, blocks: int) -> Vector:
    """Reads a buffer, or [buf, counts], [buf, (counts, displs)], [buf, counts, displs, type], ... of `blocks` blocks.

    Raises as `simple` does.
    """
    where, counts, displs, type_ = _split(message, tuple)
    memory, datatype = _resolve(where, type_, readonly)
    length = 0 if memory is None else memory.nbytes
    if counts is None:
        items = _inferred(length, datatype, _extent(datatype, "infer count")) if length else 0
        whole, rest = divmod(items, blocks) if blocks else (0, 0)
        counts = [whole + (number < rest) for number in range(blocks)]
    elif _is_integral(counts):
        counts = [index(counts)] * blocks
    else:
        counts = _list(counts, blocks)
    if displs is None:
        displs = []
        total = 0
        for count in counts:
            displs.append(total)
            total += count
    elif _is_integral(displs):
        step = index(displs)
        displs = [step * number for number in range(blocks)]
    else:
        displs = _list(displs, blocks)
    _check_counts(where, counts)
    if memory is None:
        return Vector(0, counts, displs, datatype, None)
    extent = datatype.ob.extent
    for count, displ in zip(counts, displs, strict=True):
        if count:
            _check(memory, displ * extent, count, datatype.ob)
    return Vector(memory.address, counts, displs, datatype, memory)


def vector_w(message: Any, readonly: bool, blocks: int) -> VectorW:
    """Reads [buf, types], [buf, (counts, displs), types] or [buf, counts, displs, types]; displacements are bytes.

    Raises as `simple` does.
    """
    counts: Any = None
    displs: Any = None
    if len(message) == 2:
        where, types = message
    elif len(message) == 3:
        where, (counts, displs), types = message
    elif len(message) == 4:
        where, counts, displs, types = message
    else:
        raise ValueError("message: expecting 2 to 4 items")
    memory = None
    if where is None or where is BOTTOM:
        if counts is None:
            raise ValueError("message: BOTTOM requires counts")
        if displs is None:
            raise ValueError("message: BOTTOM requires displs")
    else:
        memory = _memory(where, readonly, False)
    if counts is None and displs is None:
        counts, displs = [1] * blocks, [0] * blocks
    else:
        counts, displs = _list(counts, blocks), _list(displs, blocks)
    if len(types) != blocks:
        raise ValueError(f"expecting {blocks} items, got {len(types)}")
    for datatype in types:
        if not isinstance(datatype, Datatype):
            raise TypeError(f"expected a Datatype, got a {type(datatype).__name__}")
    _check_counts(where, counts)
    if memory is None:
        return VectorW(0, counts, displs, types, None)
    for count, displ, datatype in zip(counts, displs, types, strict=True):
        if count:
            _check(memory, displ, count, datatype._type())
    return VectorW(memory.address, counts, displs, types, memory)


def check_equal(send: Simple, receive: Simple) -> None:
    """Raises ValueError unless both messages are as many items of the same type, as reductions need."""
    if send.datatype.ob is not receive.datatype.ob:
        raise ValueError("mismatch in send and receive MPI datatypes")
    if send.count != receive.count:
        raise ValueError(f"mismatch in send count {send.count} and receive count {receive.count}")


def view(address: int, nbytes: int) -> memoryview:
    """Returns raw memory, writable; the caller answers for it."""
    return memoryview(_raw(address, nbytes))


_EMPTY = buffer.allocate(0)


def _raw(address: int, nbytes: int) -> buffer:
    return buffer.fromaddress(address, nbytes) if nbytes else _EMPTY


def _split(message: Any, pairs: Any) -> tuple[Any, Any, Any, Any]:
    """(buffer, count, displacement, type) of a message argument; `pairs`: what may hold count and displacement."""
    if is_buffer(message):
        return message, None, None, None
    if isinstance(message, (list, tuple)):
        length = len(message)
        if length == 2:
            where, second = message
            if isinstance(second, (Datatype, str)):
                return where, None, None, second
            if isinstance(second, pairs):
                count, displ = second
                return where, count, displ, None
            return where, second, None, None
        if length == 3:
            where, count, type_ = message
            if isinstance(count, pairs):
                count, displ = count
                return where, count, displ, type_
            return where, count, None, type_
        if length == 4:
            where, count, displ, type_ = message
            return where, count, displ, type_
        raise ValueError("message: expecting 2 to 4 items")
    if hasattr(message, "__dlpack__") or hasattr(message, "__cuda_array_interface__"):
        return message, None, None, None
    raise TypeError("message: expecting buffer or list/tuple")


def _resolve(where: Any, type_: Any, readonly: bool) -> tuple[buffer | None, Datatype]:
    if where is None or where is BOTTOM:
        return None, datatype_named(type_)
    memory = _memory(where, readonly, type_ is None)
    if type_ is None:
        return memory, of_format(format_of(memory))
    return memory, datatype_named(type_)


def _memory(where: Any, readonly: bool, want_format: bool) -> buffer:
    if where is IN_PLACE:
        raise TypeError("message: IN_PLACE is for the root, or for calls without one: a buffer is wanted here")
    return acquire(where, readonly, want_format)


def datatype_named(type_: Any) -> Datatype:
    """Returns a datatype, or that of a code; raises KeyError."""
    if isinstance(type_, Datatype):
        return type_
    try:
        return by_code[type_]
    except KeyError:
        raise KeyError(f"cannot map {type_!r} to MPI datatype") from None


def of_format(format_: str) -> Datatype:
    """Returns the datatype of a format of the buffer protocol; raises KeyError and BufferError."""
    found = _by_format.get(format_)
    if found is not None:
        return found
    code = format_
    if format_[:1] in ("@", "<"):
        code = format_[1:]
    elif format_[:1] == ">":
        raise BufferError(f"format string {format_!r} with non-native byte order")
    found = _by_format[format_] = datatype_named(code)
    return found


def _extent(datatype: Datatype, purpose: str) -> int:
    if not datatype:
        raise ValueError(f"message: cannot {purpose}, datatype is null")
    lb, extent = datatype.Get_extent()
    if extent <= 0:
        raise ValueError(f"message: cannot {purpose}, datatype extent {extent} (lb:{lb}, ub:{lb + extent})")
    return extent


def _inferred(length: int, datatype: Datatype, extent: int) -> int:
    count, rest = divmod(length, extent)
    if rest:
        lb = datatype.ob.lb
        raise ValueError(
            f"message: cannot infer count, buffer length {length} is not a multiple of "
            f"datatype extent {extent} (lb:{lb}, ub:{lb + extent})"
        )
    return count


def _is_integral(value: Any) -> bool:
    """Whether a value is one number: an array of numpy with a single number is one, a sequence is none."""
    if not hasattr(value, "__index__"):
        return False
    if hasattr(value, "__len__"):
        try:
            len(value)
        except TypeError:
            pass
        else:
            return False
    try:
        index(value)
    except TypeError:
        return False
    return True


def _list(values: Sequence[int], expected: int) -> list[int]:
    found = [index(value) for value in values]
    if len(found) != expected:
        raise ValueError(f"expecting {expected} items, got {len(found)}")
    return found


def _check(memory: buffer, offset: int, count: int, type_: TypeRecord) -> None:
    """Raises ValueError unless the items' data lie in the memory of the buffer's owner."""
    if type_.dense:
        low, high = offset, offset + count * type_.size
    else:
        low, high = span(type_, count)
        low, high = low + offset, high + offset
    if low < 0 or high > memory.nbytes:
        if not type_.dense and _is_at_address(memory):
            return  # the program says where it is, and the type says how far it goes
        start, end = _reach(memory)
        if memory.address + low < start or memory.address + high > end:
            raise ValueError(
                f"message: {count} items of {type_.name or 'a derived datatype'} take the bytes {low} to {high} "
                f"of a buffer of {memory.nbytes}"
            )


def _is_at_address(memory: buffer) -> bool:
    """Whether the memory is nobody's, as far as anybody knows: its length is what the program told."""
    owner: Any = memory
    while isinstance(owner, buffer) and owner.obj is not None:
        owner = owner.obj
    return isinstance(owner, buffer) and owner.address != 0


def _check_counts(where: Any, counts: Sequence[int]) -> None:
    """Raises ValueError for less than no items, and for items without memory. BOTTOM has memory: all of it."""
    for count in counts:
        if count < 0:
            raise ValueError(f"message: negative count {count}")
        if count and where is None:
            raise ValueError(f"message: buffer is None but count is {count}")


def _reach(memory: buffer) -> tuple[int, int]:
    """The addresses between which lies all that a buffer's owner has: a slice may stand for the array it is of."""
    owner: Any = memory
    low, high = memory.address, memory.address + memory.nbytes
    while owner is not None:
        try:
            whole = acquire(owner, True, False)
        except (TypeError, BufferError, ValueError):
            pass
        else:
            low, high = min(low, whole.address), max(high, whole.address + whole.nbytes)
        owner = getattr(owner, "obj", None) if isinstance(owner, (buffer, memoryview)) else getattr(owner, "base", None)
    return low, high


configure(Datatype, by_code, _by_format, _simple)
configure_types(parts_of, runs_of, numbered, Exception)

__all__ = [
    "NOTHING",
    "Simple",
    "Vector",
    "VectorW",
    "check_equal",
    "datatype_named",
    "is_dense",
    "is_in_place",
    "landing",
    "outgoing",
    "simple",
    "vector",
    "vector_w",
    "view",
]
