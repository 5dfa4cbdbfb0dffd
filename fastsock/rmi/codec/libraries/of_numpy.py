"""numpy's subclasses of its array, and its records. Their memory travels as that of a plain array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from ...errors import BadFrame

_masked_constant: Any = numpy.ma.masked


def register_values(register: Callable[..., None]) -> None:
    register(numpy.recarray, name="numpy:recarray", pack=_plain, unpack=_unpack_records)
    register(numpy.record, name="numpy:record", pack=_pack_record, unpack=lambda state: _unpack_records(state)[()])
    register(numpy.ma.MaskedArray, name="numpy:MaskedArray", pack=_pack_masked, unpack=_unpack_masked)
    register(type(_masked_constant), name="numpy:masked", pack=lambda value: None, unpack=lambda _: _masked_constant)
    register(numpy.matrix, name="numpy:matrix", pack=_plain, unpack=lambda state: _array(state).view(numpy.matrix))
    # its file is no other process's: what it holds arrives as a plain array
    register(numpy.memmap, name="numpy:memmap", pack=_plain, unpack=lambda state: _array(state))


def _array(state: Any) -> Any:
    if type(state) is not numpy.ndarray:
        raise BadFrame(f"{type(state).__qualname__} stands where an array belongs")
    return state


def _plain(value: Any) -> Any:
    """The same memory, as a plain array of a plain type."""
    found = value.view(numpy.ndarray)
    if found.dtype.type is numpy.record:
        found = found.view(_without_records(found.dtype))
    return found


def _without_records(dtype: Any) -> Any:
    return numpy.dtype((numpy.void, dtype))


def _pack_record(value: Any) -> Any:
    return _plain(numpy.asarray(value))


def _unpack_records(state: Any) -> Any:
    array = _array(state)
    if array.dtype.names is not None:
        array = array.view(numpy.dtype((numpy.record, array.dtype)))
    return array.view(numpy.recarray)


def _pack_masked(value: Any) -> Any:
    mask = value.mask
    fill = value.fill_value
    return _plain(value.data), None if mask is numpy.ma.nomask else mask, numpy.asarray(fill), bool(value.hardmask)


def _unpack_masked(state: Any) -> Any:
    data, mask, fill, hard = state
    mask = numpy.ma.nomask if mask is None else _array(mask)
    return numpy.ma.MaskedArray(_array(data), mask=mask, fill_value=_array(fill)[()], hard_mask=bool(hard))
