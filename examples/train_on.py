"""SGD by several ranks, an ordinary mpi4py program. It goes on when some of them die.

    python -m fastsock.mpj.run -n 4 --keep-going --as-mpi4py examples/train_on.py

Each rank has the rows of its place. When one has died, the others come together anew, share the rows anew and train on
from the newest weights. Try it: kill -9 one of the processes.
"""

from __future__ import annotations

import os

import numpy
from mpi4py import MPI

ROWS, FEATURES, STEPS = 6_000, 12, int(os.environ.get("STEPS", "500"))
DATA = numpy.random.default_rng(7).normal(size=(ROWS, FEATURES))
TRUTH = numpy.arange(FEATURES) / 3
RATE = 0.02


def train(comm: MPI.Intracomm) -> MPI.Intracomm:
    """Trains to the end, and returns the communicator of those that are left."""
    weights, step = numpy.zeros(FEATURES), 0
    while True:
        try:
            features = DATA[comm.rank :: comm.size]
            while step < STEPS:
                weights, step = weights - RATE * gradient(comm, features, weights), step + 1
            comm.Barrier()
        except MPI.Exception as error:
            if error.Get_error_class() not in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED):
                raise
            comm, weights, step = without_the_dead(comm, weights, step)
        else:
            if comm.rank == 0:
                print(f"trained by {comm.size} ranks: the weights are {abs(weights - TRUTH).max():.1e} from the truth")
            return comm


def gradient(comm: MPI.Intracomm, features: numpy.ndarray, weights: numpy.ndarray) -> numpy.ndarray:
    part = features.T @ (features @ (weights - TRUTH))
    whole = numpy.empty(FEATURES)
    comm.Allreduce(part, whole)
    return whole / ROWS


def without_the_dead(
    comm: MPI.Intracomm, weights: numpy.ndarray, step: int
) -> tuple[MPI.Intracomm, numpy.ndarray, int]:
    """Those that live come together. Some may be a step ahead: all go on from there."""
    while True:
        comm.Revoke()  # others may still wait for the rank that died
        comm = comm.Shrink()
        try:
            newest, place = comm.allreduce((step, comm.rank), MPI.MAX)
            return comm, comm.bcast(weights, place), newest
        except MPI.Exception:  # one more has died meanwhile
            continue


if __name__ == "__main__":
    train(MPI.COMM_WORLD)
