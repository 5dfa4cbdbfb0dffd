"""Finds interpreters, asks each what it has, and installs the checkout for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")

_PROBE = r"""
import glob, importlib.util, json, os, sys
facts = {"version": ".".join(map(str, sys.version_info[:3])), "executable": sys.executable}
try:
    import test.support
    folder = os.path.dirname(test.__file__)
    files = glob.glob(os.path.join(folder, "test_asyncio", "test_*.py"))
    facts["asyncio"] = sorted(os.path.basename(file)[:-3] for file in files)
    facts["modules"] = sorted(name.split(".")[0] for name in os.listdir(folder))
except ImportError as error:
    facts["no_tests"] = str(error)
spec = importlib.util.find_spec("fastsock")
facts["fastsock"] = spec.origin if spec else None
if spec:
    import fastsock.core
    facts["core"] = bool(getattr(fastsock.core, "available", False))
    facts["why_no_core"] = getattr(fastsock.core, "why_not", "")
print(json.dumps(facts))
"""


class InterpreterError(Exception):
    """An interpreter cannot be used; the text says what to do."""


@dataclass(frozen=True)
class Interpreter:
    """One Python that can run the tests.

    `modules` are the names in its `test` package, `asyncio` those in
    `test.test_asyncio`; `fastsock` is the file that `import fastsock` finds,
    or None; `core` tells whether the native core works there.
    """

    executable: str
    version: str
    modules: tuple[str, ...]
    asyncio: tuple[str, ...]
    fastsock: str | None
    core: bool
    why_no_core: str

    def __str__(self) -> str:
        core = "native core" if self.core else f"no native core ({self.why_no_core or 'no fastsock'})"
        return f"Python {self.version}: {self.executable}; {core}; fastsock: {self.fastsock}"

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def clean_environment() -> dict[str, str]:
    """This environment without what would make one machine's tests differ from another's."""
    unwanted = re.compile(r"(?i)(PYTHON(?!PATH$)|FASTSOCK_(?!MEETING_MS$)|SSL_CERT_|VIRTUAL_ENV$|.*_proxy$)")
    return {name: value for name, value in os.environ.items() if not unwanted.match(name)}


def probe(executable: str) -> Interpreter:
    """What an interpreter has; InterpreterError if it cannot run the tests."""
    answer = subprocess.run(
        [executable, "-c", _PROBE], env=clean_environment(), cwd="/", capture_output=True, text=True
    )
    if answer.returncode != 0:
        raise InterpreterError(f"{executable} does not start or cannot import fastsock:\n{answer.stderr.strip()}")
    facts = json.loads(answer.stdout)
    if "no_tests" in facts:
        raise InterpreterError(
            f"{executable} has no package `test` ({facts['no_tests']}): use a Python built from source (pyenv), "
            "or install it (Debian: libpython3.11-testsuite)"
        )
    return Interpreter(
        facts["executable"],
        facts["version"],
        tuple(facts["modules"]),
        tuple(facts["asyncio"]),
        facts["fastsock"],
        facts.get("core", False),
        facts.get("why_no_core", ""),
    )


def find(wanted: str) -> str:
    """The executable for `3.11`, `3.11.7` or a path."""
    if not re.fullmatch(r"\d+(\.\d+)+", wanted):
        path = shutil.which(wanted)
        if path is None:
            raise InterpreterError(f"no interpreter at {wanted}")
        return path
    mine = ".".join(map(str, sys.version_info[:3]))
    if mine == wanted or mine.startswith(wanted + "."):
        return sys.executable
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [
        path
        for path in folder.glob(f"{wanted}*/bin/python")
        if path.parts[-3] == wanted or path.parts[-3].startswith(wanted + ".")
    ]
    if found:
        return str(max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.parts[-3])]))
    on_path = shutil.which(f"python{wanted}")
    if on_path is None:
        raise InterpreterError(f"no Python {wanted}: neither running, nor in {folder}, nor python{wanted} on PATH")
    return on_path


def find_all() -> list[str]:
    """One executable for each supported version that is installed."""
    found = []
    for minor in SUPPORTED:
        try:
            found.append(find(minor))
        except InterpreterError as error:
            print(f"left out: {error}", file=sys.stderr)
    return found


def environment_of(executable: str, venvs: Path) -> Path:
    """Where the virtual environment for an interpreter is, whether or not it exists."""
    answer = subprocess.run(
        [executable, "-c", "import platform; print(platform.python_version())"],
        check=True,
        capture_output=True,
        text=True,
        env=clean_environment(),
    )
    return venvs.absolute() / answer.stdout.strip()


def install(executable: str, venvs: Path, checkout: Path, also: tuple[str, ...] = ()) -> str:
    """Makes or refreshes the virtual environment, with the checkout and packages `also` in it; its Python."""
    folder = environment_of(executable, venvs)
    python = folder / "bin" / "python"
    environment = dict(os.environ)
    environment.pop("PYTHONPATH", None)
    if not python.exists():
        subprocess.run([executable, "-m", "venv", str(folder)], check=True, env=environment)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # From a copy: pip builds in the folder itself, where what was built for another interpreter lies about.
    with tempfile.TemporaryDirectory(prefix="referee-") as copy:
        source = Path(copy, "fastsock")
        source.mkdir()
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            if (checkout / name).exists():
                shutil.copy(checkout / name, source)
        shutil.copytree(
            checkout / "fastsock", source / "fastsock", ignore=shutil.ignore_patterns("__pycache__", "*.so", "_core.c")
        )
        try:
            subprocess.run([*pip, str(source), *also], check=True, env=environment, cwd="/")
        except subprocess.CalledProcessError as error:
            raise InterpreterError(f"pip could not install the checkout into {folder}: see above") from error
    return str(python)


def ready(executable: str, venvs: Path, need_fastsock: bool = True) -> Interpreter:
    """The interpreter itself if it can import fastsock, else its virtual environment."""
    own = probe(executable)
    if own.fastsock or not need_fastsock:
        return own
    python = environment_of(executable, venvs) / "bin" / "python"
    if python.exists():
        installed = probe(str(python))
        if installed.fastsock:
            return installed
    raise InterpreterError(f"Python {own.version} cannot import fastsock: run once with --install")
