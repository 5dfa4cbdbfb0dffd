"""All constants of NPB's problems, each with the file of NPB 3.4-MPI that it is from.

Compared with the serial C++ versions of NPB-CPP (CG, EP, FT, IS, MG, SP: they agree in these classes). Those have no
DT: its values were compared with a second copy of NPB.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ConjugateGradient:
    """CG: order and nonzeros of the sparse matrix (write_cg_info of sys/setparams.c); zeta (CG/cg.f)."""

    rows: int
    nonzeros: int
    iterations: int
    shift: float
    zeta: float


CG: Mapping[str, ConjugateGradient] = {
    "S": ConjugateGradient(1400, 7, 15, 10.0, 8.5971775078648),
    "W": ConjugateGradient(7000, 8, 15, 12.0, 10.362595087124),
    "A": ConjugateGradient(14000, 11, 15, 20.0, 17.130235054029),
    "B": ConjugateGradient(75000, 13, 75, 60.0, 22.712745482631),
    "C": ConjugateGradient(150000, 15, 75, 110.0, 28.973605592845),
}
CG_RCOND = 0.1  # write_cg_info
CG_ACCEPTED = 1e-10  # CG/cg.f


@dataclass(frozen=True)
class EmbarrassinglyParallel:
    """EP: 2^pairs_log2 pairs (EP/ep_data.f, sys/setparams.c); sums of the deviates (EP/ep.f)."""

    pairs_log2: int
    sum_x: float
    sum_y: float


EP: Mapping[str, EmbarrassinglyParallel] = {
    "S": EmbarrassinglyParallel(24, -3.247834652034740e3, -6.958407078382297e3),
    "W": EmbarrassinglyParallel(25, -2.863319731645753e3, -6.320053679109499e3),
    "A": EmbarrassinglyParallel(28, -4.295875165629892e3, -1.580732573678431e4),
    "B": EmbarrassinglyParallel(30, 4.033815542441498e4, -2.660669192809235e4),
    "C": EmbarrassinglyParallel(32, 4.764367927995374e4, -8.084072988043731e4),
}
EP_BATCH_LOG2 = 16  # mk of EP/ep_data.f: pairs of a batch
EP_ANNULI = 10  # nq
EP_ACCEPTED = 1e-8  # EP/ep.f


@dataclass(frozen=True)
class IntegerSort:
    """IS: 2^keys_log2 keys below 2^highest_log2, sorted by buckets; ranks of five keys. All from IS/is.c.

    From iteration to iteration rank n of the five moves by drift[n]: (sign, offset).
    """

    keys_log2: int
    highest_log2: int
    buckets_log2: int
    test_places: tuple[int, ...]
    test_ranks: tuple[int, ...]
    drift: tuple[tuple[int, int], ...]
    iterations: int = 10

    def rank_of(self, number: int, iteration: int) -> int:
        """The rank of test key ``number`` in an iteration, counted from 1."""
        sign, offset = self.drift[number]
        return self.test_ranks[number] + sign * (iteration + offset)


UP, DOWN = (1, 0), (-1, 0)
IS: Mapping[str, IntegerSort] = {
    "S": IntegerSort(
        16, 11, 9, (48427, 17148, 23627, 62548, 4431), (0, 18, 346, 64917, 65463), (UP, UP, UP, DOWN, DOWN)
    ),
    "W": IntegerSort(
        20, 16, 10, (357773, 934767, 875723, 898999, 404505), (1249, 11698, 1039987, 1043896, 1048018),
        ((1, -2), (1, -2), DOWN, DOWN, DOWN),
    ),
    "A": IntegerSort(
        23, 19, 10, (2112377, 662041, 5336171, 3642833, 4250760), (104, 17523, 123928, 8288932, 8388264),
        ((1, -1), (1, -1), (1, -1), (-1, -1), (-1, -1)),
    ),
    "B": IntegerSort(
        25, 21, 10, (41869, 812306, 5102857, 18232239, 26860214), (33422937, 10244, 59149, 33135281, 99),
        (DOWN, UP, UP, DOWN, UP),
    ),
    "C": IntegerSort(
        27, 23, 10, (44172927, 72999161, 74326391, 129606274, 21736814), (61147, 882988, 266290, 133997595, 133525895),
        (UP, UP, UP, DOWN, DOWN),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Multigrid:
    """MG: a cube of 2^log2 points a side (write_mg_info); the smoother's coefficients and the norm (MG/mg.f)."""

    log2: int
    iterations: int
    smoother: tuple[float, float, float]  # the fourth is 0
    norm: float


_COARSE = (-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0)  # MG/mg.f: c of classes S, W, A
_FINE = (-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0)  # c of the others
MG: Mapping[str, Multigrid] = {
    "S": Multigrid(5, 4, _COARSE, 0.5307707005734e-4),
    "W": Multigrid(7, 4, _COARSE, 0.6467329375339e-5),
    "A": Multigrid(8, 4, _COARSE, 0.2433365309069e-5),
    "B": Multigrid(8, 20, _FINE, 0.1800564401355e-5),
    "C": Multigrid(9, 20, _FINE, 0.5706732285740e-6),
}
MG_ACCEPTED = 1e-8  # MG/mg.f


@dataclass(frozen=True)
class ScalarPentadiagonal:
    """SP: a cube of ``points`` a side (write_sp_info); norms of residual and of error (SP/verify.f)."""

    points: int
    iterations: int
    dt: float
    residual: tuple[float, ...]
    error: tuple[float, ...]


SP: Mapping[str, ScalarPentadiagonal] = {
    "S": ScalarPentadiagonal(
        12, 100, 0.015,
        (2.7470315451339479e-02, 1.0360746705285417e-02, 1.6235745065095532e-02, 1.5840557224455615e-02, 3.4849040609362460e-02),  # noqa: E501
        (2.7289258557377227e-05, 1.0364446640837285e-05, 1.6154798287166471e-05, 1.5750704994480102e-05, 3.4177666183390531e-05),  # noqa: E501
    ),
    "W": ScalarPentadiagonal(
        36, 400, 0.0015,
        (0.1893253733584e-02, 0.1717075447775e-03, 0.2778153350936e-03, 0.2887475409984e-03, 0.3143611161242e-02),
        (0.7542088599534e-04, 0.6512852253086e-05, 0.1049092285688e-04, 0.1128838671535e-04, 0.1212845639773e-03),
    ),
    "A": ScalarPentadiagonal(
        64, 400, 0.0015,
        (2.4799822399300195e0, 1.1276337964368832e0, 1.5028977888770491e0, 1.4217816211695179e0, 2.1292113035138280e0),
        (1.0900140297820550e-04, 3.7343951769282091e-05, 5.0092785406541633e-05, 4.7671093939528255e-05, 1.3621613399213001e-04),  # noqa: E501
    ),
    "B": ScalarPentadiagonal(
        102, 400, 0.001,
        (0.6903293579998e+02, 0.3095134488084e+02, 0.4103336647017e+02, 0.3864769009604e+02, 0.5643482272596e+02),
        (0.9810006190188e-02, 0.1022827905670e-02, 0.1720597911692e-02, 0.1694479428231e-02, 0.1847456263981e-01),
    ),
    "C": ScalarPentadiagonal(
        162, 400, 0.00067,
        (0.5881691581829e+03, 0.2454417603569e+03, 0.3293829191851e+03, 0.3081924971891e+03, 0.4597223799176e+03),
        (0.2598120500183e+00, 0.2590888922315e-01, 0.5132886416320e-01, 0.4806073419454e-01, 0.5483377491301e+00),
    ),
}  # fmt: skip
SP_ACCEPTED = 1e-8  # SP/verify.f


@dataclass(frozen=True)
class FourierTransform:
    """FT: points along x, y, z (write_ft_info); the checksum of each iteration (FT/ft.f)."""

    points: tuple[int, int, int]
    iterations: int
    checksums: tuple[complex, ...]


_FT_SUMS: Mapping[str, tuple[complex, ...]] = {
    "S": (
        complex(554.6087004964, 484.5363331978),
        complex(554.6385409189, 486.5304269511),
        complex(554.6148406171, 488.3910722336),
        complex(554.5423607415, 490.1273169046),
        complex(554.4255039624, 491.7475857993),
        complex(554.2683411902, 493.2597244941),
    ),
    "W": (
        complex(567.3612178944, 529.3246849175),
        complex(563.1436885271, 528.2149986629),
        complex(559.4024089970, 527.0996558037),
        complex(556.0698047020, 526.0027904925),
        complex(553.0898991250, 524.9400845633),
        complex(550.4159734538, 523.9212247086),
    ),
    "A": (
        complex(504.6735008193, 511.4047905510),
        complex(505.9412319734, 509.8809666433),
        complex(506.9376896287, 509.8144042213),
        complex(507.7892868474, 510.1336130759),
        complex(508.5233095391, 510.4914655194),
        complex(509.1487099959, 510.7917842803),
    ),
    "B": (
        complex(517.7643571579, 507.7803458597),
        complex(515.4521291263, 508.8249431599),
        complex(514.6409228649, 509.6208912659),
        complex(514.2378756213, 510.1023387619),
        complex(513.9626667737, 510.3976610617),
        complex(513.7423460082, 510.5948019802),
        complex(513.5547056878, 510.7404165783),
        complex(513.3910925466, 510.8576573661),
        complex(513.2470705390, 510.9577278523),
        complex(513.1197729984, 511.0460304483),
        complex(513.0070319283, 511.1252433800),
        complex(512.9070537032, 511.1968077718),
        complex(512.8182883502, 511.2616233064),
        complex(512.7393733383, 511.3203605551),
        complex(512.6691062020, 511.3735928093),
        complex(512.6064276004, 511.4218460548),
        complex(512.5504076570, 511.4656139760),
        complex(512.5002331720, 511.5053595966),
        complex(512.4551951846, 511.5415130407),
        complex(512.4146770029, 511.5744692211),
    ),
    "C": (
        complex(519.5078707457, 514.9019699238),
        complex(515.5422171134, 512.7578201997),
        complex(514.4678022222, 512.2251847514),
        complex(514.0150594328, 512.1090289018),
        complex(513.7550426810, 512.1143685824),
        complex(513.5811056728, 512.1496764568),
        complex(513.4569343165, 512.1870921893),
        complex(513.3651975661, 512.2193250322),
        complex(513.2955192805, 512.2454735794),
        complex(513.2410471738, 512.2663649603),
        complex(513.1971141679, 512.2830879827),
        complex(513.1605205716, 512.2965869718),
        complex(513.1290734194, 512.3075927445),
        complex(513.1012720314, 512.3166486553),
        complex(513.0760908195, 512.3241541685),
        complex(513.0528295923, 512.3304037599),
        complex(513.0310107773, 512.3356167976),
        complex(513.0103090133, 512.3399592211),
        complex(512.9905029333, 512.3435588985),
        complex(512.9714421109, 512.3465164008),
    ),
}
FT: Mapping[str, FourierTransform] = {
    "S": FourierTransform((64, 64, 64), 6, _FT_SUMS["S"]),
    "W": FourierTransform((128, 128, 32), 6, _FT_SUMS["W"]),
    "A": FourierTransform((256, 256, 128), 6, _FT_SUMS["A"]),
    "B": FourierTransform((512, 256, 256), 20, _FT_SUMS["B"]),
    "C": FourierTransform((512, 512, 512), 20, _FT_SUMS["C"]),
}
FT_ALPHA = 1e-6  # FT/ft_data.f
FT_ACCEPTED = 1e-12  # FT/ft.f, every iteration


@dataclass(frozen=True)
class DataTraffic:
    """DT: lengths around ``samples`` features of four numbers, and sources (write_dt_info); the checks (DT/dt.c)."""

    samples: int
    deviation: int
    sources: int
    checks: Mapping[str, float]


# Classes C and D have no check values.
DT: Mapping[str, DataTraffic] = {
    "S": DataTraffic(1728, 128, 4, {"BH": 30892725.0, "WH": 67349758.0, "SH": 58875767.0}),
    "W": DataTraffic(1728 * 8, 256, 8, {"BH": 4102461.0, "WH": 204280762.0, "SH": 186944764.0}),
    "A": DataTraffic(1728 * 64, 512, 16, {"BH": 17809491.0, "WH": 1289925229.0, "SH": 610856482.0}),
    "B": DataTraffic(1728 * 512, 1024, 32, {"BH": 4317114.0, "WH": 7877279917.0, "SH": 1836863082.0}),
}
DT_ACCEPTED = 1e-8  # DT/dt.c; absolute
