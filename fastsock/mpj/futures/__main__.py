"""``mpiexec -n N python -m mpi4py.futures app.py``: rank 0 runs the program, and the others work for its executors."""

from __future__ import annotations

import sys

from ...xxdev import job
from ..runner.aborting import run_command_line, set_abort_status
from . import executor, script, worker
from .worker_pool import Ranks, ThisProcess

USAGE = """\
usage: python -m mpi4py.futures app.py [arguments] | -m module [arguments] | -c code [arguments] | - [arguments]
"""


def main() -> None:
    """Run the command line: the program in rank 0, a worker in all others."""
    from ..MPI import COMM_SELF, COMM_WORLD

    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help"):
        if COMM_WORLD.rank == 0:
            (sys.stdout if arguments else sys.stderr).write(USAGE)
        sys.exit(0 if arguments else 2)
    if COMM_WORLD.size > 1 and job.current().device == "smpdev":
        sys.exit(
            "mpi4py.futures: with the device smpdev ranks share one __main__; use another device, or MPICommExecutor"
        )
    if COMM_WORLD.size == 1:
        executor.shared = ThisProcess(COMM_SELF)
        between = None
    else:
        between, workers = executor.split(COMM_WORLD, 0)
        if workers:
            worker.serve(between, workers)
            workers.Free()
            between.Free()
            return
        executor.shared = Ranks(between, imports=True)
    try:
        _run(arguments)
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            set_abort_status(error)  # the workers wait for tasks
            raise
        _end(between)
        raise
    _end(between)


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-c" and len(arguments) > 1:
        script.remember_code(arguments[1], "<string>")
    elif arguments[0] == "-":
        text = sys.stdin.read()
        script.remember_code(text, "<stdin>")
        arguments = ["-c", text, *arguments[1:]]
    run_command_line(arguments)


def _end(between: object) -> None:
    assert executor.shared is not None
    executor.finish(executor.shared)
    executor.shared.stop()
    if between is not None:
        between.Free()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
