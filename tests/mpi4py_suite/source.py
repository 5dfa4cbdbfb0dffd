"""Fetches mpi4py's source distribution, whose tests are the referee; none of it is kept in this repository."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

# The release whose names and behaviour fastsock.mpj follows.
VERSION = "4.1.2"


class SourceError(Exception):
    """The source distribution could not be had; the text says why."""


def tests(folder: Path) -> Path:
    """The folder of mpi4py's tests, downloaded into `folder` first where it is not there yet. Raises SourceError."""
    unpacked = folder / f"mpi4py-{VERSION}"
    if not (unpacked / "test").is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        _unpack(_download(folder), folder)
    return unpacked / "test"


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", ":all:", "--dest", str(folder), f"mpi4py=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True)
    # pip builds the metadata after the download: whether that works does not matter here
    archive = folder / f"mpi4py-{VERSION}.tar.gz"
    if not archive.is_file():
        raise SourceError(f"pip did not download mpi4py {VERSION}'s source distribution:\n{done.stderr.strip()}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as opened:
        members = [member for member in opened if not member.name.startswith(("/", "..")) and "/../" not in member.name]
        opened.extractall(folder, members)
