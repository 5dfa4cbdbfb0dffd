"""`mpi4py.util`."""
