"""Additions to the standard, with mpi4py's names."""
