"""The faces that SP's cells exchange with one neighbour: one message each way for all cells together.

From SP/copy_faces.f and SP/define.f: two planes of u of each cell, of all cells that have a neighbour on that side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from npb.sp_field import HALO, Field
from npb.sp_partition import Partition

# by direction
TO_SUCCESSOR, TO_PREDECESSOR = (2000, 4000, 7000), (3000, 5000, 6000)


class Face:
    """One side of a rank's cells along a direction: behind them, or before them."""

    def __init__(self, partition: Partition, fields: Sequence[Field], axis: int, behind: bool) -> None:
        there, back = TO_SUCCESSOR[axis], TO_PREDECESSOR[axis]
        if behind:
            self.rank, self.send_tag, self.receive_tag = partition.successor[axis], there, back
        else:
            self.rank, self.send_tag, self.receive_tag = partition.predecessor[axis], back, there
        planes = []
        for field in fields:
            size = field.cell.size[axis]
            if behind and not field.cell.ends[axis]:
                planes.append((field.face(axis, size - HALO, size), field.face(axis, size, size + HALO)))
            elif not behind and not field.cell.starts[axis]:
                planes.append((field.face(axis, 0, HALO), field.face(axis, -HALO, 0)))
        length = sum(own.size for own, _ in planes)
        self.sent, self.received = np.zeros(length), np.zeros(length)
        # (plane of u, its place in the buffer), and the reverse
        self.leaving, self.arriving = [], []
        begin = 0
        for own, theirs in planes:
            end = begin + own.size
            self.leaving.append((own, self.sent[begin:end].reshape(own.shape)))
            self.arriving.append((self.received[begin:end].reshape(own.shape), theirs))
            begin = end
