"""Frames, series and indexes of pandas, by their columns. A column that is an array travels as one, without a copy."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy
import pandas

from ...errors import BadFrame, NotPackable

# how the items of a column travel
_ARRAY, _OBJECTS, _MASKED, _CATEGORIES, _ZONED, _PERIODS, _INTERVALS, _STRINGS, _ARROW = range(9)

_FEW = 1000  # strings that go one by one: names of columns need no Arrow at the other end

_any: Any = pandas


def register_values(register: Callable[..., None]) -> None:
    register(pandas.DataFrame, name="pandas:DataFrame", pack=_pack_frame, unpack=_unpack_frame)
    register(pandas.Series, name="pandas:Series", pack=_pack_series, unpack=_unpack_series)
    for cls in (pandas.Index, pandas.CategoricalIndex, pandas.IntervalIndex, pandas.PeriodIndex):
        register(cls, name=f"pandas:{cls.__name__}", pack=_pack_index, unpack=_unpack_index)
    for cls in (pandas.DatetimeIndex, pandas.TimedeltaIndex):
        register(cls, name=f"pandas:{cls.__name__}", pack=_pack_times, unpack=_unpack_times)
    register(pandas.RangeIndex, name="pandas:RangeIndex", pack=_pack_range, unpack=_unpack_range)
    register(pandas.MultiIndex, name="pandas:MultiIndex", pack=_pack_levels, unpack=_unpack_levels)
    for cls in _array_classes():
        register(cls, name=f"pandas:{cls.__name__}", pack=_pack_items, unpack=_unpack_array)
    register(pandas.Timestamp, name="pandas:Timestamp", pack=_pack_timestamp, unpack=_unpack_timestamp)
    register(pandas.Timedelta, name="pandas:Timedelta", pack=_pack_timedelta, unpack=_unpack_timedelta)
    register(pandas.Period, name="pandas:Period", pack=_pack_period, unpack=_unpack_period)
    register(pandas.Interval, name="pandas:Interval", pack=_pack_interval, unpack=_unpack_interval)
    register(type(pandas.NaT), name="pandas:NaT", pack=lambda value: None, unpack=lambda _: pandas.NaT)
    register(type(pandas.NA), name="pandas:NA", pack=lambda value: None, unpack=lambda _: pandas.NA)


_PLAIN_ARRAYS = (pandas.arrays.NumpyExtensionArray, _any.arrays.DatetimeArray, _any.arrays.TimedeltaArray)


def _array_classes() -> list[Any]:
    names = (
        "BooleanArray", "IntegerArray", "FloatingArray", "StringArray", "ArrowStringArray", "ArrowExtensionArray",
        "DatetimeArray", "TimedeltaArray", "PeriodArray", "IntervalArray", "NumpyExtensionArray",
    )  # fmt: skip
    found = [getattr(pandas.arrays, name, None) for name in names]
    return [pandas.Categorical, *(cls for cls in found if cls is not None)]


# Items: of a column, or of an index


def _pack_items(items: Any) -> Any:
    """Of pandas' own arrays: how they travel, and what is sent of them."""
    dtype = items.dtype
    if isinstance(items, pandas.Categorical):
        return _CATEGORIES, (items.codes, items.categories, items.ordered)
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return _ZONED, (items.tz_convert(None).to_numpy(), _zone_of(dtype.tz))
    if isinstance(dtype, pandas.PeriodDtype):
        return _PERIODS, (items.asi8, items.freqstr)
    if isinstance(dtype, pandas.IntervalDtype):
        return _INTERVALS, (items.left, items.right, items.closed)
    if isinstance(dtype, pandas.StringDtype):
        by_arrow = dtype.storage == "pyarrow" and len(items) > _FEW
        return _STRINGS, (_arrow_of(items) if by_arrow else list(items), dtype.storage, dtype.na_value is pandas.NA)
    if isinstance(dtype, pandas.ArrowDtype):
        return _ARROW, _arrow_of(items)
    if isinstance(items, (pandas.arrays.IntegerArray, pandas.arrays.FloatingArray, pandas.arrays.BooleanArray)):
        plain: Any = dtype
        return _MASKED, (items.to_numpy(plain.numpy_dtype, na_value=plain.type(0)), items.isna())
    if isinstance(dtype, pandas.SparseDtype):
        raise NotPackable("a sparse column of pandas cannot be sent: send frame.sparse.to_dense()")
    if not isinstance(items, _PLAIN_ARRAYS):
        raise NotPackable(f"a column of pandas of the type {dtype} cannot be sent: convert it with astype()")
    array = items.to_numpy()
    if array.dtype.hasobject:
        return _OBJECTS, list(array)
    return _ARRAY, array


def _zone_of(zone: Any) -> Any:
    """A zone of pytz goes by its name, of which pandas makes the zone that its version has."""
    return zone.zone if type(zone).__module__.partition(".")[0] == "pytz" else zone


def _arrow_of(items: Any) -> Any:
    return items.__arrow_array__()


def _unpack_items(state: Any) -> Any:
    """An array of numpy or of pandas."""
    form, held = state
    if form == _ARRAY:
        array = _array(held)
        if array.dtype.kind == "M":
            return _any.DatetimeIndex(array, copy=False).array
        return _any.TimedeltaIndex(array, copy=False).array if array.dtype.kind == "m" else array
    if form == _OBJECTS:
        return _objects(held)
    if form == _MASKED:
        values, mask = map(_array, held)
        made = _MASKED_ARRAYS.get(values.dtype.kind)
        if made is None:
            raise BadFrame(f"a masked column of pandas holds {values.dtype}")
        return made(values, mask)
    if form == _CATEGORIES:
        codes, categories, ordered = held
        return _any.Categorical.from_codes(_array(codes), categories=_index(categories), ordered=bool(ordered))
    if form == _ZONED:
        values, zone = held
        return _any.DatetimeIndex(_array(values), copy=False).tz_localize("UTC").tz_convert(zone).array
    if form == _PERIODS:
        ordinals, freq = held
        return _any.PeriodIndex.from_ordinals(_array(ordinals), freq=freq).array
    if form == _INTERVALS:
        left, right, closed = held
        return pandas.arrays.IntervalArray.from_arrays(_index(left), _index(right), closed)
    if form == _STRINGS:
        items, storage, nullable = held
        if storage == "pyarrow" and importlib.util.find_spec("pyarrow") is None:  # then pandas keeps them itself
            storage = "python"
        dtype = _any.StringDtype(storage) if nullable else _any.StringDtype(storage, na_value=numpy.nan)
        return _any.array(_objects(items) if type(items) is list else _chunked(items), dtype=dtype)
    if form == _ARROW:
        return pandas.arrays.ArrowExtensionArray(_chunked(held))
    raise BadFrame(f"a column of pandas has the form {form!r}")


def _unpack_array(state: Any) -> Any:
    made = _unpack_items(state)
    return pandas.arrays.NumpyExtensionArray(made) if type(made) is numpy.ndarray else made


_MASKED_ARRAYS: dict[str, Any] = {
    "b": pandas.arrays.BooleanArray,
    "i": pandas.arrays.IntegerArray,
    "u": pandas.arrays.IntegerArray,
    "f": pandas.arrays.FloatingArray,
}


def _array(state: Any) -> Any:
    if type(state) is not numpy.ndarray:
        raise BadFrame(f"{type(state).__qualname__} stands where an array belongs")
    return state


def _index(state: Any) -> Any:
    if not isinstance(state, pandas.Index):
        raise BadFrame(f"{type(state).__qualname__} stands where an index of pandas belongs")
    return state


def _chunked(state: Any) -> Any:
    import pyarrow

    if type(state) is not pyarrow.ChunkedArray:
        raise BadFrame(f"{type(state).__qualname__} stands where a column of Arrow belongs")
    return state


def _objects(items: Any) -> Any:
    if type(items) is not list:
        raise BadFrame(f"{type(items).__qualname__} stands where a list of items belongs")
    made = numpy.empty(len(items), object)
    for at, item in enumerate(items):
        made[at] = item
    return made


# Indexes


def _pack_index(index: Any) -> Any:
    return _pack_items(index.array), index.name


def _unpack_index(state: Any) -> Any:
    items, name = state
    made = _unpack_items(items)
    return _any.Index(made, dtype=made.dtype, name=name, copy=False)


def _pack_times(index: Any) -> Any:
    freq = index.freqstr
    return _pack_items(index.array), index.name, freq


def _unpack_times(state: Any) -> Any:
    items, name, freq = state
    made = _unpack_index((items, name))
    made.freq = freq
    return made


def _pack_range(index: Any) -> Any:
    return index.start, index.stop, index.step, index.name


def _unpack_range(state: Any) -> Any:
    start, stop, step, name = state
    return pandas.RangeIndex(start, stop, step, name=name)


def _pack_levels(index: Any) -> Any:
    return list(index.levels), [numpy.asarray(codes) for codes in index.codes], list(index.names)


def _unpack_levels(state: Any) -> Any:
    levels, codes, names = state
    return _any.MultiIndex(list(map(_index, levels)), list(map(_array, codes)), names=names)


# Series and frames


def _flags_of(value: Any) -> Any:
    return value.attrs or None, value.flags.allows_duplicate_labels


def _flagged(made: Any, flags: Any) -> Any:
    attributes, duplicates = flags
    if attributes is not None:
        made.attrs = attributes
    if not duplicates:
        made.flags.allows_duplicate_labels = False
    return made


def _pack_series(series: Any) -> Any:
    return _pack_items(series.array), series.index, series.name, _flags_of(series)


def _unpack_series(state: Any) -> Any:
    items, index, name, flags = state
    return _flagged(_series(items, _index(index), name), flags)


def _series(items: Any, index: Any, name: Any = None) -> Any:
    made = _unpack_items(items)
    return _any.Series(made, index=index, name=name, dtype=made.dtype, copy=False)


def _pack_frame(frame: Any) -> Any:
    """A frame of one type is one array; of others each column is one."""
    kinds = set(frame.dtypes)
    if len(kinds) == 1 and frame.shape[1] > 1:
        (kind,) = kinds
        if isinstance(kind, numpy.dtype) and kind.kind in "biufc":
            return frame.to_numpy(), frame.index, frame.columns, _flags_of(frame)
    columns = [_pack_items(frame.iloc[:, at].array) for at in range(frame.shape[1])]
    return columns, frame.index, frame.columns, _flags_of(frame)


def _unpack_frame(state: Any) -> Any:
    held, index, columns, flags = state
    index, columns = _index(index), _index(columns)
    if type(held) is numpy.ndarray:
        return _flagged(_any.DataFrame(held, index, columns, copy=False), flags)
    if type(held) is not list or len(held) != len(columns):
        raise BadFrame(f"a frame of pandas has {len(columns)} columns, and not so many were sent")
    series = {at: _series(items, index) for at, items in enumerate(held)}
    made = _any.DataFrame(series, index=index, copy=False)
    made.columns = columns
    return _flagged(made, flags)


# Scalars


def _pack_timestamp(value: Any) -> Any:
    zone = value.tz
    plain = value.tz_convert(None) if zone is not None else value
    return plain.to_datetime64(), _zone_of(zone)


def _unpack_timestamp(state: Any) -> Any:
    at, zone = state
    made = _any.Timestamp(_of_numpy(numpy.datetime64, at))
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def _pack_timedelta(value: Any) -> Any:
    return value.to_timedelta64()


def _unpack_timedelta(state: Any) -> Any:
    return _any.Timedelta(_of_numpy(numpy.timedelta64, state))


def _of_numpy(kind: type, state: Any) -> Any:
    if type(state) is not kind:
        raise BadFrame(f"{type(state).__qualname__} stands where a {kind.__qualname__} belongs")
    return state


def _pack_period(value: Any) -> Any:
    return value.ordinal, value.freqstr


def _unpack_period(state: Any) -> Any:
    ordinal, freq = state
    return _any.Period(ordinal=ordinal, freq=freq)


def _pack_interval(value: Any) -> Any:
    return value.left, value.right, value.closed


def _unpack_interval(state: Any) -> Any:
    left, right, closed = state
    return pandas.Interval(left, right, closed)
