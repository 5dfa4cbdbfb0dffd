"""Tensors of this host's memory. They travel as arrays, and are made of the arrays that arrive, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch

from ...errors import BadFrame, NotPackable

# Types that numpy has not travel as words of the same size.
_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_OF_NUMPY = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
}  # fmt: skip
_DTYPES = {str(found).removeprefix("torch."): found for found in vars(torch).values() if isinstance(found, torch.dtype)}


def register_values(register: Callable[..., None]) -> None:
    register(torch.Tensor, name="torch:Tensor", pack=_pack, unpack=_unpack)
    register(
        torch.nn.Parameter, name="torch:Parameter", pack=_pack,
        unpack=lambda state: torch.nn.Parameter(_made(state), _requires_grad(state)),
    )  # fmt: skip
    register(torch.Size, name="torch:Size", pack=tuple, unpack=lambda state: torch.Size(_sizes(state)))
    register(torch.dtype, name="torch:dtype", pack=_name_of, unpack=_dtype_of)
    register(
        torch.device, name="torch:device", pack=lambda value: (value.type, value.index),
        unpack=lambda state: torch.device(*state),
    )  # fmt: skip


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtype_of(name: Any) -> torch.dtype:
    if type(name) is not str or name not in _DTYPES:
        raise ValueError(f"this version of torch has no dtype {name!r}: install the peer's")
    return _DTYPES[name]


def _sizes(state: Any) -> Any:
    if type(state) is not tuple or not all(type(each) is int for each in state):
        raise BadFrame("the sizes of a tensor are no numbers")
    return state


def _pack(value: torch.Tensor) -> Any:
    what = f"a tensor on {value.device}"
    if value.device.type != "cpu":
        raise NotPackable(f"{what} is not in this host's memory: send tensor.cpu()")
    if value.layout is not torch.strided or value.is_quantized or value.is_nested:
        raise NotPackable(f"{what} of the layout {value.layout} and type {value.dtype} is no plain memory: "
                          "send tensor.to_dense(), or tensor.dequantize()")  # fmt: skip
    if value.requires_grad and not value.is_leaf:
        raise NotPackable("a tensor that was computed from others leaves its gradient behind: send tensor.detach()")
    plain = value.detach().resolve_conj().resolve_neg()
    if value.dtype not in _OF_NUMPY:
        words = _WORDS.get(value.element_size())
        if words is None:
            raise NotPackable(f"a tensor of {value.dtype} has items of a size that no word has: send tensor.to(...)")
        plain = plain.contiguous().view(words)
    return plain.numpy(), _name_of(value.dtype), value.requires_grad


def _made(state: Any) -> torch.Tensor:
    array, name, _ = state
    if type(array) is not numpy.ndarray:
        raise BadFrame(f"a tensor is made of {type(array).__qualname__}")
    made = torch.from_numpy(array)
    dtype = _dtype_of(name)
    if made.dtype is dtype:
        return made
    if dtype in _OF_NUMPY or made.dtype is not _WORDS.get(dtype.itemsize):
        raise BadFrame(f"a tensor of {dtype} is made of {made.dtype}")
    return made.view(dtype)


def _requires_grad(state: Any) -> bool:
    return bool(state[2])


def _unpack(state: Any) -> torch.Tensor:
    return _made(state).requires_grad_(_requires_grad(state))
