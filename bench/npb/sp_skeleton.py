"""SP without its arithmetic: the same messages of the same lengths, from and into the same arrays."""

from __future__ import annotations

import numpy as np
from npb.sp_arithmetic import Numpy
from npb.sp_field import Field, Lines


class Skeleton(Numpy):
    """Computes nothing and copies nothing."""

    def initialize(self, field: Field) -> None:
        field.u.fill(0.0)
        for lines in field.lines:
            lines.eliminated.fill(0.0)
            lines.solved.fill(0.0)

    def force(self, field: Field) -> None:
        pass

    def pack(self, face: np.ndarray, buffer: np.ndarray) -> None:
        pass

    def unpack(self, buffer: np.ndarray, face: np.ndarray) -> None:
        pass

    def add(self, field: Field) -> None:
        pass

    def right_hand_side(self, field: Field) -> None:
        pass

    def precondition(self, field: Field) -> None:
        pass

    def left_hand_side(self, lines: Lines) -> None:
        pass

    def eliminate(self, lines: Lines) -> None:
        pass

    def substitute(self, lines: Lines) -> None:
        pass

    def invert(self, field: Field, axis: int) -> None:
        pass

    def error(self, field: Field) -> np.ndarray:
        return np.zeros(5)

    def residual(self, field: Field) -> np.ndarray:
        return np.zeros(5)
