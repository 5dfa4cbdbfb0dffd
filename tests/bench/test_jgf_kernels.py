"""JGF's kernels: what their accepted results do not show."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import fastsock.mpj

BENCH = Path(__file__).resolve().parents[2] / "bench"
AS_MPI4PY = Path(fastsock.mpj.__file__).parent / "as_mpi4py"
FOREIGN = ("jgf", "ranks", "mpi4py")


@pytest.fixture
def jgf(monkeypatch):
    """Imports a module of bench/jgf; none stays behind."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(AS_MPI4PY))
    monkeypatch.syspath_prepend(str(BENCH))
    yield lambda name: importlib.import_module(f"jgf.{name}")
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in FOREIGN:
            del sys.modules[name]


def test_java_random_gives_the_values_of_java_util_random(jgf):
    random = jgf("java_random").JavaRandom
    assert random(0).ints(3).tolist() == [-1155484576, -723955400, 1033096058]
    assert random(42).ints(2).tolist() == [-1170105035, 234785527]
    assert random(42).doubles(2).tolist() == [0.7275636800328681, 0.6832234717598454]


def test_a_vector_goes_on_where_the_one_before_ended(jgf):
    """Against the generator as it is documented, a step at a time."""
    state, expected = (10101010 ^ 0x5DEECE66D) & ((1 << 48) - 1), []
    for _ in range(1000):
        state = (state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        expected.append(state)
    random = jgf("java_random").JavaRandom(10101010)
    got = [int(state) for length in (1, 0, 2, 3, 250, 744) for state in random.states(length)]
    assert got == expected


def test_idea_gives_the_published_vector(jgf):
    """Lai's: key 1 to 8, text 0 to 3."""
    crypt = jgf("crypt")
    subkeys = crypt.encryption_keys(range(1, 9))
    plain = np.arange(4, dtype="<u2").view(np.uint8)
    encrypted, decrypted = np.zeros((2, 8), np.uint8)
    cipher = crypt.Numpy()
    cipher.reserve()
    cipher.cipher(plain, encrypted, subkeys)
    assert [hex(word) for word in encrypted.view("<u2")] == ["0x11fb", "0xed2b", "0x198", "0x6de5"]
    cipher.cipher(encrypted, decrypted, crypt.decryption_keys(subkeys))
    assert decrypted.tolist() == plain.tolist()


@pytest.mark.parametrize("key", [0, 1, 2, 0x7FFF, 0x8000, 0xFFFF])
def test_products_in_idea_are_modulo_65537_for_every_word(jgf, key):
    cipher = jgf("crypt").Numpy()
    cipher.reserve()
    words = np.arange(0x10000, dtype=np.uint16)
    for part in words.reshape(-1, 8192):
        cipher._multiply(part, key)
    assert words.tolist() == [(word or 0x10000) * (key or 0x10000) % 0x10001 & 0xFFFF for word in range(0x10000)]


def test_random_text_and_keys_come_back(jgf):
    """Also where a product is 2^16: a word stands for it that is zero."""
    crypt, random = jgf("crypt"), np.random.default_rng(1)
    cipher = crypt.Numpy()
    cipher.reserve()
    plain = random.integers(0, 256, 8 * 20_001, np.uint8)
    encrypted, decrypted = np.zeros((2, len(plain)), np.uint8)
    for key in ([0] * 8, random.integers(0, 1 << 16, 8).tolist()):
        subkeys = crypt.encryption_keys(key)
        cipher.cipher(plain, encrypted, subkeys)
        cipher.cipher(encrypted, decrypted, crypt.decryption_keys(subkeys))
        assert (encrypted != plain).any()
        assert (decrypted == plain).all()


@pytest.mark.parametrize("ranks", [1, 3])
def test_forces_of_numpy_and_numba_agree(jgf, ranks):
    pytest.importorskip("numba")
    moldyn, told = jgf("moldyn"), []
    for arithmetic in (moldyn.Numpy(), moldyn.Numba()):
        arithmetic.reserve(6)
        position = arithmetic.place(6)
        arithmetic.move(position, arithmetic.velocities(), np.zeros_like(position))
        force = np.empty_like(position)
        told.append((force, *arithmetic.forces(position, force, ranks - 1, ranks)))
    (force, energy, virial, interactions), (compiled, *others) = told
    assert np.allclose(force, compiled, rtol=0, atol=1e-12 * np.abs(force).max())
    assert others == [pytest.approx(energy), pytest.approx(virial), interactions] and interactions > 0


def test_a_singular_system_has_a_solution_that_is_a_number(jgf):
    """LUFact's size C is one: there rows repeat."""
    arithmetic, order = jgf("lufact").Numpy(), 4
    arithmetic.reserve(order)
    columns = np.zeros((order, order + 1))
    columns[:, :order] = np.array([[2, 1, 4, 0], [1, 3, 5, 1], [2, 1, 4, 0], [1, 3, 5, 1]]).T
    matrix, b, pivots = columns[:, :order].T.copy(), arithmetic.right_side(columns), np.zeros(order, np.intc)
    for k in range(order - 1):
        pivots[k] = arithmetic.multipliers(columns[k], k)
        arithmetic.eliminate(columns[k + 1 :], columns[k], k, pivots[k])
    assert columns[order - 1, order - 1] == 0.0
    assert np.allclose(matrix @ arithmetic.solve(columns, pivots, b), b)
