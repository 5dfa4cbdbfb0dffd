"""Arrays and tables of Arrow. Flat arrays travel by their buffers, and are made of what arrives without a copy.

Arrays of other types (nested, dictionaries, slices) travel as a batch of Arrow's own stream, whose parts the receiver
puts together: there they are copied once. All that arrived is validated, for Arrow itself trusts what buffers say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pyarrow

from ...errors import BadFrame, NotPackable

_SMALL = 4096  # parts of a stream that are less go together
_types: Any = pyarrow.types


def register_values(register: Callable[..., None]) -> None:
    if tuple(int(part) for part in pyarrow.__version__.split(".")[:2]) < (15, 0):  # the types of older ones unpickle
        raise ImportError(f"pyarrow {pyarrow.__version__} is too old, 15.0 is needed")
    for cls in [found for found in vars(pyarrow.lib).values() if isinstance(found, type)]:
        if issubclass(cls, pyarrow.Array) and cls is not pyarrow.ExtensionArray:
            register(cls, name=f"pyarrow:{cls.__name__}", pack=_pack_array, unpack=_unpack_array)
        elif issubclass(cls, pyarrow.DataType) and cls is not pyarrow.ExtensionType:
            register(cls, name=f"pyarrow:{cls.__name__}", pack=_pack_type, unpack=_unpack_type)
        elif issubclass(cls, pyarrow.Scalar) and cls is not pyarrow.ExtensionScalar:
            register(cls, name=f"pyarrow:{cls.__name__}", pack=_pack_scalar, unpack=_unpack_scalar)
    register(pyarrow.ExtensionArray, name="pyarrow:ExtensionArray", pack=_pack_array, unpack=_unpack_array)
    register(pyarrow.ChunkedArray, name="pyarrow:ChunkedArray", pack=_pack_chunked, unpack=_unpack_chunked)
    register(pyarrow.RecordBatch, name="pyarrow:RecordBatch", pack=_pack_batch, unpack=_unpack_batch)
    register(pyarrow.Table, name="pyarrow:Table", pack=_pack_table, unpack=_unpack_table)
    register(pyarrow.Schema, name="pyarrow:Schema", pack=_pack_schema, unpack=_unpack_schema)
    register(pyarrow.Field, name="pyarrow:Field", pack=_pack_field, unpack=lambda state: _unpack_schema(state).field(0))
    register(
        pyarrow.Buffer, name="pyarrow:Buffer", pack=_memory_of, unpack=lambda state: pyarrow.py_buffer(_memory(state))
    )


# Types: Arrow has bytes of its own for them


def _pack_schema(schema: Any) -> bytes:
    return schema.serialize().to_pybytes()  # type: ignore[no-any-return]


def _unpack_schema(state: Any) -> Any:
    if type(state) is not bytes:
        raise BadFrame("a schema of Arrow is no bytes")
    return pyarrow.ipc.read_schema(pyarrow.py_buffer(state))


def _pack_field(field: Any) -> bytes:
    return _pack_schema(pyarrow.schema([field]))


def _pack_type(kind: Any) -> bytes:
    return _pack_field(pyarrow.field("", kind))


def _unpack_type(state: Any) -> Any:
    return _unpack_schema(state).field(0).type


# Arrays


def _memory_of(buffer: Any) -> Any:
    """The memory of a buffer, as a plain array."""
    if buffer is None:
        return None
    if not buffer.is_cpu:
        raise NotPackable("an array of Arrow that is not in this host's memory cannot be sent: copy it to the host")
    return numpy.frombuffer(buffer, "u1")


def _memory(state: Any) -> Any:
    if type(state) is not numpy.ndarray or state.dtype != numpy.uint8 or state.ndim != 1:
        raise BadFrame("a buffer of Arrow is no array of bytes")
    return state


def _is_flat(array: Any) -> bool:
    """Whether it is its buffers, and these hold nothing beside it."""
    if array.offset or not _is_flat_type(array.type):
        return False
    held = sum(buffer.size for buffer in array.buffers() if buffer is not None)
    return bool(held <= 2 * array.nbytes + _SMALL)


def _is_flat_type(kind: Any) -> bool:
    return not kind.num_fields and any(
        asked(kind)
        for asked in (
            *(_types.is_primitive, _types.is_decimal, _types.is_fixed_size_binary, _types.is_binary, _types.is_string),
            *(_types.is_large_binary, _types.is_large_string),
        )
    )


class _Parts:
    """A file that keeps what is written to it, where it lies."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._small = bytearray()

    def write(self, data: Any) -> int:
        size = len(data) if isinstance(data, bytes) else data.size
        if size < _SMALL:
            self._small += data
        else:
            self.flush()
            self.parts.append(numpy.frombuffer(data, "u1"))
        return int(size)

    def flush(self) -> None:
        if self._small:
            self.parts.append(numpy.frombuffer(bytes(self._small), "u1"))
            self._small.clear()


def _parts_of(array: Any) -> Any:
    """Of an array without its type: its length and buffers, or the parts of a stream."""
    if _is_flat(array):
        return len(array), [_memory_of(buffer) for buffer in array.buffers()]
    batch = pyarrow.RecordBatch.from_arrays([array], names=[""])
    sink = _Parts()
    with pyarrow.ipc.new_stream(pyarrow.PythonFile(sink, "w"), batch.schema) as stream:
        stream.write_batch(batch)
    sink.flush()
    return None, sink.parts


def _array_of(kind: Any, state: Any) -> Any:
    length, parts = state
    if type(parts) is not list:
        raise BadFrame("an array of Arrow has no list of buffers")
    if length is None:
        with pyarrow.ipc.open_stream(pyarrow.py_buffer(b"".join(map(_memory, parts)))) as stream:
            made = stream.read_next_batch().column(0)
    else:
        if not _is_flat_type(kind) or kind.num_buffers != len(parts) or type(length) is not int or length < 0:
            raise BadFrame(f"an array of {kind} in Arrow is said to have {length} items in {len(parts)} buffers")
        buffers = [None if part is None else pyarrow.py_buffer(_memory(part)) for part in parts]
        made = pyarrow.Array.from_buffers(kind, length, buffers)
    made.validate(full=True)
    if made.type != kind:
        raise BadFrame(f"an array of {kind} in Arrow has items of {made.type}")
    return made


def _pack_array(array: Any) -> Any:
    return _pack_type(array.type), _parts_of(array)


def _unpack_array(state: Any) -> Any:
    kind, parts = state
    return _array_of(_unpack_type(kind), parts)


def _pack_scalar(value: Any) -> Any:
    try:
        return _pack_array(pyarrow.array([value], value.type))
    except (pyarrow.ArrowNotImplementedError, pyarrow.ArrowInvalid):
        raise NotPackable(f"a scalar of Arrow of the type {value.type} cannot be sent: send scalar.as_py()") from None


def _unpack_scalar(state: Any) -> Any:
    return _unpack_array(state)[0]


def _pack_chunked(array: Any) -> Any:
    return _pack_type(array.type), [_parts_of(chunk) for chunk in array.chunks]


def _unpack_chunked(state: Any) -> Any:
    packed, chunks = state
    kind = _unpack_type(packed)
    return pyarrow.chunked_array([_array_of(kind, parts) for parts in chunks], kind)


def _pack_batch(batch: Any) -> Any:
    return _pack_schema(batch.schema), batch.num_rows, [_parts_of(column) for column in batch.columns]


def _unpack_batch(state: Any) -> Any:
    packed, rows, columns = state
    schema = _unpack_schema(packed)
    if len(columns) != len(schema):
        raise BadFrame(f"a batch of Arrow has {len(columns)} columns, and its schema {len(schema)}")
    arrays = [_array_of(field.type, parts) for field, parts in zip(schema, columns, strict=True)]
    made = pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
    if made.num_rows != rows:
        raise ValueError(f"a batch of Arrow without columns cannot have {rows} rows")
    return made


def _pack_table(table: Any) -> Any:
    return _pack_schema(table.schema), [[_parts_of(chunk) for chunk in column.chunks] for column in table.columns]


def _unpack_table(state: Any) -> Any:
    packed, columns = state
    schema = _unpack_schema(packed)
    if len(columns) != len(schema):
        raise BadFrame(f"a table of Arrow has {len(columns)} columns, and its schema {len(schema)}")
    arrays = [
        pyarrow.chunked_array([_array_of(field.type, parts) for parts in chunks], field.type)
        for field, chunks in zip(schema, columns, strict=True)
    ]
    made = pyarrow.Table.from_arrays(arrays, schema=schema)
    made.validate(full=False)
    return made
