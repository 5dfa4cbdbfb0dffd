"""What can be known to be wrong before a rank is started: settings, files, programs. So it is told once."""

from __future__ import annotations

import os
from importlib import import_module

from ... import config
from ...system import variables
from ...xxdev import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .options import Part

_CANNOT_RUN, _NOT_FOUND = 126, 127  # as shells tell it
_IMPORTS_MPI4PY = rb"^\s*(?:from|import)\s+mpi4py\b"
_COLLECTIVES = "fastsock.mpj.collectives"


class LaunchError(Exception):
    """The ranks cannot be started; the text says why. `status` is what the command exits with."""

    def __init__(self, text: str, status: int = 2) -> None:
        super().__init__(text)
        self.status = status


def check_settings(parts: list[Part]) -> None:
    """Raises LaunchError where the ranks of this host could not use a setting. Warns of those that nobody knows."""
    for part in parts:
        environ = os.environ | part.environ
        variables.warn_of_unknown(environ)
        os.environ[variables.WARNED_OF] = environ.get(variables.WARNED_OF, "")
        try:
            config.from_environment(environ)
            settings.from_environment(environ)
            _check_device(environ)
            _check_collectives(environ)
            if environ.get("FASTSOCK_MPJ_START_TIMEOUT"):
                config.duration("FASTSOCK_MPJ_START_TIMEOUT", environ["FASTSOCK_MPJ_START_TIMEOUT"])
        except config.ConfigError as error:
            raise LaunchError(str(error)) from None


def _check_device(environ: Mapping[str, str]) -> None:
    name = environ.get("FASTSOCK_MPJ_DEVICE", "").strip()
    if name and ":" not in name:
        from ...xxdev.device import DEVICES

        if name not in DEVICES:
            raise config.ConfigError(f"FASTSOCK_MPJ_DEVICE: there is no device {name!r}; write {', '.join(DEVICES)}")


def _check_collectives(environ: Mapping[str, str]) -> None:
    for primitive in variables.PRIMITIVES:
        variable = f"FASTSOCK_MPJ_{primitive}"
        algorithm = environ.get(variable)
        if algorithm:
            import_module(f"{_COLLECTIVES}.{primitive.lower()}")
            there_are = import_module(f"{_COLLECTIVES}.primitive").PRIMITIVES[primitive.lower()].algorithms
            if algorithm not in there_are:
                raise config.ConfigError(f"{variable}: no algorithm {algorithm!r}; write one of {', '.join(there_are)}")
    if environ.get("FASTSOCK_MPJ_COLLECTIVES"):
        import_module(f"{_COLLECTIVES}.table").load(environ)


def check_program(part: Part) -> None:
    """Raises LaunchError where this host has no such program, or no such folder to run it in."""
    first = part.program[0]
    folder = part.directory or os.getcwd()
    if not os.path.isdir(folder):
        raise LaunchError(f"there is no folder {folder} to run {first} in", _NOT_FOUND)
    path = os.path.join(folder, first)
    if not part.literal:
        if first not in ("-m", "-c") and not os.path.exists(path) and not _is_on_path(part):
            raise LaunchError(f"there is no file and no program {first}")
    elif os.sep in first:
        if not os.path.exists(path):
            raise LaunchError(f"there is no program {first}", _NOT_FOUND)
        if os.path.isdir(path) or not os.access(path, os.X_OK):
            raise LaunchError(f"{first} cannot be executed", _CANNOT_RUN)
    elif not _is_on_path(part):
        raise LaunchError(f"there is no program {first} on the PATH", _NOT_FOUND)


def _is_on_path(part: Part) -> bool:
    from shutil import which  # it imports much

    return which(part.program[0], path=(os.environ | part.environ).get("PATH")) is not None


def hint(part: Part) -> str | None:
    """What may have been forgotten, where a rank of a program failed."""
    import re  # it imports much
    from importlib.util import find_spec

    if re.search(_IMPORTS_MPI4PY, _source(part.program), re.MULTILINE) is None or find_spec("mpi4py") is not None:
        return None
    return f"{part.program[0]} imports mpi4py, which is not installed: with --as-mpi4py that name means fastsock.mpj"


def _source(program: list[str]) -> bytes:
    if program[0] == "-c":
        return "".join(program[1:2]).encode(errors="replace")
    try:
        with open(program[0], "rb") as file:
            return file.read(1 << 20) if program[0].endswith((".py", ".pyw")) else b""
    except OSError:
        return b""
