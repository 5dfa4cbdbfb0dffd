"""Arrays that do not speak the buffer protocol but one of the array libraries': DLPack, or CUDA's array interface.

Memory of a device is taken where the processor can read it too (managed memory); other memory of a device is refused.
"""

from __future__ import annotations

import sys

from . import _memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_CPU = 1
_REACHABLE = (_CPU, 3, 11, 13)  # also pinned host memory of CUDA and ROCm, and managed memory
_CUDA = 2
_NEWEST = (1, 0)
# DLPack's codes of kinds of numbers
_INT, _UNSIGNED, _FLOAT, _COMPLEX, _BOOL = 0, 1, 2, 5, 6
_NATIVE = "<" if sys.byteorder == "little" else ">"

_FORMATS = {
    "b": {1: "?"},
    "i": {1: "b", 2: "h", 4: "i", 8: "l"},
    "u": {1: "B", 2: "H", 4: "I", 8: "L"},
    "f": {2: "e", 4: "f", 8: "d", _memory.LONG_DOUBLE_SIZE: "g"},
    "c": {4: "Ze", 8: "Zf", 16: "Zd", 2 * _memory.LONG_DOUBLE_SIZE: "Zg"},
}
_KINDS = {_INT: "i", _UNSIGNED: "u", _FLOAT: "f", _COMPLEX: "c", _BOOL: "b"}


def buffer_of(source: Any, readonly: bool) -> _memory.buffer | None:
    """Returns the memory of a foreign array; None for any other object. Raises BufferError or the array's error."""
    if hasattr(source, "__dlpack__") and hasattr(source, "__dlpack_device__"):
        found = _dlpack(source, readonly)
    elif hasattr(source, "__cuda_array_interface__"):
        found = _cuda(source, readonly)
    else:
        return None
    return found


def _dlpack(source: Any, readonly: bool) -> _memory.buffer:
    device, number = source.__dlpack_device__()
    if not isinstance(device, int) or not isinstance(number, int):
        raise TypeError("dlpack: a device is two integers")
    where: dict[str, Any] = {} if device == _CPU else {"stream": -1}
    versioned = True
    try:
        capsule = source.__dlpack__(max_version=_NEWEST, copy=False, **where)
    except TypeError:
        versioned = False
        capsule = source.__dlpack__(**where)
    # one that is asked for the newer form may give the older one all the same
    tensor = _memory.tensor(capsule, versioned) or _memory.tensor(capsule, False)
    if tensor is None:
        raise BufferError("dlpack: invalid capsule object")
    address, shape, strides, (code, bits, lanes), fixed, major = tensor
    if major is not None and major < _NEWEST[0]:
        raise BufferError("dlpack: unexpected version")
    if any(extent < 0 for extent in shape):
        raise BufferError("dlpack: shape item is negative")
    if strides is not None:
        if any(stride < 0 for stride in strides):
            raise BufferError("dlpack: strides item is negative")
        if not _is_contiguous(shape, strides, 1):
            raise BufferError("dlpack: buffer is not contiguous")
    if fixed and not readonly:
        raise BufferError("dlpack: buffer is not writable")
    size = (bits * lanes + 7) // 8
    if lanes == 1:
        format_ = _FORMATS.get(_KINDS.get(code, ""), {}).get(size, "")
    else:
        format_ = _FORMATS["c"].get(size, "") if code == _FLOAT and lanes == 2 else ""
    return _described(capsule, address, _product(shape) * size, format_, size, bool(fixed), device)


def _cuda(source: Any, readonly: bool) -> _memory.buffer:
    interface = source.__cuda_array_interface__
    if not isinstance(interface, dict):
        raise TypeError("__cuda_array_interface__: expecting a dict")
    data, kind, shape = interface["data"], interface["typestr"], interface["shape"]
    strides = interface.get("strides")
    for name, value, type_ in (("data", data, tuple), ("typestr", kind, str), ("shape", shape, tuple)):
        if not isinstance(value, type_):
            raise TypeError(f"__cuda_array_interface__: {name} is no {type_.__name__}")
    if strides is not None and not isinstance(strides, tuple):
        raise TypeError("__cuda_array_interface__: strides is no tuple")
    address, fixed = data
    order, size = kind[:1], int(kind[2:])
    if any(not isinstance(extent, int) for extent in (*shape, *(strides or ()))):
        raise TypeError("__cuda_array_interface__: shape and strides are integers")
    if _product(shape) < 0:
        raise BufferError(f"__cuda_array_interface__: buffer with negative size (shape:{shape})")
    if address is None and _product(shape) == 0:
        address = 0
    if not isinstance(address, int):
        raise TypeError("__cuda_array_interface__: the address is no integer")
    if order not in ("|", _NATIVE):
        raise BufferError(f"__cuda_array_interface__: typestr {kind!r} with non-native byte order")
    if interface.get("mask") is not None:
        raise BufferError("__cuda_array_interface__: cannot handle masked arrays")
    if strides is not None and not _is_contiguous(shape, strides, size):
        raise BufferError(f"__cuda_array_interface__: buffer is not contiguous (shape:{shape}, strides:{strides})")
    if fixed and not readonly:
        raise BufferError("__cuda_array_interface__: buffer is not writable")
    description = interface.get("descr")
    if description is not None and (len(description) != 1 or description[0] != ("", kind)):
        import warnings

        warnings.warn("__cuda_array_interface__: ignoring 'descr' key", RuntimeWarning, stacklevel=2)
    format_ = _FORMATS.get(kind[1:2], {}).get(size, "")
    return _described(source, address, _product(shape) * size, format_, size, bool(fixed), _CUDA)


def _described(
    owner: Any, address: int, nbytes: int, format_: str, itemsize: int, readonly: bool, device: int
) -> _memory.buffer:
    if device != _CPU and not _memory.is_readable(address, nbytes):
        raise BufferError("buffer is on a device and not CPU-accessible: copy it to the host first")
    return _memory.describe(owner, format_, itemsize, address, nbytes, readonly, device not in _REACHABLE)


def _product(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    def follows(dimensions: Sequence[tuple[int, int]]) -> bool:
        expected = itemsize
        for extent, stride in dimensions:
            if extent > 1 and stride != expected:
                return False
            expected *= extent
        return True

    dimensions = list(zip(shape, strides, strict=True))
    return follows(dimensions) or follows(dimensions[::-1])
