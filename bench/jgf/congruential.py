"""Linear congruential generators modulo a power of two, whole vectors at a time."""

from __future__ import annotations

import numpy as np


def sequence(state: int, multiplier: int, increment: int, bits: int, length: int) -> np.ndarray:
    """The `length` states after `state`, as uint64: x becomes (multiplier x + increment) modulo 2^bits.

    What is known is doubled by jumping over it. Products of uint64 wrap modulo 2^64, so the low `bits` are exact.
    """
    mask = (1 << bits) - 1
    states = np.empty(length, np.uint64)
    states[:1] = (multiplier * state + increment) & mask
    known = 1
    while known < length:
        step = min(known, length - known)
        new = states[known : known + step]
        np.multiply(states[:step], np.uint64(multiplier), out=new)
        new += np.uint64(increment)
        new &= np.uint64(mask)
        multiplier, increment = multiplier * multiplier & mask, (multiplier + 1) * increment & mask
        known += step
    return states
