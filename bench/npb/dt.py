"""NPB's DT: streams of features flow through a graph, a rank for each node (DT/dt.c).

A source makes features, a comparator merges those that it receives, a sink reduces them to a number, and rank 0 adds
the sinks' numbers. Each arc carries two blocking messages: the length, then the features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from mpi4py import MPI
from npb import constants, dt_graphs, generator
from ranks.kernel import Kernel, Verification

FIELDS = 4  # numbers of a feature
BASES, PRIMES = (2, 2, 2, 5), (421, 419, 1427, 3527)  # RandomFeatures
KEPT, NEXT, BEFORE, UNTOUCHED = 0, 1, 2, 3  # which feature of the other stream has taken a place


class Numpy:
    def features(self, count: int, node: int) -> np.ndarray:
        """A source's stream: four geometric sequences modulo primes."""
        exponent = count * FIELDS * (node + 1) % 3141592
        made = np.empty((count, FIELDS))
        for column, (base, prime) in enumerate(zip(BASES, PRIMES, strict=True)):
            powers = _powers(base, prime)
            made[:, column] = powers[(exponent + 1 + np.arange(count)) % (prime - 1)]
        return made.reshape(-1)

    def nothing(self, length: int) -> np.ndarray:
        """What a comparator has before its first stream."""
        return np.zeros(length)

    def merge(self, mine: np.ndarray, other: np.ndarray, node: int) -> np.ndarray:
        """Each feature becomes the nearest of three neighbours in the other stream (WindowFilter).

        The comparison with the feature before sees what has already been put there. So a place depends on the choice at
        the place before: choices are functions of choices, and are composed over all places by doubling.
        """
        if len(mine) < len(other):
            mine = _resampled(mine, len(other))
        elif len(mine) > len(other):
            other = _resampled(other, len(mine))
        weight = (node + 1.0) / (node + 2.0)
        a, b = mine.reshape(-1, FIELDS), other.reshape(-1, FIELDS)
        if len(a) < 3:
            return mine
        distance = _distance(a, b)
        best = distance[1:-1].copy()
        ahead = distance[2:] < best
        np.minimum(best, distance[2:], out=best)
        forward = np.where(ahead, NEXT, KEPT)
        # the distance of the place before, by what it holds now
        held = np.stack([weight * b[1:-1], weight * b[2:], weight * b[:-2]])
        choices = np.empty((len(forward), 4), np.int8)
        for choice in (KEPT, NEXT, BEFORE):
            choices[1:, choice] = np.where(_distance(held[choice, :-1], b[1:-2]) < best[1:], BEFORE, forward[1:])
        choices[1:, UNTOUCHED] = choices[1:, KEPT]  # never asked
        choices[0] = np.where(distance[0] < best[0], BEFORE, forward[0])
        chosen = _composed(choices)
        a[1:-1] = held[chosen, np.arange(len(chosen))]
        return mine

    def divide(self, stream: np.ndarray, streams: int) -> None:
        """Whole numbers, by how many streams went in."""
        np.trunc(stream, out=stream)
        stream /= streams
        np.trunc(stream, out=stream)

    def check(self, stream: np.ndarray, node: int) -> float:
        """Reduce and CheckVal: the mean square, summed in order, since it is cut to a whole number."""
        squares = stream * stream / len(stream)
        return float(int((node + 1) * np.add.accumulate(squares)[-1]))


class Skeleton(Numpy):
    def features(self, count: int, node: int) -> np.ndarray:
        return np.zeros(count * FIELDS)

    def merge(self, mine: np.ndarray, other: np.ndarray, node: int) -> np.ndarray:
        return mine if len(mine) >= len(other) else np.zeros(len(other))

    def divide(self, stream: np.ndarray, streams: int) -> None:
        pass

    def check(self, stream: np.ndarray, node: int) -> float:
        return 0.0


class DT(Kernel):
    """A graph's flow; the graphs are below."""

    problems: ClassVar[Mapping[str, Any]] = constants.DT
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "skeleton": Skeleton}
    counted = "bytes transmitted"
    graph_name: ClassVar[str]
    build: ClassVar[Callable[[int], dt_graphs.Graph]]

    def __init__(self, comm: Any, problem: str, arithmetic: Numpy) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = constants.DT[problem]
        self.graph = type(self).build(self.of.sources)
        self.me = comm.Get_rank()
        self.size = str(self.of.samples * FIELDS)
        self.iterations = len(self.graph.nodes)
        self.total = 0.0

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        nodes = len(cls.build(constants.DT[problem].sources).nodes)
        return lambda ranks: ranks >= nodes

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        # two streams and a buffer; merging has three candidates, five distances, and choices that are composed
        of = constants.DT[problem]
        return ranks * (of.samples + of.deviation) * FIELDS * 8 * 14

    def prepare(self) -> None:
        longest = (self.of.samples + self.of.deviation) * FIELDS
        self.length, self.incoming = np.empty(1, np.intc), np.empty(longest)
        self.result = np.empty(1)

    def run(self) -> None:
        if self.me >= len(self.graph.nodes):
            return
        node = self.graph.nodes[self.me]
        if not node.incoming:
            self._send(node, self.arithmetic.features(self._source_length(), self.me))
        elif node.outgoing:
            self._send(node, self._combine(node))
        else:
            self._reduce(node)
        if self.me == 0:
            for sink in self.graph.sinks:
                self.comm.Recv([self.result, 1, MPI.DOUBLE], sink, self.graph.arcs + sink)
                self.total += float(self.result[0])

    def _source_length(self) -> int:
        """GetFeatureNum: how many features this source makes. The products wrap as C's int does."""
        chance, _ = generator.randlc(generator.SEED, 2 * self.me + 1)
        drawn = _power(int(1 / chance) * ord("S"), 2 * self.me + 1, 2 * self.of.deviation)
        return self.of.samples - self.of.deviation + abs(drawn)

    def _send(self, node: dt_graphs.Node, stream: np.ndarray) -> None:
        self.length[0] = len(stream)
        for arc, head in node.outgoing:
            self.comm.Send([self.length, 1, MPI.INT], head, arc)
            self.comm.Send([stream, len(stream), MPI.DOUBLE], head, arc)

    def _receive(self, arc: int, tail: int) -> np.ndarray:
        self.comm.Recv([self.length, 1, MPI.INT], tail, arc)
        stream = self.incoming[: int(self.length[0])]
        self.comm.Recv([stream, len(stream), MPI.DOUBLE], tail, arc)
        return stream

    def _combine(self, node: dt_graphs.Node) -> np.ndarray:
        mine = self.arithmetic.nothing(self.of.samples * FIELDS)
        for arc, tail in node.incoming:
            mine = self.arithmetic.merge(mine, self._receive(arc, tail), self.me)
        self.arithmetic.divide(mine, len(node.incoming))
        return mine

    def _reduce(self, node: dt_graphs.Node) -> None:
        checks = sum(self.arithmetic.check(self._receive(arc, tail), self.me) for arc, tail in node.incoming)
        self.result[0] = (self.me + 1) * (int(checks) // len(node.incoming))
        self.comm.Send([self.result, 1, MPI.DOUBLE], 0, self.graph.arcs + self.me)

    def verify(self) -> Verification:
        due = self.of.checks[self.graph_name]
        error = abs(self.total - due)
        accepted = constants.DT_ACCEPTED
        return Verification(error <= accepted, [("sum of the sinks", self.total, due, error, accepted)])

    def operations(self) -> float:
        # NPB tells 2^20 numbers a second where others have Mop/s
        return self.of.samples * FIELDS * self.graph.arcs / (1 << 20) * 1e6


class BlackHole(DT):
    name = "DT-BH"
    graph_name = "BH"
    build = staticmethod(dt_graphs.black_hole)


class WhiteHole(DT):
    name = "DT-WH"
    graph_name = "WH"
    build = staticmethod(dt_graphs.white_hole)


class Shuffle(DT):
    name = "DT-SH"
    graph_name = "SH"
    build = staticmethod(dt_graphs.shuffle)


def _powers(base: int, prime: int) -> np.ndarray:
    """base^0, base^1, ... base^(prime - 2), mod prime."""
    powers = np.ones(prime - 1, np.int64)
    done = 1
    while done < len(powers):
        more = min(done, len(powers) - done)
        powers[done : done + more] = powers[:more] * pow(base, done, prime) % prime
        done += more
    return powers


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squares = (a - b) ** 2
    return squares[:, 0] + squares[:, 1] + squares[:, 2] + squares[:, 3]


def _composed(choices: np.ndarray) -> np.ndarray:
    """choices[i, c]: what place i takes where the place before took c. Returns what each takes."""
    functions = choices.copy()
    step = 1
    while step < len(functions):
        functions[step:] = np.take_along_axis(functions[step:], functions[:-step].astype(np.intp), axis=1)
        step *= 2
    return functions[:, UNTOUCHED].astype(np.intp)


def _resampled(stream: np.ndarray, length: int) -> np.ndarray:
    """Resample: each number spreads over the places that it covers in a longer stream."""
    ratio = length // len(stream)
    inner = np.arange(1, len(stream) - 1)
    low, high = (0.5 * (2 * inner - 1) * ratio).astype(np.intp), (0.5 * (2 * inner + 1) * ratio).astype(np.intp)
    covered = high - low + 1
    made = np.zeros(length)
    for away in range(int(covered.max())):
        reached = away < covered
        # low rises: no place twice
        made[low[reached] + away] += (stream[1:-1] / covered)[reached]
    made[0], made[-1] = stream[0], stream[-1]
    return made


def _int(value: int) -> int:
    """What C's int makes of a product that does not fit."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _remainder(value: int, divisor: int) -> int:
    """C's %, whose sign is the value's."""
    return value % divisor if value >= 0 else -(-value % divisor)


def _power(base: int, exponent: int, modulus: int) -> int:
    """ipowMod."""
    q, r = _int(base), 1
    while exponent > 1:
        if exponent % 2:
            r = _remainder(_int(r * q), modulus)
            exponent -= 1
        else:
            q = _remainder(_int(q * q), modulus)
            exponent //= 2
    return _remainder(_int(r * q), modulus)
