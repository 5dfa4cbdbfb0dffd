"""Where an MPI changes its protocol: the lengths at which one piece of a model ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from common import mpi

INLINE = 120  # FS_TEAM_INLINE of fastsock/core/team/memory.h: bytes in the line that announces them
DIRECT_FROM = 8 << 10  # FS_TEAM_CMA, there: reading another's memory may be worth a system call
STEP = 32 << 10  # FS_TEAM_LONG, there: to copy so much is a wait; and a quarter of a buffer goes in each step
BUFFER = 128 << 10  # FS_TEAM_BUFFER, there
FETCHED_FROM = 16 << 10  # FS_COST_SHORT_BITS of fastsock/core/cost.h: the receiver may read the sender's memory
CHUNK = 64 << 10  # CHUNK of fastsock/core/engine/link_shm.c: published at once
SHARED_FROM = 512 << 10  # FS_SHARED_FROM of fastsock/core/engine/link.h: from here on both ends copy
# the others' own defaults, as `ompi_info --param btl sm --level 9` and `mpivars` tell them
OTHERS = {
    mpi.OPENMPI: (4 << 10, 32 << 10),  # btl_sm_eager_limit, btl_sm_max_send_size
    mpi.MPICH: ((8 << 10) - 1,),  # CH4_IPC_CMA_P2P_THRESHOLD: from there on directly; a cell has as many bytes
}
CACHE = 512 << 10  # a core's second cache, on most machines: no protocol's, but all copies slow down there
ONE_LINE = ("scatter", "alltoall", "reduce_scatter")  # all members' parts share one member's line or buffer
BY_BLOCKS = ("scatter", "gather", "allgather", "alltoall", "reduce_scatter")
SENDS = ("send", "ssend", "bsend", "rsend")
EXCHANGES = ("sendrecv", "sendrecv_replace")
BETWEEN_TWO = (*SENDS, *EXCHANGES)
POINT_TO_POINT = (*BETWEEN_TWO, *(f"i{name}" for name in BETWEEN_TWO), *(f"{name}_init" for name in SENDS))


def of(name: str, what: str, ranks: int) -> list[int]:
    """The last lengths of the pieces of a call on an MPI, rising. Raises nothing: an unknown MPI has the cache's."""
    stem = what.partition(":")[0].partition("=")[0]
    if stem.startswith("object_"):
        stem = stem.removeprefix("object_")
    blocking = not stem.endswith("_init") and (stem[:1] != "i" or stem in POINT_TO_POINT)
    stem = stem.removesuffix("_init") if stem.endswith("_init") else stem if blocking else stem[1:]
    parts = ranks if stem.startswith(BY_BLOCKS) else 1
    if stem.startswith("neighbo"):
        parts = 2
    if name not in (mpi.FASTSOCK, mpi.FASTSOCK_TCP):
        return sorted({*(bound * parts for bound in OTHERS.get(name, ())), CACHE * parts})
    if stem in POINT_TO_POINT or not blocking:
        return sorted({*(bound * parts for bound in _messages()), CACHE * parts})
    if ":" in what:  # one algorithm throughout
        return sorted({*_team(stem, ranks, parts), *(bound * parts for bound in _messages()), CACHE * parts})
    return sorted({*_team(stem, ranks, parts), *_switches(stem, ranks), CACHE * parts})


def _team(stem: str, ranks: int, parts: int) -> list[int]:
    if stem.startswith(ONE_LINE):
        return [INLINE // ranks // 8 * 8 * ranks, DIRECT_FROM * parts - 1, STEP * parts, BUFFER]
    if stem == "allreduce":  # short ones are reduced by all; of long ones each member reduces a slice
        return [INLINE, DIRECT_FROM, DIRECT_FROM * ranks - 1, STEP * ranks, BUFFER]
    return [INLINE * parts, DIRECT_FROM * parts - 1, STEP * parts, BUFFER * parts]


def _messages() -> Sequence[int]:
    from fastsock.xxdev import settings

    return FETCHED_FROM - 1, CHUNK, settings.Settings().eager_limit, SHARED_FROM


def _switches(primitive: str, ranks: int) -> list[int]:
    """Where the selection table goes over to another algorithm: the last length before."""
    from fastsock.mpj.collectives import table

    rows = table.parse(resources.files("fastsock.mpj.collectives").joinpath("table.txt").read_text(), "table.txt")
    plan = table.Table(rows).plan(primitive, "host", ranks)
    blocks = ranks if primitive in ("scatter", "gather") else 1  # the table counts one block there
    firsts = {least for algorithm in _algorithms(rows, primitive) for least, _ in plan.sizes(algorithm)}
    return [(least - 1) * blocks for least in firsts if least]


def _algorithms(rows: Sequence, primitive: str) -> set[str]:
    return {row.algorithms[0] for row in rows if row.primitive == primitive and row.algorithms}
