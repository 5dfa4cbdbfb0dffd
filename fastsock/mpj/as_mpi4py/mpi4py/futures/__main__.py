"""``python -m mpi4py.futures``: rank 0 runs a program, and the others work for its executors."""

from fastsock.mpj.futures.__main__ import main

if __name__ == "__main__":
    main()
