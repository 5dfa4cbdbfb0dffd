"""Runs fastsock's tests on Pythons that this machine does not have: Debian unstable's, in a folder, entered by chroot.

    python tests/pythons/run.py                          3.14: the quick referee and the C core's tests
    python tests/pythons/run.py --python 3.14 --python 3.15 --whole   every test there is
    python tests/pythons/run.py --folder DIR --free-threaded   the tests of threads on a Python without the GIL
    python tests/pythons/run.py --folder DIR --python 3.15 -- python -m pytest tests/paths/test_stream.py

Needs root and a Debian whose apt works. Exit status: 0 all passed, 1 a test
failed, 3 such a Python cannot be had here (a line says why).
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import folder
import free_threaded

ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT = "3.14"
CANNOT_BE_HAD = 3
# Some of these Pythons have to compile the others with more than a C compiler: the tests that need them are skipped
# where they are missing.
PACKAGES = ("cython>=3.1", "setuptools>=77", "wheel", "pytest>=8", "pytest-timeout", "pytest-xdist", "psutil")
NUMPY = {"3.13t": "numpy<2.4"}  # the last with a wheel for it
# Each with what serves where the newest cannot be had.
IF_POSSIBLE = {
    "hypothesis": ("hypothesis<6.140",),  # in Python alone
    "trustme": (), "uvloop": (), "trio": (), "sysv_ipc": (), "pyopenssl": (), "freezegun": (), "time-machine": (),
    "pyfakefs": (), "blockbuster": (), "gevent": (),
}  # fmt: skip

# The core's tests know no Python: what they gain here is a newer compiler and C library, not another round of ASan.
QUICK = (
    ("CPython's own tests, plain against launcher", ("tests/cpython/run.py", "--quick", "--times", "1")),
    ("CPython's own tests of managers, on fastsock.rmi.managers", ("tests/rmi/cpython_managers.py", "fork")),
    ("the C core's tests", ("-m", "tests.core.run", "--short", "--twice", "plain")),
)
WHOLE = (
    ("the tests", ("-m", "pytest")),
    ("CPython's own tests, plain against launcher", ("tests/cpython/run.py",)),
    ("mpi4py's own tests over fastsock.mpj", ("tests/mpi4py_suite/run.py", "--quick")),
)
THREADS = (
    ("the tests of threads", ("-m", "pytest", "tests/paths/test_threads.py")),
    ("streams that several threads use", ("-m", "pytest", "tests/paths/test_stream.py", "-k", "threads")),
    ("remote calls, active messages, buffers", ("-m", "pytest", "tests/rmi", "tests/active", "tests/buffers")),
)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="VERSION", help=f"may be repeated (default: {DEFAULT})")
    parser.add_argument(
        "--folder", type=Path, help="made where it is not there, and kept (default: one that is deleted)"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--whole", action="store_true", help="every test there is")
    what.add_argument(
        "--free-threaded", action="store_true", help="on a Python without the GIL, built from Debian's source"
    )
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="run this there instead")
    options = parser.parse_args(argv)
    options.python = options.python or [DEFAULT]
    return options


def prepare(place: Path, version: str, interpreter: str) -> bool:
    """A copy of the checkout and a virtual environment with it; whether that worked."""
    source = place / "src" / version
    source.mkdir(parents=True, exist_ok=True)
    files = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout  # fmt: skip
    # what is there, not what was committed; and nothing that was compiled for this machine's Python
    existing = b"\0".join(name for name in files.split(b"\0") if name and (ROOT / name.decode()).exists())
    pack = subprocess.Popen(["tar", "c", "--null", "-T", "-"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    unpack = subprocess.Popen(["tar", "x", "-C", str(source)], stdin=pack.stdout)
    assert pack.stdin is not None
    pack.stdin.write(existing)
    pack.stdin.close()
    if pack.wait() or unpack.wait():
        return False
    where, python = f"/src/{version}", f"/opt/of-{version}/bin/python"
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--root-user-action=ignore"]
    packages = [*PACKAGES, NUMPY.get(version, "numpy")]
    for command in ([interpreter, "-m", "venv", f"/opt/of-{version}"], [*pip, *packages]):
        if folder.run(place, "/", command) != 0:
            return False
    for package, others in IF_POSSIBLE.items():
        for each in (package, *others):
            if subprocess.run(folder.inside(place, "/", [*pip, each]), capture_output=True).returncode == 0:
                break
        else:
            print(f"{package} cannot be installed for {version}: the tests that need it are left out", flush=True)
    installed = folder.run(place, where, [*pip, "--no-build-isolation", "--no-deps", "-e", "."])
    # an installation whose core did not compile is none to test
    core = "from fastsock import core; assert core.available, core.why_not"
    return installed == 0 and folder.run(place, where, [python, "-c", core]) == 0


def play(place: Path, version: str, options: argparse.Namespace) -> bool:
    """Runs what was asked for on one Python; whether all of it passed."""
    started = time.monotonic()
    interpreter = f"python{version}"
    if options.free_threaded:
        version, interpreter = free_threaded.build(place)
    if not prepare(place, version, interpreter):
        print(f"Python {version}: fastsock could not be installed", flush=True)
        return False
    where, binaries = f"/src/{version}", f"/opt/of-{version}/bin"
    path = f"{binaries}:/usr/bin:/bin"
    print(f"Python {version} is ready after {time.monotonic() - started:.0f} s", flush=True)
    if options.command:
        return folder.run(place, where, options.command, PATH=path) == 0
    passed = True
    for title, command in THREADS if options.free_threaded else WHOLE if options.whole else QUICK:
        began = time.monotonic()
        print(f"\n---- Python {version}: {title}", flush=True)
        good = folder.run(place, where, [f"{binaries}/python", *command], PATH=path) == 0
        print(f"---- {'passed' if good else 'FAILED'} in {time.monotonic() - began:.0f} s", flush=True)
        passed = passed and good
    return passed


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    started = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # as timeout(1) ends it
    with tempfile.TemporaryDirectory(prefix="pythons-") as temporary:
        place = options.folder or Path(temporary)
        try:
            folder.check()
            if not (place / "usr/bin/python3").exists() and not any(
                (place / f"usr/bin/python{version}").exists() for version in options.python
            ):
                folder.make(place, options.python)
                print(f"Debian's unstable is there after {time.monotonic() - started:.0f} s", flush=True)
            results = [play(place, version, options) for version in options.python]
        except folder.Unavailable as reason:
            print(f"no other Python here: {reason}")
            return CANNOT_BE_HAD
        finally:
            folder.end_all(Path(temporary))
    passed = all(results)
    print(f"\n{'all passed' if passed else 'FAILED'}, {(time.monotonic() - started) / 60:.1f} min")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
