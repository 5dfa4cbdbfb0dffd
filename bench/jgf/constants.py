"""Sizes and accepted results of the Java Grande Forum's benchmarks, MPJ version 1.0.

Each stands with the file of jgf_mpj_benchmarks that it is from.
"""

from __future__ import annotations

from dataclasses import dataclass

TITLE = "Java Grande Forum Benchmarks, MPJ 1.0"

# section2/crypt/JGFCryptBench.java: bytes of text; section2/crypt/IDEATest.java: the seed of the key.
# Accepted: decrypted text equals plain text.
CRYPT = {"A": 3_000_000, "B": 20_000_000, "C": 50_000_000}
CRYPT_SEED = 136506717


# section2/lufact/JGFLUFactBench.java: the order of the matrix and the largest normalised residual
@dataclass(frozen=True)
class Matrix:
    order: int
    residual: float


LUFACT = {"A": Matrix(500, 6.0), "B": Matrix(1000, 12.0), "C": Matrix(2000, 20.0)}

# section2/lufact/Linpack.java (matgen): the matrix's generator, modulo 2^16
LUFACT_SEED = 1325
LUFACT_MULTIPLIER = 3125

# section2/series/JGFSeriesBench.java: pairs of coefficients, the first four of any size, the largest error
SERIES = {"A": 10_000, "B": 100_000, "C": 1_000_000}
SERIES_FIRST = (
    (2.8729524964837996, 0.0),
    (1.1161046676147888, -1.8819691893398025),
    (0.34429060398168704, -1.1645642623320958),
    (0.15238898702519288, -0.8143461113044298),
)
SERIES_ACCEPTED = 1e-12

# section2/series/SeriesTest.java: the interval is [0, 2], of so many steps
SERIES_STEPS = 1000


# section2/sor/JGFSORBench.java: the order of the grid and the sum of its inner points. The values are those of the
# red-black order; 0.4984199298207158 and its kin belong to the older, sequential one.
@dataclass(frozen=True)
class Grid:
    order: int
    total: float


SORS = {"A": Grid(1000, 0.498574406322512), "B": Grid(1500, 1.1234778980135105), "C": Grid(2000, 1.9954895063582696)}
SOR_ITERATIONS = 100
SOR_OMEGA = 1.25
SOR_SEED = 10101010
SOR_ACCEPTED = 1e-12


# section2/sparsematmult/JGFSparseMatmultBench.java: rows (and columns), nonzeros, the sum of y over the rows of all
# nonzeros. Its own 1e-12 would hold one order of summation alone; JGF's threaded version accepts 1e-10.
@dataclass(frozen=True)
class Triplets:
    rows: int
    nonzeros: int
    total: float


SPARSE = {
    "A": Triplets(50_000, 250_000, 75.02484945753453),
    "B": Triplets(100_000, 500_000, 150.0130719633895),
    "C": Triplets(500_000, 2_500_000, 749.5245870753752),
}
SPARSE_ITERATIONS = 200
SPARSE_SEED = 10101010
SPARSE_ACCEPTED = 1e-10


# section3/moldyn/JGFMolDynBench.java: unit cells along an edge, four particles each, and the kinetic energy after the
# last move. JGF has no size C: the papers enlarged it themselves. Its energy here is what this program computes on one
# rank, so it tells only that more ranks compute the same. As with Sparse, JGF's threaded version accepts 1e-10.
@dataclass(frozen=True)
class Particles:
    cells: int
    energy: float


MOLDYN = {
    "A": Particles(8, 1731.4306625334357),
    "B": Particles(13, 7397.392307839352),
    "C": Particles(18, 19645.187845339387),
}
MOLDYN_ACCEPTED = 1e-10

# section3/moldyn/md.java, in reduced units. Velocities are multiplied by the time step, forces by half of its square.
MOLDYN_MOVES = 50
MOLDYN_DENSITY = 0.83134
MOLDYN_TEMPERATURE = 0.722
MOLDYN_STEP = 0.064
MOLDYN_RESCALE = (10, 19)  # every so many moves, while their number is below
MOLDYN_CUBE_ROOT = 0.3333333
MOLDYN_SCALE = 4.656612875e-10  # of its generator: multiplier 16807, modulo 2^31
MOLDYN_MULTIPLIER = 16807
