"""Message passing with mpi4py's names: ``from fastsock.mpj import MPI``; ``python -m fastsock.mpj.run -n 4 app.py``.

Importing this package imports nothing else.

MPI, futures, util, typing      the modules that programs import; `MPI` is that of all public classes
run, mpiexec, runner            start ranks; as_mpi4py: lets `mpi4py` mean this package
files, windows, communicators, recovery, collectives, messages, datatypes
                                the chapters of the MPI standard, from the top down
constants, handle, exceptions, attributes, info, ranks, tags, failures
                                the ground that all chapters stand on
environment, introspection, search_path
                                what surrounds a rank, questions of C about handles, and where Pythons import from
bench, install_mpiexec          commands

Above xxdev; only fastsock.testing and fastsock.doctor stand above it. Tests: tests/mpj.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["rc"]


class Rc:
    """The options that a program may set before it imports `MPI`; their names and defaults are mpi4py's."""

    initialize: bool = True  # initialize when MPI is imported
    threads: bool = True  # ask for threads
    thread_level: str = "multiple"  # "single", "funneled", "serialized", "multiple"
    finalize: bool | None = None  # finalize at exit: None where the import initialized
    fast_reduce: bool = True
    recv_mprobe: bool = True
    irecv_bufsz: int = 32768
    errors: str = "exception"  # "default", "abort", "fatal"

    def __init__(self, **choices: Any) -> None:
        """Set some options. Raises TypeError for a name that does not exist."""
        self(**choices)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(self, name):
            raise TypeError(f"there is no option {name!r}")
        super().__setattr__(name, value)

    def __call__(self, **choices: Any) -> None:
        """Set several at once. Raises TypeError for a name that does not exist, and sets none then."""
        for name in choices:
            if not hasattr(self, name):
                raise TypeError(f"unexpected argument {name!r}")
        vars(self).update(choices)

    def __repr__(self) -> str:
        return f"rc({', '.join(f'{name}={getattr(self, name)!r}' for name in Rc.__annotations__)})"


rc = Rc()
