"""Install the names mpiexec and mpirun for fastsock's runner: ``python -m fastsock.mpj.install_mpiexec PREFIX``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from . import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("mpiexec", "mpirun")
USAGE = """\
usage: python -m fastsock.mpj.install_mpiexec [--remove] PREFIX

Writes PREFIX/bin/mpiexec and PREFIX/bin/mpirun. Both run `python -m fastsock.mpj.mpiexec` by this very Python. The
folder of a virtual environment is a good PREFIX. A command of these names that fastsock has not written stays as it is.

  --remove             delete them again
"""
_MARK = "# written by fastsock.mpj.install_mpiexec"


class InstallError(Exception):
    """The commands cannot be written; the text says why."""


def text() -> str:
    """The text of the files."""
    python = shlex.quote(sys.executable)
    entries = f'PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}"{shlex.quote(search_path.ROOT)} '
    prefix = "" if search_path.found_anywhere() else f"env {entries}"
    return f'#!/bin/sh\n{_MARK}\nexec {prefix}{python} -m fastsock.mpj.mpiexec "$@"\n'


def install(prefix: Path) -> list[Path]:
    """Write both commands; return their paths.

    Raises InstallError where a file that fastsock has not written is there already, and OSError.
    """
    files = [prefix / "bin" / name for name in NAMES]
    for file in files:
        if os.path.lexists(file) and not _is_own(file):
            raise InstallError(f"{file} is another MPI's, and stays: choose another PREFIX, or remove it first")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(), encoding="utf-8")
        file.chmod(0o755)
    return files


def remove(prefix: Path) -> list[Path]:
    """Delete the files that install() wrote; return their paths."""
    found = [file for file in (prefix / "bin" / name for name in NAMES) if _is_own(file)]
    for file in found:
        file.unlink()
    return found


def _is_own(file: Path) -> bool:
    try:
        return not file.is_symlink() and _MARK in file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: ``sys.argv[1:]``); return the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    removes = "--remove" in words
    if removes:
        words.remove("--remove")
    if len(words) != 1 or words[0].startswith("-"):
        asked = words in (["--help"], ["-h"])
        (sys.stdout if asked else sys.stderr).write(USAGE)
        return 0 if asked else 2
    try:
        files = remove(Path(words[0])) if removes else install(Path(words[0]))
    except (InstallError, OSError) as error:
        sys.stderr.write(f"python -m fastsock.mpj.install_mpiexec: {error}\n")
        return 1
    for file in files:
        print(f"{'removed' if removes else 'wrote'} {file}")
        found = shutil.which(file.name)
        if not removes and (found is None or not os.path.samefile(found, file)):
            print(f"  {file.name} on this PATH is {found or 'nothing'}: put {file.parent} first to use this one")
    return 0


if __name__ == "__main__":
    sys.exit(main())
