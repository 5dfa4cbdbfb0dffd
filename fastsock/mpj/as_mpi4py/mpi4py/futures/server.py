"""mpi4py's server of workers that executors of other jobs connect to: it is not there."""

import sys

__all__ = ["main"]


def main():
    """Say so."""
    sys.exit("mpi4py.futures.server is not there; python -m mpi4py.futures has the other ranks work for rank 0")


if __name__ == "__main__":
    main()
