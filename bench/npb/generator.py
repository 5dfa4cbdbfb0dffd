"""NPB's generator, exactly: x(k+1) = a x(k) mod 2^46, as doubles in (0, 1). From common/randdp.f (randlc, vranlc).

A product of two numbers below 2^46 wraps in uint64, and 2^46 divides 2^64: the low 46 bits are right. So whole vectors
are made by multiplying what is there by a power of a.
"""

from __future__ import annotations

import numpy as np

A = 5**13
SEED = 314159265  # of CG, FT, IS and MG
SEED_EP = 271828183  # EP/ep_data.f
BITS = 46
MASK = (1 << BITS) - 1
SCALE = 2.0**-BITS
BLOCK = 1 << 15  # numbers made at a time: they stay in the nearest caches


def randlc(seed: int, a: int = A) -> tuple[float, int]:
    """One number in (0, 1), and the next seed."""
    seed = seed * a & MASK
    return seed * SCALE, seed


def jump(seed: int, steps: int, a: int = A) -> int:
    """The seed that ``steps`` numbers later is the generator's."""
    return seed * pow(a, steps, 1 << BITS) & MASK


def uniform(seed: int, count: int, a: int = A, out: np.ndarray | None = None) -> np.ndarray:
    """The next ``count`` numbers, float64 in (0, 1); into ``out`` where it is given."""
    if out is None:
        out = np.empty(count)
    powers = _powers(a, min(count, BLOCK))
    states = np.empty_like(powers)
    mask = np.uint64(MASK)
    for begin in range(0, count, BLOCK):
        length = min(BLOCK, count - begin)
        np.multiply(powers[:length], np.uint64(seed), out=states[:length])
        np.bitwise_and(states[:length], mask, out=states[:length])
        np.multiply(states[:length], SCALE, out=out[begin : begin + length])
        seed = jump(seed, length, a)
    return out


def _powers(a: int, count: int) -> np.ndarray:
    """a, a^2, ... a^count, mod 2^46: each doubling multiplies what is there."""
    powers = np.empty(count, np.uint64)
    if count:
        powers[0] = a
    done = 1
    while done < count:
        more = min(done, count - done)
        np.multiply(powers[:more], np.uint64(pow(a, done, 1 << BITS)), out=powers[done : done + more])
        np.bitwise_and(powers[done : done + more], np.uint64(MASK), out=powers[done : done + more])
        done += more
    return powers
