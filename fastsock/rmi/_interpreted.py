"""What the codec does to memory, for Python without a compiler. `_codec.pxd` has the same in C.

Where there is no Cython either, this module stands for `cython` too.
"""

from __future__ import annotations

import datetime
from _thread import allocate_lock
from contextlib import AbstractContextManager, nullcontext
from struct import Struct
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, TypeVar

from fastsock.rmi._format import NEW

_Method = TypeVar("_Method")

compiled = False


def final(method: _Method) -> _Method:
    """Says to the compiler that no class overrides the method."""
    return method


def critical_section(_: object) -> AbstractContextManager[None]:
    """For what the interpreter does in one step anyway."""
    return nullcontext()


_U16, _U32, _U64, _I16, _I32, _I64, _DOUBLE = map(Struct, ("<H", "<I", "<Q", "<h", "<i", "<q", "<d"))
_DATE, _CLOCK = Struct("<HBB"), Struct("<BBBI")


def store_16(data: bytearray, at: int, value: int) -> None:
    _U16.pack_into(data, at, value & 0xFFFF)


def store_32(data: bytearray, at: int, value: int) -> None:
    _U32.pack_into(data, at, value & 0xFFFFFFFF)


def store_64(data: bytearray, at: int, value: int) -> None:
    _U64.pack_into(data, at, value & 0xFFFFFFFFFFFFFFFF)


def store_double(data: bytearray, at: int, value: float) -> None:
    _DOUBLE.pack_into(data, at, value)


def load_u16(data: bytes, at: int) -> int:
    return int(_U16.unpack_from(data, at)[0])


def load_u32(data: bytes, at: int) -> int:
    return int(_U32.unpack_from(data, at)[0])


def load_u64(data: bytes, at: int) -> int:
    return int(_U64.unpack_from(data, at)[0])


def load_i16(data: bytes, at: int) -> int:
    return int(_I16.unpack_from(data, at)[0])


def load_i32(data: bytes, at: int) -> int:
    return int(_I32.unpack_from(data, at)[0])


def load_i64(data: bytes, at: int) -> int:
    return int(_I64.unpack_from(data, at)[0])


def load_double(data: bytes, at: int) -> float:
    return float(_DOUBLE.unpack_from(data, at)[0])


def copy_in(data: bytearray, at: int, source: Any, size: int) -> None:
    """The memory of any contiguous buffer of `size` bytes."""
    data[at : at + size] = source if type(source) is bytes else memoryview(source).cast("B")


def utf8_size(text: str) -> int:
    """How many bytes of UTF-8 it has, or -1 where it must be encoded to know that."""
    return len(text) if text.isascii() else -1


def copy_utf8(data: bytearray, at: int, text: str, size: int) -> None:
    data[at : at + size] = text.encode("ascii")


def move_up(data: bytearray, at: int, end: int) -> None:
    """The bytes from `at` to `end` move up by one."""
    data[at + 1 : end + 1] = data[at:end]


def put_word(packer: Any, value: int) -> bool:
    """Packs an int64. False: it is larger."""
    if -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        packer.put_int(value)
        return True
    return False


tuple_size = len


def is_shared(value: object, level: int) -> bool:
    """False where one container alone holds the value, so that it cannot be met again. Only C can say.

    level: 0 for what is in no container. One that can be met again holds itself.
    """
    return True


def memory_of(view: memoryview) -> bytes:
    return bytes(view)


def memory_within(memory: bytearray, at: int, size: int) -> bytes:
    return bytes(memory[at : at + size])


def text_at(data: bytes, at: int, size: int) -> str:
    return data[at : at + size].decode("utf-8", "surrogatepass")


def plain_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(tuple.__iter__(value))


def new_tuple(made: Any, values: tuple[Any, ...]) -> Any:
    return tuple.__new__(made, values)


def new_instance(made: type) -> Any:
    return object.__new__(made)


set_field = object.__setattr__


def read_items(unpacker: Any, count: int) -> tuple[Any, ...]:
    return tuple([unpacker.read() for _ in range(count)])


# C keeps the keys of dicts that came last.


def new_keys() -> dict[bytes, str]:
    return {}


def free_keys(keys: dict[bytes, str]) -> None:
    keys.clear()


def read_key(unpacker: Any) -> Any:
    return unpacker.read()


# Times: the constructors check what a peer says.


def store_date(data: bytearray, at: int, value: Any) -> None:
    _DATE.pack_into(data, at, value.year, value.month, value.day)


def store_clock(data: bytearray, at: int, value: Any) -> None:
    _CLOCK.pack_into(data, at, value.hour, value.minute, value.second, value.microsecond | value.fold << 31)


def is_utc(zone: Any) -> bool:
    return zone is datetime.timezone.utc


def make_date(data: bytes, at: int) -> Any:
    return datetime.date(*_DATE.unpack_from(data, at))


def make_datetime(data: bytes, at: int, zone: Any) -> Any:
    hour, minute, second, last = _CLOCK.unpack_from(data, at + 4)
    year, month, day = _DATE.unpack_from(data, at)
    return datetime.datetime(year, month, day, hour, minute, second, last & 0x7FFFFFFF, zone, fold=last >> 31)


def make_clock(data: bytes, at: int, zone: Any) -> Any:
    hour, minute, second, last = _CLOCK.unpack_from(data, at)
    return datetime.time(hour, minute, second, last & 0x7FFFFFFF, zone, fold=last >> 31)


# The memo: a value, by its identity, to its number. It holds the value, so that its identity is not given away.


def new_memo() -> dict[int, tuple[int, Any]]:
    return {}


def free_memo(memo: dict[int, tuple[int, Any]]) -> None:
    memo.clear()


def memo_get(memo: dict[int, tuple[int, Any]], value: Any) -> int:
    found = memo.get(id(value))
    return NEW if found is None else found[0]


def memo_set(memo: dict[int, tuple[int, Any]], value: Any, number: int) -> None:
    memo[id(value)] = number, value


memo_clear = free_memo


# Native carriers: only compiled code calls them past Python


def is_carrier(carrier: Any) -> bool:
    return False


# Of Python's C interface


def whole_number(value: Any) -> int:
    """The number that it is. -1: it is none, or none of 8 bytes."""
    return value if type(value) is int and value < 1 << 63 else -1


def context_of(variable: Any) -> Any:
    return variable.get()


def enter_context(variable: Any, value: Any) -> Any:
    return variable.set(value)


def leave_context(variable: Any, token: Any) -> None:
    variable.reset(token)


def goes_on(value: Any) -> bool:
    """Whether it is a generator or a coroutine, so that its function has not done its work yet."""
    return type(value) in (GeneratorType, CoroutineType, AsyncGeneratorType)


# Calls: only a compiled class can say how it is called without a tuple and a dict being made first


def accept_calls() -> None:
    pass


def no_vectorcall() -> Any:
    return None


# Locks


def free_lock(held: Any) -> None:
    pass


def take(held: Any, waits: bool) -> bool:
    return bool(held.acquire(waits))


def let_go(held: Any) -> None:
    held.release()


def is_taken(held: Any) -> bool:
    return bool(held.locked())


def order() -> None:
    """Code that the interpreter runs is in order."""


new_lock = allocate_lock
