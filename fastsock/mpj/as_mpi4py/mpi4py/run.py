"""``python -m mpi4py.run``, also ``python -m mpi4py``: a program whose uncaught exception ends all ranks."""

from fastsock.mpj.runner.aborting import main, run_command_line, set_abort_status

__all__ = ["main", "run_command_line", "set_abort_status"]

if __name__ == "__main__":
    main()
