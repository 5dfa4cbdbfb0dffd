"""Runs a program plain and under the launcher, so that a test can ask for no difference."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import fastsock

PACKAGE_PARENT = str(Path(fastsock.__file__).resolve().parent.parent)

# Starts the launcher as a debugger or a coverage tool would: then the program runs in its process.
_DRIVER = "import sys; from fastsock.launcher import main; main(sys.argv[1:])"


@dataclass(frozen=True)
class Outcome:
    """What a program left behind."""

    returncode: int
    stdout: str
    stderr: str

    def normalised(self) -> Outcome:
        """Without the addresses of objects, which differ in every run."""
        return Outcome(self.returncode, _without_addresses(self.stdout), _without_addresses(self.stderr))


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)


def environment(**changes: str) -> dict[str, str]:
    """This process's environment without settings of Python or fastsock, with ``changes``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FASTSOCK"))}
    return {**kept, "PYTHONPATH": PACKAGE_PARENT, "PYTHONDONTWRITEBYTECODE": "1", **changes}


@dataclass
class Programs:
    """A directory of programs and the ways to run them."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def inside_of(cls, parent: Path) -> Programs:
        """An empty directory of programs."""
        folder = parent / "programs"
        folder.mkdir()
        return cls(folder)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *command: str, python: str = sys.executable, stdin: str = "") -> Outcome:
        """Run ``python *command`` in the folder."""
        done = subprocess.run(
            [python, *command],
            cwd=self.folder,
            env=environment(**self.variables),
            input=stdin,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=60,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def launched(self, *program: str, options: tuple[str, ...] = (), stdin: str = "") -> Outcome:
        """Run under the launcher, which becomes the program."""
        return self.run(*options, "-m", "fastsock.launcher", *program, stdin=stdin)

    def inside(self, *program: str, options: tuple[str, ...] = (), stdin: str = "") -> Outcome:
        """Run under a launcher that cannot become the program."""
        driver = self.folder.parent / "driver.py"
        driver.write_text(_DRIVER)
        return self.run(*options, str(driver), *program, stdin=stdin)

    def no_difference(
        self,
        *program: str,
        options: tuple[str, ...] = (),
        stdin: str = "",
        way: str = "launched",
    ) -> Outcome:
        """Run plain and under the launcher; gives the plain outcome after comparing."""
        plain = self.run(*options, *program, stdin=stdin)
        fast = getattr(self, way)(*program, options=options, stdin=stdin)
        assert fast.normalised() == plain.normalised()
        return plain
