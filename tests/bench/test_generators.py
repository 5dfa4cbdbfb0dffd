"""The generators of NPB and of JGF: vectors beside one number at a time, and beside published values."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import fastsock.mpj

BENCH = Path(__file__).resolve().parents[2] / "bench"
AS_MPI4PY = Path(fastsock.mpj.__file__).parent / "as_mpi4py"
FOREIGN = ("jgf", "npb", "ranks", "mpi4py")
MODULUS = 2**46


@pytest.fixture
def bench(monkeypatch):
    """Imports a module of bench/; none stays behind."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(AS_MPI4PY))
    monkeypatch.syspath_prepend(str(BENCH))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in FOREIGN:
            del sys.modules[name]


def seeds(seed, count):
    """NPB's generator with integers of any length, as its report defines it: the next seeds."""
    for _ in range(count):
        seed = 5**13 * seed % MODULUS
        yield seed


def test_randlc_gives_the_published_sequence(bench):
    """J. Burkardt's test of his version of randlc prints these, from the seed 123456789."""
    randlc, seed, got = bench("npb.generator").randlc, 123456789, []
    for _ in range(10):
        number, seed = randlc(seed)
        got.append(float(f"{number:.6g}"))
    assert got == [0.633901, 0.557158, 0.503282, 0.586596, 0.884073, 0.165209, 0.806692, 0.701847, 0.516941, 0.61029]


@pytest.mark.parametrize("name", ["SEED", "SEED_EP"])
def test_vectors_are_the_numbers_one_by_one(bench, name):
    """Over the borders of what is made at a time, and where a vector is shorter or empty."""
    generator = bench("npb.generator")
    seed = getattr(generator, name)
    count = 2 * generator.BLOCK + 3
    expected = np.array([each / MODULUS for each in seeds(seed, count)])
    for length in (0, 1, 2, 3, generator.BLOCK - 1, generator.BLOCK, generator.BLOCK + 1, count):
        assert np.array_equal(generator.uniform(seed, length), expected[:length])
    out = np.zeros(count)
    assert generator.uniform(seed, count, out=out) is out
    assert np.array_equal(out, expected)


def test_a_jump_is_as_many_steps(bench):
    generator = bench("npb.generator")
    there = [generator.SEED, *seeds(generator.SEED, 1000)]
    assert [generator.jump(generator.SEED, steps) for steps in range(1001)] == there
    assert generator.jump(there[1], 10**12) == generator.jump(generator.SEED, 10**12 + 1)


def test_the_period_is_the_published_one(bench):
    """2^44, for odd seeds."""
    jump = bench("npb.generator").jump
    for seed in (314159265, 271828183):
        assert jump(seed, 2**44) == seed
        assert jump(seed, 2**43) != seed


def test_ep_counts_as_many_pairs_as_published(bench):
    """NPB's output for class S: 13,176,389 pairs, by annuli. The kernel's test holds the sums alone."""
    ep = bench("npb.ep")
    arithmetic, sums, counts = ep.Numpy(), np.zeros(2), np.zeros(10)
    arithmetic.reserve()
    for batch in range(1 << 24 - 16):
        arithmetic.batch(batch, sums, counts)
    assert counts.tolist() == [6140517, 5865300, 1100361, 68546, 1648, 17, 0, 0, 0, 0]
    assert counts.sum() == 13176389


@pytest.mark.parametrize(
    ("state", "multiplier", "increment", "bits"),
    [(1325, 3125, 0, 16), (1, 16807, 0, 31), (10101010, 0x5DEECE66D, 11, 48)],  # LUFact's, MolDyn's, Java's
)
def test_congruential_sequences_are_the_states_one_by_one(bench, state, multiplier, increment, bits):
    expected, last = [], state
    for _ in range(1000):
        last = (multiplier * last + increment) % 2**bits
        expected.append(last)
    sequence = bench("jgf.congruential").sequence
    for length in (0, 1, 2, 3, 511, 512, 513, 1000):
        assert sequence(state, multiplier, increment, bits, length).tolist() == expected[:length]


def test_linpacks_matrix_is_dealt_row_by_row(bench):
    """matgen of Linpack: init = 3125 init mod 65536, an element is (init - 32768) / 16384."""
    state, order = 1325, 7
    columns = bench("jgf.lufact").Numpy().generate(order)
    for i in range(order):
        for j in range(order):
            state = 3125 * state % 65536
            assert columns[j, i] == (state - 32768.0) / 16384.0
