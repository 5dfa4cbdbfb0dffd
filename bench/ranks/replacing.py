"""Standing in for a class of mpi4py: some calls, like Request.Waitall, know no communicator that could be wrapped."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

_lock = Lock()  # ranks that are threads share mpi4py
_done: set[tuple[str, Callable[[Any], Any]]] = set()


def replace(name: str, stand_in: Callable[[Any], Any]) -> None:
    """MPI's class of that name is `stand_in` of what it was, from now on. Each stands in once."""
    from mpi4py import MPI

    with _lock:
        if (name, stand_in) not in _done:
            _done.add((name, stand_in))
            setattr(MPI, name, stand_in(getattr(MPI, name)))
