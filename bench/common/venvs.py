"""Virtual environments of the running interpreter, for peers that it does not have itself."""

from __future__ import annotations

import site
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .process import Unusable

FOLDER = Path(__file__).parent.parent / ".venvs"


def make(name: str, packages: Sequence[str]) -> None:
    """One of that name with these packages and no others, whatever was there. Raises Unusable."""
    folder = FOLDER / name
    steps = [
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True)
        if done.returncode:
            raise Unusable(f"{' '.join(step)} failed: {done.stderr.strip()[-300:]}")


def enter(name: str) -> None:
    """This process can import its packages from now on. Raises Unusable where it is not made."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = FOLDER / name / "lib" / version / "site-packages"
    if not packages.exists():
        raise Unusable(f"{name} is not installed: run with --install")
    site.addsitedir(str(packages))
