"""``python -m mpi4py.bench`` is ``python -m fastsock.mpj.bench``."""

import sys

from fastsock.mpj.bench import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
