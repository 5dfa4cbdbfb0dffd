"""``mpiexec -n 4 python -m fastsock.mpj app.py``: one rank, whose uncaught exception ends all."""

from fastsock.mpj.runner.aborting import main

if __name__ == "__main__":
    main("fastsock.mpj")
