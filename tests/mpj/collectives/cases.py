"""One collective among random ranks, beside what it must give. A case is the same for every algorithm."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fastsock.mpj.collectives import blocks

from .operations import reduced


@dataclass(frozen=True)
class Case:
    size: int
    root: int
    items: int
    """about how many elements a rank contributes"""
    in_place: bool
    operation: Callable
    seed: int


class Check:
    """What each rank gives to the collective, and what must be in its buffers afterwards."""

    def __init__(self, case: Case):
        self.case = case
        self.random = random.Random(case.seed)
        self.results: list[tuple[bytearray, bytes]] = []

    def data(self, nbytes: int) -> bytearray:
        return bytearray(self.random.randbytes(nbytes))

    def expect(self, buffer: bytearray, content: bytes) -> memoryview:
        self.results.append((buffer, bytes(content)))
        return memoryview(buffer)

    def verify(self) -> None:
        for buffer, content in self.results:
            assert bytes(buffer) == content


def given(check: Check, content: bytes) -> memoryview:
    """A send buffer: it must be unchanged at the end."""
    return check.expect(bytearray(content), content)


def barrier(check):
    return [() for _ in range(check.case.size)]


def bcast(check):
    case = check.case
    data = check.data(case.items)
    return [
        (check.expect(bytearray(data) if rank == case.root else check.data(case.items), data), case.root)
        for rank in range(case.size)
    ]


def _counts(check, even):
    case = check.case
    return [case.items if even else check.random.choice([0, 1, case.items, 2 * case.items]) for _ in range(case.size)]


def _laid_out(check, counts, even):
    """Blocks of these sizes somewhere in a buffer: packed, or in random order with gaps; packed in order where they
    are even. (bytes, displacements)"""
    if even:
        return sum(counts), [check.case.items * rank for rank in range(len(counts))]
    order = list(range(len(counts)))
    packed = check.random.random() < 0.5
    if not packed:
        check.random.shuffle(order)
    displacements, at = [0] * len(counts), 0
    for rank in order:
        displacements[rank] = at
        at += counts[rank] + (0 if packed else 3)
    return at, displacements


def _with(content, parts, displacements):
    content = bytearray(content)
    for part, at in zip(parts, displacements, strict=True):
        content[at : at + len(part)] = part
    return content


def _scatter(check, even):
    case = check.case
    counts = _counts(check, even)
    nbytes, displacements = _laid_out(check, counts, even)
    content = check.data(nbytes)
    arguments = []
    for rank in range(case.size):
        mine = content[displacements[rank] : displacements[rank] + counts[rank]]
        send = blocks.counted(given(check, content), counts, displacements) if rank == case.root else None
        receive = check.expect(check.data(counts[rank]), mine)
        arguments.append((send, None if case.in_place and rank == case.root else receive, case.root))
        if arguments[-1][1] is None:
            check.results.pop()
    return arguments


def _gather(check, even, everywhere):
    case = check.case
    counts = _counts(check, even)
    nbytes, displacements = _laid_out(check, counts, even)
    parts = [check.data(count) for count in counts]
    arguments = []
    for rank in range(case.size):
        gets = everywhere or rank == case.root
        receive = send = None
        in_place = case.in_place and gets
        if gets:
            before = check.data(nbytes)
            if in_place:
                before = _with(before, [parts[rank]], [displacements[rank]])
            view = check.expect(before, _with(before, parts, displacements))
            receive = blocks.counted(view, counts, displacements)
        if not in_place:
            send = given(check, parts[rank])
        arguments.append((send, receive) if everywhere else (send, receive, case.root))
    return arguments


def _alltoall(check, even):
    case = check.case
    size = case.size
    counts = [_counts(check, even) for _ in range(size)]  # counts[i][j]: from i to j
    if case.in_place:  # then each gets as much from another as it gives to it
        counts = [[counts[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)]
    parts = [[check.data(counts[i][j]) for j in range(size)] for i in range(size)]
    arguments = []
    for rank in range(size):
        incoming = [counts[at][rank] for at in range(size)]
        nbytes, displacements = _laid_out(check, incoming, even)
        before = check.data(nbytes)
        send = None
        if case.in_place:
            before = _with(before, parts[rank], displacements)
        else:
            there, where = _laid_out(check, counts[rank], even)
            content = _with(check.data(there), parts[rank], where)
            send = blocks.counted(given(check, content), counts[rank], where)
        after = _with(before, [parts[at][rank] for at in range(size)], displacements)
        arguments.append((send, blocks.counted(check.expect(before, after), incoming, displacements)))
    return arguments


def _vectors(check):
    case = check.case
    return [check.data(case.items * case.operation.itemsize) for _ in range(case.size)]


def reduce(check):
    case = check.case
    vectors = _vectors(check)
    result = reduced(case.operation, vectors)
    arguments = []
    for rank, vector in enumerate(vectors):
        in_place = case.in_place and rank == case.root
        receive = None
        if rank == case.root:
            receive = check.expect(bytearray(vector) if in_place else check.data(len(vector)), result)
        arguments.append((None if in_place else given(check, vector), receive, case.operation, case.root))
    return arguments


def _everywhere(check, result):
    case = check.case
    vectors = _vectors(check)
    arguments = []
    for rank, vector in enumerate(vectors):
        before = bytearray(vector) if case.in_place else check.data(len(vector))
        expected = result(vectors, rank)
        receive = check.expect(before, before if expected is None else expected)
        arguments.append((None if case.in_place else given(check, vector), receive, case.operation))
    return arguments


def allreduce(check):
    return _everywhere(check, lambda vectors, rank: reduced(check.case.operation, vectors))


def scan(check):
    return _everywhere(check, lambda vectors, rank: reduced(check.case.operation, vectors[: rank + 1]))


def exscan(check):
    return _everywhere(check, lambda vectors, rank: reduced(check.case.operation, vectors[:rank]) if rank else None)


def _reduce_scatter(check, even):
    case = check.case
    counts = [count * case.operation.itemsize for count in _counts(check, even)]
    total = sum(counts)
    vectors = [check.data(total) for _ in range(case.size)]
    result = reduced(case.operation, vectors)
    bounds = [sum(counts[:rank]) for rank in range(case.size + 1)]
    arguments = []
    for rank, vector in enumerate(vectors):
        mine = result[bounds[rank] : bounds[rank + 1]]
        if case.in_place:
            whole = bytearray(vector)
            check.expect(whole, mine + vector[len(mine) :])
            send, receive = memoryview(whole), memoryview(whole)[: len(mine)]
        else:
            send, receive = given(check, vector), check.expect(check.data(len(mine)), mine)
        arguments.append((blocks.counted(send, counts, bounds[:-1]), receive, case.operation))
    return arguments


PRIMITIVES = {
    "barrier": barrier,
    "bcast": bcast,
    "scatter": partial(_scatter, even=True),
    "scatterv": partial(_scatter, even=False),
    "gather": partial(_gather, even=True, everywhere=False),
    "gatherv": partial(_gather, even=False, everywhere=False),
    "allgather": partial(_gather, even=True, everywhere=True),
    "allgatherv": partial(_gather, even=False, everywhere=True),
    "alltoall": partial(_alltoall, even=True),
    "alltoallv": partial(_alltoall, even=False),
    "alltoallw": partial(_alltoall, even=False),
    "reduce": reduce,
    "allreduce": allreduce,
    "scan": scan,
    "exscan": exscan,
    "reduce_scatter": partial(_reduce_scatter, even=False),
    "reduce_scatter_block": partial(_reduce_scatter, even=True),
}
"""Functions of a Check that give each rank's arguments."""
