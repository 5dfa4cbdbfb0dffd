"""mpi4py's own tests, run over fastsock.mpj."""
