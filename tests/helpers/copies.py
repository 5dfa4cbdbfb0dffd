"""A copy of the package that a test may change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def copy_of(package: Path, tree: Path, *left_out: str) -> Path:
    """Copies the package below `tree`, but for files of these patterns. A file may be the same as the package's own."""
    ignore = shutil.ignore_patterns("__pycache__", *left_out)
    return Path(shutil.copytree(package, tree / package.name, copy_function=_link_or_copy, ignore=ignore))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
