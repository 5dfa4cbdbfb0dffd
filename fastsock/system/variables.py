"""The environment variables of all packages, and what is said of those that nobody knows.

Each file reads its own. This list is the one place where all are named: docs/reference/settings.md and every use in the
source are compared with it by tests/system/test_variables.py. It imports nothing heavy, because every process reads it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

PREFIX = "FASTSOCK_"
WARNED_OF = "FASTSOCK_TOLD"  # the unknown names that this process, or one before it, has warned of

SOCKETS = (
    "FASTSOCK_TRANSPORTS",
    "FASTSOCK_CONFIG",
    "FASTSOCK_FAILOVER",
    "FASTSOCK_RDMA_RENDEZVOUS",
    "FASTSOCK_PEERS",
    "FASTSOCK_STATS",
    "FASTSOCK_SHOWN",
    "FASTSOCK_TRACE",
    "FASTSOCK_UPGRADE_AFTER",
    "FASTSOCK_MEETING_MS",
    "FASTSOCK_RING_BYTES",
    "FASTSOCK_DIRECT_MIN",
    "FASTSOCK_SPIN_US",
    "FASTSOCK_LOOK_US",
    "FASTSOCK_INSTALL",
)
REMOTE_CALLS = ("FASTSOCK_RMI_KEY", "FASTSOCK_RMI_NAMES")
MESSAGE_PASSING = (
    "FASTSOCK_MPJ_DEVICE",
    "FASTSOCK_MPJ_EAGER_LIMIT",
    "FASTSOCK_MPJ_CREDIT",
    "FASTSOCK_MPJ_SPIN_US",
    "FASTSOCK_MPJ_CONNECT_MS",
    "FASTSOCK_MPJ_SILENCE_MS",
    "FASTSOCK_MPJ_SHARED_MEMORY",
    "FASTSOCK_MPJ_RDMA_DEVICE",
    "FASTSOCK_MPJ_RDMA_MEMORY",
    "FASTSOCK_MPJ_RDMA_KEEPS_MEMORY",
    "FASTSOCK_MPJ_RDMA_EAGER",
    "FASTSOCK_MPJ_RDMA_RENDEZVOUS",
)
RANKS = (
    "FASTSOCK_MPJ_RANK",
    "FASTSOCK_MPJ_SIZE",
    "FASTSOCK_MPJ_ADDRESS",
    "FASTSOCK_MPJ_SECRET",
    "FASTSOCK_MPJ_INTERFACE",
    "FASTSOCK_MPJ_START_TIMEOUT",
    "FASTSOCK_MPJ_SSH",
    "FASTSOCK_MPJ_NAMES",
)
PRIMITIVES = (
    "ALLGATHER",
    "ALLGATHERV",
    "ALLREDUCE",
    "ALLTOALL",
    "ALLTOALLV",
    "ALLTOALLW",
    "BARRIER",
    "BCAST",
    "EXSCAN",
    "GATHER",
    "GATHERV",
    "NEIGHBOUR_ALLGATHER",
    "NEIGHBOUR_ALLTOALL",
    "REDUCE",
    "REDUCE_SCATTER",
    "REDUCE_SCATTER_BLOCK",
    "SCAN",
    "SCATTER",
    "SCATTERV",
)
COLLECTIVES = ("FASTSOCK_MPJ_COLLECTIVES", *(f"FASTSOCK_MPJ_{primitive}" for primitive in PRIMITIVES))
SETTINGS = (*SOCKETS, *REMOTE_CALLS, *MESSAGE_PASSING, *RANKS, *COLLECTIVES)
# What processes of fastsock tell those that they start.
GIVEN_TO_CHILDREN = (
    "FASTSOCK_CHILDREN",
    "FASTSOCK_INTERPRETER",
    "FASTSOCK_LAUNCHED",
    "FASTSOCK_RESOLVED_RULES",
    WARNED_OF,
    "FASTSOCK_MPJ_JOB",
    "FASTSOCK_MPJ_APPLICATION",
    "FASTSOCK_MPJ_JOINED",
    "FASTSOCK_MPJ_PYTHON",
    "FASTSOCK_MPJ_PARENT",
    "FASTSOCK_MPJ_WIREUP",
)
# Of the build and of the tests.
DEVELOPMENT = (
    "FASTSOCK_RDMA_HEADERS",
    "FASTSOCK_SOAK",
    "FASTSOCK_TEST_MPI",
    "FASTSOCK_TEST_ROUNDS",
    "FASTSOCK_TEST_SEED",
    "FASTSOCK_BUFFER_KILLS",
    "FASTSOCK_LAB",
    "FASTSOCK_SLURM",
    "FASTSOCK_IN_LAB",
)
_KNOWN = frozenset((*SETTINGS, *GIVEN_TO_CHILDREN, *DEVELOPMENT))
# By these launchers of ranks tell which one a process is: rank 0 warns for all.
_RANK = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK", "JOB_COMPLETION_INDEX")


def unknown(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The FASTSOCK_ variables of an environment that no package knows, sorted. Most likely they are misspelt."""
    return tuple(sorted(name for name in environ if name.startswith(PREFIX) and name not in _KNOWN))


def description(name: str) -> str:
    """What is said of an unknown variable: its name, and the nearest one that is known."""
    from difflib import get_close_matches

    nearest = get_close_matches(name[len(PREFIX) :], [known[len(PREFIX) :] for known in SETTINGS], 1)
    advice = f"write {PREFIX}{nearest[0]}, if that is meant" if nearest else "docs/reference/settings.md lists them"
    return f"{name} is set, but is no setting of fastsock: {advice}"


def warn_of_unknown(environ: MutableMapping[str, str] | None = None) -> None:
    """Warns once of the unknown variables, by the logger "fastsock". Children that inherit the environment do not."""
    environ = os.environ if environ is None else environ
    warned_of = environ.get(WARNED_OF, "").split(",")
    fresh = [name for name in unknown(environ) if name not in warned_of]
    if not fresh:
        return
    environ[WARNED_OF] = ",".join(name for name in (*warned_of, *fresh) if name)
    if any(environ.get(name, "0") != "0" for name in _RANK):
        return
    import logging

    logging.getLogger("fastsock").warning("%s", "; ".join(description(name) for name in fresh))
