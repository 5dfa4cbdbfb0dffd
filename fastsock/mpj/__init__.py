"""Message passing with mpi4py's names: ``from fastsock.mpj import MPI``; ``python -m fastsock.mpj.run -n 4 app.py``.

Importing this package imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["rc"]


class Rc:
    """What a program may choose before it imports `MPI`; the names and defaults are mpi4py's."""

    def __init__(self) -> None:
        self.initialize: bool = True  # initialize when MPI is imported
        self.threads: bool = True  # ask for threads
        self.thread_level: str = "multiple"  # "single", "funneled", "serialized", "multiple"
        self.finalize: bool | None = None  # finalize at exit: None where the import initialized
        self.fast_reduce: bool = True
        self.recv_mprobe: bool = True
        self.irecv_bufsz: int = 32768
        self.errors: str = "exception"  # "default", "abort", "fatal"

    def __call__(self, **choices: Any) -> None:
        """Set several at once. Raises TypeError for a name that does not exist."""
        for name in choices:
            if not hasattr(self, name):
                raise TypeError(f"unexpected argument {name!r}")
        vars(self).update(choices)

    def __repr__(self) -> str:
        return f"rc({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


rc = Rc()
