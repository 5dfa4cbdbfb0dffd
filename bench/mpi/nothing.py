"""Imports MPI and ends: what starting costs."""

from mpi4py import MPI

MPI.COMM_WORLD.Get_rank()
