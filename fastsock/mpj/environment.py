"""Questions that a program may ask about the library, the host and the time (MPI 4.1, chapter 9)."""

from __future__ import annotations

import time

from ..system.originals import originals
from .constants import ERR_ARG, MAX_PROCESSOR_NAME, SUBVERSION, VERSION
from .exceptions import Exception
from .info import Info


def Get_version() -> tuple[int, int]:
    """Return (version, subversion) of the MPI standard."""
    return VERSION, SUBVERSION


def _release() -> str:
    from importlib import metadata  # slow to import

    try:
        return metadata.version("fastsock")
    except metadata.PackageNotFoundError:
        return "0.0.0"


def Get_library_version() -> str:
    """Return a text that names fastsock and its version."""
    # Programs guess from this which options mpiexec takes.
    return f"fastsock {_release()} (its mpiexec takes the options of MPICH)"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Return the name of this implementation and its version, as three numbers."""
    numbers = [int(part) for part in _release().split(".")[:3] if part.isdigit()]
    major, minor, micro = (*numbers, 0, 0, 0)[:3]
    return "fastsock", (major, minor, micro)


def Get_processor_name() -> str:
    """Return the name of the host."""
    return originals.uname().nodename[:MAX_PROCESSOR_NAME]


Wtime = originals.monotonic
"""An elapsed time on this host, in seconds; the same clock for all ranks of one host."""


def Wtick() -> float:
    """Return the resolution of `Wtime`, in seconds."""
    return time.get_clock_info("monotonic").resolution


def Get_hw_resource_info() -> Info:
    """Return the kind of hardware resource that is known, the host, and the host's name."""
    return Info.Create({"mpi_hw_resource_type": "host", "hostname": Get_processor_name()})


def Get_abi_version() -> tuple[int, int]:
    """Return (-1, -1): no ABI is offered."""
    return -1, -1


def Get_abi_info() -> Info:
    """Return the sizes, in bytes, of addresses, counts and offsets."""
    return Info.Create({"mpi_aint_size": "8", "mpi_count_size": "8", "mpi_offset_size": "8"})


def Get_abi_fortran_info() -> Info:
    """Return an empty info: there is no Fortran ABI."""
    return Info()


def Pcontrol(level: int) -> None:
    """Do nothing: there is no profiling. Raises MPI.Exception (ERR_ARG) for a level other than 0, 1 and 2."""
    if not 0 <= level <= 2:
        raise Exception(ERR_ARG, f"profiling level {level} is not 0, 1 or 2")
