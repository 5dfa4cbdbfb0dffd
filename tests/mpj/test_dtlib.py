"""numpy's data types as MPI's and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy

from fastsock.mpj.util import dtlib

NO_COMM: Any = None
NATIVE = st.sampled_from(["?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "g", "F", "D"]).map(np.dtype)
ARRAYS = of_numpy.array_dtypes(NATIVE, min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(ARRAYS, st.booleans())
def test_there_and_back(dtype: np.dtype, align: bool) -> None:
    dtype = np.dtype([(f"f{i}", dtype.fields[name][0]) for i, name in enumerate(dtype.names)], align=align)
    datatype = dtlib.from_numpy_dtype(dtype)
    assert datatype.extent == dtype.itemsize
    assert dtlib.to_numpy_dtype(datatype) == dtype


def test_packed_fields_are_the_array_without_padding() -> None:
    fields = [("a", "i1"), ("b", "f8"), ("c", "i2", 3)]
    dtype = np.dtype(fields, align=True)
    datatype = dtlib.from_numpy_dtype(dtype).Commit()
    source = np.array([(1, 2.5, [3, 4, 5]), (-1, 0.5, [6, 7, 8])], dtype)
    packed = bytearray(2 * datatype.size)
    datatype.Pack(source, packed, 0, NO_COMM)
    assert (np.frombuffer(packed, fields) == source.astype(fields)).all()


@pytest.mark.parametrize("dtype", ["O", ">i4", [("a", "O")]])
def test_what_has_no_equal_is_refused(dtype: object) -> None:
    with pytest.raises(ValueError, match="NumPy datatype"):
        dtlib.from_numpy_dtype(np.dtype(dtype))
