"""``python -m mpi4py`` is ``python -m mpi4py.run``."""

from fastsock.mpj.runner.aborting import main

if __name__ == "__main__":
    main()
