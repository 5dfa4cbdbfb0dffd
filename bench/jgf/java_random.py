"""java.util.Random, exactly, whole vectors at a time: JGF's data come from it.

Its documentation gives the generator: 48 bits, multiplier 0x5DEECE66D, increment 11, the seed xored with the
multiplier. next(b) is the upper b bits of a state.
"""

from __future__ import annotations

import numpy as np
from jgf.congruential import sequence

MULTIPLIER = 0x5DEECE66D
INCREMENT = 0xB
BITS = 48


class JavaRandom:
    def __init__(self, seed: int) -> None:
        self._state = (seed ^ MULTIPLIER) & ((1 << BITS) - 1)

    def states(self, length: int) -> np.ndarray:
        """The next states, for sequences in which ints and doubles alternate."""
        states = sequence(self._state, MULTIPLIER, INCREMENT, BITS, length)
        if length:
            self._state = int(states[-1])
        return states

    def ints(self, length: int) -> np.ndarray:
        """nextInt() `length` times, as int32."""
        return as_ints(self.states(length))

    def doubles(self, length: int) -> np.ndarray:
        """nextDouble() `length` times: two states each."""
        states = self.states(2 * length)
        return as_doubles(states[0::2], states[1::2])


def as_ints(states: np.ndarray) -> np.ndarray:
    """What nextInt() makes of each state, as int32: next(32)."""
    return (states >> np.uint64(BITS - 32)).astype(np.uint32).view(np.int32)


def as_doubles(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """What nextDouble() makes of each two states: next(26) above next(27), over 2^53."""
    bits = first >> np.uint64(BITS - 26)
    bits <<= np.uint64(27)
    bits += second >> np.uint64(BITS - 27)
    return bits.astype(np.float64) * 2.0**-53
