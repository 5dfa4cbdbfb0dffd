"""Runs the tests of programs that use mpi4py, from their own sources, over MPICH and over fastsock.mpj, and compares.

    python tests/mpi4py_suite/others.py --install           makes the environment with all of them first (some minutes)
    python tests/mpi4py_suite/others.py                     all, and prints the table
    python tests/mpi4py_suite/others.py --only dask-mpi --match '*basic*' --details

Both use the same packages; over fastsock.mpj the installed mpi4py and MPICH are there too, and are not used. What MPICH
does not pass is not asked of fastsock.mpj.

Exit status: 0 all passes here that passes on MPICH, 1 something does not, 2 they could not be had.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from fastsock.mpj import install_mpiexec, search_path  # noqa: E402
from tests.mpi4py_suite import running  # noqa: E402

PACKAGES = (
    "mpich",
    "mpi4py==4.1.2",
    "numpy",
    "scipy",
    "dill",
    "joblib",
    "psutil",
    "testpath",
    "distributed",
    "ipython",
    "pytest<9",
    "pytest-timeout",
    "pytest-asyncio",
    "pytest-cov",
)
PASSED, SKIPPED, FAILED = "pass", "skip", "FAIL"
# Globs over tests that MPICH alone passes, and why that is no defect.
DIFFERENT = {
    "*test_outcomes?test_mpi_deadlock*": "It expects a hang; here a rank that waits for an ended one is told.",
}


@dataclass(frozen=True)
class Run:
    """A command in a project's folder; `pytest`: its tests count one by one, else its exit status is the outcome."""

    name: str
    words: tuple[str, ...]
    folder: str = "."
    pytest: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Project:
    """A source distribution; `installed`: into the environment too, as it cannot be imported where it lies."""

    name: str
    version: str
    installed: bool
    debian: str = ""  # needed to build it


PROJECTS = (
    Project("schwimmbad", "0.4.2", True),
    Project("mpi4py-fft", "2.0.6", True, "libfftw3-dev"),
    Project("dask-mpi", "2026.3.0", True),
    Project("libensemble", "1.6.1", True),
    Project("ipyparallel", "9.2.0", True),
    Project("pytest-mpi", "0.6", False),  # this and the next have one module name
    Project("mpi-pytest", "2026.0", False),
    Project("pytest-isolate-mpi", "0.4.1", False),  # else it takes part in the others' tests
)


def tests(name: str, folder: Path) -> Iterator[Run]:
    """What is run of a project."""
    if name == "schwimmbad":
        for file in ("test_mpi.py", "test_mpi_with_dill.py"):
            yield Run(file, ("mpiexec", "-n", "3", "{python}", file), "tests")
        yield Run("tests", ("{python}", "-m", "pytest", "tests"), pytest=True)
    elif name == "mpi4py-fft":
        for file in sorted((folder / "tests").glob("test_*.py")):
            for ranks in ("1", "2", "4"):
                yield Run(f"{file.name}, {ranks} ranks", ("mpiexec", "-n", ranks, "{python}", file.name), "tests")
    elif name == "dask-mpi":
        root = {"ALLOW_RUN_AS_ROOT": "True"}
        for file in sorted((folder / "dask_mpi" / "tests").glob("test_*.py")):
            words = ("{python}", "-m", "pytest", f"dask_mpi/tests/{file.name}")
            yield Run(file.name, words, pytest=True, environ=root)
    elif name == "libensemble":
        for file in sorted((folder / "libensemble" / "tests" / "functionality_tests").glob("test_*.py")):
            text = file.read_text(encoding="utf-8")
            wanted = re.search(r"^# TESTSUITE_COMMS:.*\bmpi\b", text, re.M)
            if wanted and not re.search(r"^# TESTSUITE_(EXTRA|EXCLUDE): true", text, re.M):
                found = re.search(r"^# TESTSUITE_NPROCS:.*\b(\d+)\s*$", text, re.M)
                ranks = found[1] if found else "4"
                yield Run(
                    file.name, ("mpiexec", "-n", ranks, "{python}", file.name), str(file.parent.relative_to(folder))
                )
    elif name == "ipyparallel":
        words = ("{python}", "-m", "pytest", "-p", "no:cacheprovider", "ipyparallel/tests/test_mpi.py")
        yield Run("test_mpi.py", words, pytest=True)
    elif name == "pytest-mpi":
        source = {"PYTHONPATH": str(folder / "src"), "PYTEST_PLUGINS": "pytest_mpi"}
        yield Run("tests", ("{python}", "-m", "pytest", "-p", "pytester", "tests"), pytest=True, environ=source)
    elif name == "mpi-pytest":
        source = {"PYTHONPATH": str(folder)}  # which has an entry point for pytest
        yield Run("forking", ("{python}", "-m", "pytest", "tests"), pytest=True, environ=source)
        words = ("mpiexec", "-n", "3", "{python}", "-m", "pytest", "-m", "parallel[3]", "tests")
        yield Run("in 3 ranks", words, environ=source)
    elif name == "pytest-isolate-mpi":
        source = {"PYTHONPATH": str(folder / "src"), "PYTEST_PLUGINS": "pytest_isolate_mpi"}
        yield Run("tests", ("{python}", "-m", "pytest"), "tests", pytest=True, environ=source)


class Places:
    """Where all is kept: sources, and the environment that both sides use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.venv = folder / "environment"
        self.python = self.venv / "bin" / "python"
        self.commands = folder / "fastsock"

    def source(self, project: Project) -> Path | None:
        """The unpacked source distribution."""
        stem = f"{project.name}-{project.version}"
        for name in (stem, stem.replace("-", "_", stem.count("-") - 1)):
            if (self.folder / name).is_dir():
                return self.folder / name
        return None

    def install(self) -> None:
        """Make the environment and fetch the sources. Raises OSError and subprocess.CalledProcessError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.python.exists():
            subprocess.run([sys.executable, "-m", "venv", self.venv], check=True)
        pip = [str(self.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *PACKAGES], check=True)
        for project in PROJECTS:
            name = f"{project.name}=={project.version}"
            if project.debian and os.geteuid() == 0:
                subprocess.run(["apt-get", "install", "-qq", "-y", project.debian], check=False)
            if self.source(project) is None:
                only = ["--no-deps", "--no-binary", project.name, "--dest", str(self.folder)]
                subprocess.run([*pip, "download", *only, name], check=False)
                for archive in self.folder.glob(f"*{project.version}.tar.gz"):
                    with tarfile.open(archive) as opened:
                        opened.extractall(self.folder, [member for member in opened if _is_inside(member.name)])
                    archive.unlink()
            if project.installed:
                done = subprocess.run([*pip, "install", name], check=False)
                if done.returncode:
                    print(f"{project.name} cannot be installed; it is left out", file=sys.stderr)

    def environ(self, side: str) -> dict[str, str]:
        """The environment of a command on one side."""
        found = {name: value for name, value in os.environ.items() if not name.startswith(("FASTSOCK", "PYTEST"))}
        found["PATH"] = f"{self.venv / 'bin'}:{found.get('PATH', os.defpath)}"
        found.pop("PYTHONPATH", None)
        found["PYTHONDONTWRITEBYTECODE"] = "1"
        if side == "fastsock":
            install_mpiexec.install(self.commands)
            search_path.cover(found, as_mpi4py=True)
            found["PYTHONPATH"] = f"{search_path.AS_MPI4PY}:{search_path.ROOT}"
            found["PATH"] = f"{self.commands / 'bin'}:{found['PATH']}"
        return found


def _is_inside(name: str) -> bool:
    return not name.startswith(("/", "..")) and "/../" not in name


def outcomes(run: Run, source: Path, places: Places, side: str, limit: float) -> tuple[dict[str, str], str]:
    """The outcome of each test, and the end of what was printed. Each side runs in a fresh copy of the source."""
    environ = places.environ(side)
    for name, value in run.environ.items():
        before = environ.get(name)
        environ[name] = f"{before}:{value}" if name == "PYTHONPATH" and before else value
    words = [word.format(python=places.python) for word in run.words]
    with tempfile.TemporaryDirectory(prefix="others-") as folder:
        report = Path(folder) / "report.xml"
        fresh = shutil.copytree(source, Path(folder) / source.name)  # some refuse to run where they ran before
        if run.pytest:
            words += [f"--junitxml={report}", "--timeout=120"]
        output, lapsed, status = running.output_of(words, environ, limit, folder=fresh / run.folder)
        if not run.pytest:
            return {run.name: PASSED if status == 0 and not lapsed else FAILED}, output
        found = dict(_reported(report)) if report.exists() else {}
    if not found or lapsed:
        found[f"{run.name} as a whole"] = FAILED
    return found, output


def _reported(report: Path) -> Iterator[tuple[str, str]]:
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
        yield f"{case.get('classname')}.{case.get('name')}", outcome


def _is_different(test: str) -> bool:
    return any(fnmatch.fnmatch(test, pattern) for pattern in DIFFERENT)


def told(found: Mapping[str, str]) -> str:
    counts = Counter(found.values())
    failed = f" F{counts[FAILED]}" if counts[FAILED] else ""
    return f"{counts[PASSED]}/{counts[SKIPPED]}{failed}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="make the environment first, or complete it")
    parser.add_argument(
        "--only", action="append", choices=[project.name for project in PROJECTS], help="may be repeated"
    )
    parser.add_argument("--match", default="*", metavar="GLOB", help="names of runs (default: all)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one run (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=HERE / ".others", help="where environment and sources are kept")
    parser.add_argument("--details", action="store_true", help="print what failed runs printed")
    options = parser.parse_args(argv)
    places = Places(options.folder.resolve())
    try:
        if options.install:
            places.install()
    except (OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 2
    if not places.python.exists():
        print(f"there is no environment in {places.folder}: run with --install", file=sys.stderr)
        return 2
    print(f"{'passed/skipped, then what failed':56}{'MPICH':>12}{'fastsock':>12}{'seconds':>12}")
    regressions: list[str] = []
    ran = 0
    for project in PROJECTS:
        source = places.source(project)
        if options.only and project.name not in options.only:
            continue
        if source is None:
            print(f"{project.name:56}{'not here':>12}", flush=True)
            continue
        for run in tests(project.name, source):
            if not fnmatch.fnmatch(run.name, options.match):
                continue
            print(f"{f'{project.name}: {run.name}':56}", end="", flush=True)
            found, seconds = {}, []
            for side in ("MPICH", "fastsock"):
                start = time.monotonic()
                found[side], output = outcomes(run, source, places, side, options.limit)
                seconds.append(time.monotonic() - start)
                print(f"{told(found[side]):>12}", end="", flush=True)
            print(f"{seconds[0]:7.1f} {seconds[1]:.1f}", flush=True)
            ran += 1
            worse = [
                test
                for test, outcome in found["MPICH"].items()
                if outcome == PASSED and found["fastsock"].get(test) != PASSED and not _is_different(test)
            ]
            regressions += [f"{project.name}: {run.name}: {test}" for test in worse]
            if options.details and FAILED in found["fastsock"].values():
                print("    " + output.strip().replace("\n", "\n    "))
    for regression in regressions:
        print(f"passes on MPICH, not on fastsock: {regression}")
    print(f"{ran} runs, {len(regressions)} regressions")
    return 1 if regressions or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
