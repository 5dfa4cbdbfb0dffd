"""Reductions on bytes: exact, so that every order that is allowed gives the same to the bit."""

from __future__ import annotations

import numpy as np

from fastsock.core.binding import _team as native


class Sum:
    """Bytes, added; any order."""

    commutative, itemsize, kernel = True, 1, None

    def __call__(self, source, target):
        there = np.frombuffer(target, np.uint8)
        np.add(np.frombuffer(source, np.uint8), there, out=there)


class NativeSum(Sum):
    """The same, which the native kernels know."""

    kernel = (native.TYPES["UINT8"], native.OPERATIONS["SUM"])


class Product:
    """Matrices of 2 by 2 bytes, multiplied; only in the order of the ranks."""

    commutative, itemsize, kernel = False, 4, None

    def __call__(self, source, target):
        there = np.frombuffer(target, np.uint8).reshape(-1, 2, 2)
        there[...] = np.matmul(np.frombuffer(source, np.uint8).reshape(-1, 2, 2), there)


def reduced(operation, vectors):
    """What the vectors give together."""
    result = bytearray(vectors[-1])
    for vector in reversed(vectors[:-1]):
        operation(vector, result)
    return bytes(result)
