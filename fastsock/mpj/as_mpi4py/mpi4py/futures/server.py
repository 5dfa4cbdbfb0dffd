"""mpi4py's main program of workers: ranks that executors of other jobs connect to, or spawn."""

from fastsock.mpj.futures.server import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
