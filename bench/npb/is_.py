"""IS: integer keys ranked by buckets (NPB 3.4, IS/is.c).

An iteration counts each rank's keys by bucket (Allreduce), deals the buckets out so that every rank gets about as many
keys (Alltoall of the counts, Alltoallv of the keys), and ranks what came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from mpi4py import MPI
from npb import constants, generator
from ranks.kernel import Kernel, Verification, power_of_two

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TESTED = 5  # keys whose ranks are known
CHUNK = 1 << 18  # keys generated at a time
TO_NEIGHBOUR = 1000


class Deal(NamedTuple):
    """Which keys go where in one iteration. Counts and places are int32, one for each rank."""

    counts: np.ndarray
    places: np.ndarray
    first: int  # this rank's buckets are first..last, none where last < first
    last: int
    lesser: int  # keys on the ranks before


class Numpy:
    """IS's arithmetic in vectors."""

    def keys(self, seed: int, highest: int, out: np.ndarray) -> None:
        """Each key is a quarter of highest times the sum of four random numbers (create_seq of IS/is.c)."""
        for begin in range(0, len(out), CHUNK):
            part = out[begin : begin + CHUNK]
            four = generator.uniform(generator.jump(seed, 4 * begin), 4 * len(part)).reshape(-1, 4)
            part[:] = (highest // 4) * (((four[:, 0] + four[:, 1]) + four[:, 2]) + four[:, 3])

    def take_lengths(self, keys: int, shift: int, buckets: int) -> None:
        self.shift, self.buckets = shift, buckets
        self.bucket = np.empty(keys, np.int32)
        self.short = np.empty(keys, np.uint16)

    def into_buckets(self, keys: np.ndarray, out: np.ndarray, sizes: np.ndarray) -> None:
        """The keys in the order of their buckets, and how many each bucket has."""
        np.right_shift(keys, self.shift, out=self.bucket)
        self.short[:] = self.bucket
        sizes[:] = np.bincount(self.short, minlength=self.buckets)
        np.take(keys, np.argsort(self.short, kind="stable"), out=out, mode="clip")

    def deal(self, totals: np.ndarray, own: np.ndarray, share: int, rank: int, ranks: int) -> Deal:
        """A rank's buckets end where the running total reaches its share; one each at least, while there are any."""
        running = np.cumsum(totals, dtype=np.int64)
        before = np.concatenate(([0], np.cumsum(own, dtype=np.int64)))
        ends = np.searchsorted(running, np.arange(1, ranks + 1, dtype=np.int64) * share) + 1
        ends = np.minimum(np.maximum.accumulate(ends - np.arange(ranks)) + np.arange(ranks), self.buckets)
        begins = np.concatenate(([0], ends[:-1]))
        counts = (before[ends] - before[begins]).astype(np.int32)
        first = int(begins[rank])
        return Deal(
            counts, before[begins].astype(np.int32), first, int(ends[rank]) - 1, int(running[first - 1]) if first else 0
        )

    def received(self, counts: np.ndarray) -> tuple[np.ndarray, int]:
        """Where each rank's keys begin, and how many come in all."""
        ends = np.cumsum(counts, dtype=np.int32)
        return ends - counts, int(ends[-1])

    def ranking(self, keys: np.ndarray, lowest: int, out: np.ndarray) -> None:
        """out[k] = how many keys are at most lowest + k."""
        np.subtract(keys, lowest, out=keys)
        np.cumsum(np.bincount(keys, minlength=len(out)), out=out)
        np.add(keys, lowest, out=keys)

    def look_up(self, test_keys: np.ndarray, ranking: np.ndarray, lowest: int, lesser: int, out: np.ndarray) -> None:
        """The ranks of those of the tested keys that are here; the other entries of out stay."""
        here = np.flatnonzero((test_keys >= lowest) & (test_keys < lowest + len(ranking)))
        places = test_keys[here] - lowest - 1
        out[here] = np.where(places >= 0, ranking[places], 0) + lesser


class Numba(Numpy):
    """The two loops over keys, compiled: sorting into buckets and counting."""

    def __init__(self) -> None:
        import numba

        @numba.njit
        def into_buckets(keys, shift, out, sizes, places):  # type: ignore[no-untyped-def]
            sizes[:] = 0
            for key in keys:
                sizes[key >> shift] += 1
            total = 0
            for bucket in range(len(sizes)):
                places[bucket] = total
                total += sizes[bucket]
            for key in keys:
                place = places[key >> shift]
                out[place] = key
                places[key >> shift] = place + 1

        @numba.njit
        def ranking(keys, lowest, out):  # type: ignore[no-untyped-def]
            out[:] = 0
            for key in keys:
                out[key - lowest] += 1
            for place in range(1, len(out)):
                out[place] += out[place - 1]

        self._into_buckets, self._ranking = into_buckets, ranking

    def take_lengths(self, keys: int, shift: int, buckets: int) -> None:
        self.shift, self.buckets = shift, buckets
        self.places = np.empty(buckets, np.int32)

    def into_buckets(self, keys: np.ndarray, out: np.ndarray, sizes: np.ndarray) -> None:
        self._into_buckets(keys, self.shift, out, sizes, self.places)

    def ranking(self, keys: np.ndarray, lowest: int, out: np.ndarray) -> None:
        self._ranking(keys, lowest, out)


class Skeleton(Numpy):
    """The same messages. Their lengths depend on the keys: a rehearsal finds them, and nothing is computed after it."""

    def __init__(self) -> None:
        self.rehearsed: list[Any] = []
        self.replayed = 0
        self.rehearsing = True

    def begin(self) -> None:
        self.rehearsing = False

    def into_buckets(self, keys: np.ndarray, out: np.ndarray, sizes: np.ndarray) -> None:
        if self.rehearsing:
            super().into_buckets(keys, out, sizes)

    def deal(self, totals: np.ndarray, own: np.ndarray, share: int, rank: int, ranks: int) -> Deal:
        if self.rehearsing:
            self.rehearsed.append(super().deal(totals, own, share, rank, ranks))
            return self.rehearsed[-1]
        return self._next()

    def received(self, counts: np.ndarray) -> tuple[np.ndarray, int]:
        if self.rehearsing:
            self.rehearsed.append(super().received(counts))
            return self.rehearsed[-1]
        return self._next()

    def _next(self) -> Any:
        self.replayed += 1
        return self.rehearsed[self.replayed - 1]

    def ranking(self, keys: np.ndarray, lowest: int, out: np.ndarray) -> None:
        pass

    def look_up(self, test_keys: np.ndarray, ranking: np.ndarray, lowest: int, lesser: int, out: np.ndarray) -> None:
        pass


class IS(Kernel):
    """Ten rankings of one set of keys, two of which change each time."""

    name = "IS"
    counted = "keys ranked"
    problems = constants.IS
    arithmetics: ClassVar[Mapping[str, type]] = {"numpy": Numpy, "numba": Numba, "skeleton": Skeleton}

    def __init__(self, comm: Any, problem: str, arithmetic: Any) -> None:
        super().__init__(comm, problem, arithmetic)
        self.of = self.problems[problem]
        self.iterations = self.of.iterations
        self.total, self.highest = 1 << self.of.keys_log2, 1 << self.of.highest_log2
        self.size = str(self.total)
        self.buckets = 1 << self.of.buckets_log2

    @classmethod
    def ranks(cls, problem: str) -> Callable[[int], bool]:
        return power_of_two

    @classmethod
    def memory(cls, problem: str, ranks: int) -> int:
        of = cls.problems[problem]
        # Keys, sent and received (half more, as NPB reserves); their buckets twice, an order and a copy of 8 bytes; a
        # count for each value on each rank.
        return (
            (1 << of.keys_log2) * (4 + 4 + 6 + 6 + 8 + 8)
            + ranks * (1 << of.highest_log2) * (4 + 8)
            + ranks * CHUNK * 4 * 8 * 3
        )

    def prepare(self) -> None:
        comm, arithmetic = self.comm, self.arithmetic
        self.rank, self.ranks_used = comm.Get_rank(), comm.Get_size()
        self.share = self.total // self.ranks_used
        self.keys = np.empty(self.share, np.int32)
        self.sent = np.empty(self.share, np.int32)
        self.taken = np.empty(self.share * 3 // 2, np.int32)
        self.sizes = np.zeros(self.buckets + TESTED, np.int32)
        self.totals = np.zeros(self.buckets + TESTED, np.int32)
        self.take_counts = np.zeros(self.ranks_used, np.int32)
        self.values = np.zeros(self.highest, np.int32)
        self.shift = self.of.highest_log2 - self.of.buckets_log2
        self.found = np.zeros((self.iterations + 1, TESTED), np.int64)
        arithmetic.keys(generator.jump(generator.SEED, 4 * self.share * self.rank), self.highest, self.keys)
        arithmetic.take_lengths(self.share, self.shift, self.buckets)
        self.tested = [
            (number, place % self.share)
            for number, place in enumerate(self.of.test_places)
            if place // self.share == self.rank
        ]
        self._rank(1)
        if isinstance(arithmetic, Skeleton):
            arithmetic.rehearsed.clear()
            for iteration in range(1, self.iterations + 1):
                self._rank(iteration)
            arithmetic.begin()
        self.found[:] = 0

    def run(self) -> None:
        for iteration in range(1, self.iterations + 1):
            self._rank(iteration)

    def _rank(self, iteration: int) -> None:
        comm, arithmetic = self.comm, self.arithmetic
        if self.rank == 0:
            self.keys[iteration] = iteration
            self.keys[iteration + self.iterations] = self.highest - iteration
        for number, place in self.tested:
            self.sizes[self.buckets + number] = self.keys[place]
        arithmetic.into_buckets(self.keys, self.sent, self.sizes[: self.buckets])
        comm.Allreduce(self.sizes, self.totals, MPI.SUM)
        deal = arithmetic.deal(
            self.totals[: self.buckets], self.sizes[: self.buckets], self.share, self.rank, self.ranks_used
        )
        comm.Alltoall(deal.counts, self.take_counts)
        places, length = arithmetic.received(self.take_counts)
        comm.Alltoallv([self.sent, deal.counts, deal.places, MPI.INT], [self.taken, self.take_counts, places, MPI.INT])
        self.mine = self.taken[:length]
        self.lowest = deal.first << self.shift
        self.ranking = self.values[: (deal.last + 1 - deal.first) << self.shift]
        arithmetic.ranking(self.mine, self.lowest, self.ranking)
        arithmetic.look_up(self.totals[self.buckets :], self.ranking, self.lowest, deal.lesser, self.found[iteration])

    def verify(self) -> Verification:
        """The ranks of five keys in every iteration, and the order of all keys after the last."""
        found = np.zeros_like(self.found)
        self.comm.Allreduce(self.found, found, MPI.SUM)
        rows = []
        for iteration in range(1, self.iterations + 1):
            for number in range(TESTED):
                expected = self.of.rank_of(number, iteration)
                rows.append((f"iteration {iteration}, key {number}", int(found[iteration, number]), expected))
        wrong = np.zeros(1, np.int64)
        self.comm.Allreduce(np.array([self._out_of_order()]), wrong, MPI.SUM)
        rows.append(("keys out of order", int(wrong[0]), 0))
        return Verification.exact(rows)

    def _out_of_order(self) -> int:
        """How many keys are not where their rank puts them, or are less than the greatest of the rank before."""
        counts = np.diff(self.ranking, prepend=0)
        by_rank = np.repeat(np.arange(self.lowest, self.lowest + len(counts), dtype=np.int32), np.maximum(counts, 0))
        if len(by_rank) != len(self.mine):
            return len(self.mine)
        wrong = int(np.count_nonzero(by_rank != np.sort(self.mine)))
        greatest, before = by_rank[-1:].copy(), np.zeros(1, np.int32)
        if not len(greatest):
            greatest = np.zeros(1, np.int32)
        request = self.comm.Irecv(before, self.rank - 1, TO_NEIGHBOUR) if self.rank else None
        if self.rank + 1 < self.ranks_used:
            self.comm.Send(greatest, self.rank + 1, TO_NEIGHBOUR)
        if request is not None:
            request.Wait()
            wrong += bool(len(by_rank) and before[0] > by_rank[0])
        return wrong

    def operations(self) -> float:
        return self.iterations * self.total
