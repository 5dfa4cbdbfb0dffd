"""Where an MPI changes its protocol: the lengths at which one piece of a model ends and the next begins."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from common import mpi

INLINE = 120  # FS_TEAM_INLINE of fastsock/core/team/memory.h: bytes in the line that announces them
DIRECT_FROM = 8 << 10  # FS_TEAM_CMA, there: reading another's memory may be worth a system call
COPYING_WAITS = 32 << 10  # FS_TEAM_LONG, there
BUFFER = 128 << 10  # FS_TEAM_BUFFER, there
CHUNK = 64 << 10  # CHUNK of fastsock/core/engine/link_shm.c: published at once
SHARED_FROM = 512 << 10  # FS_SHARED_FROM of fastsock/core/engine/link.h: from here on both ends copy
# the others' own defaults, as `ompi_info --param btl sm --level 9` and `mpivars` tell them
OTHERS = {
    mpi.OPENMPI: (4 << 10, 32 << 10),  # btl_sm_eager_limit, btl_sm_max_send_size
    mpi.MPICH: ((8 << 10) - 1,),  # CH4_IPC_CMA_P2P_THRESHOLD: from there on directly; a cell has as many bytes
}
CACHE = 512 << 10  # a core's second cache, on most machines: no protocol's, but all copies slow down there
BY_BLOCKS = ("scatter", "gather", "allgather", "alltoall", "reduce_scatter")
POINT_TO_POINT = ("send", "ssend", "bsend", "rsend", "sendrecv", "isend")


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
    if name in (mpi.FASTSOCK, mpi.FASTSOCK_TCP):
        of_one = [*_team(), *_messages()] if stem not in POINT_TO_POINT else [*_messages()]
        whole = [*_switches(stem, ranks)] if blocking else []
        if ":" in what:
            whole = []  # one algorithm throughout
    else:
        of_one, whole = list(OTHERS.get(name, ())), []
    return sorted({*(bound * parts for bound in of_one), *whole, CACHE * parts})


def _team() -> Sequence[int]:
    return INLINE, DIRECT_FROM, COPYING_WAITS, BUFFER


def _messages() -> Sequence[int]:
    from fastsock.xxdev import settings

    return CHUNK, settings.Settings().eager_limit, SHARED_FROM


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
