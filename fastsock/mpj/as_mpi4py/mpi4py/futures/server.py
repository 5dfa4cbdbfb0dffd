"""mpi4py's server of workers that executors of other jobs connect to, by ports: these are not there."""

import sys

from fastsock.mpj.absent import DYNAMIC

__all__ = ["main"]


def main():
    """Say so."""
    sys.exit(f"mpi4py.futures.server: {DYNAMIC}; python -m mpi4py.futures has the others of them work for rank 0")


if __name__ == "__main__":
    main()
