"""Runs a program in this rank. An uncaught exception ends all ranks, as under ``python -m mpi4py.run``.

Under `python -m fastsock.mpj.run` it ends them in any case. Under other launchers an error in one rank may leave the
others waiting. There, only this module can make fastsock.mpj stand for mpi4py.
"""

from __future__ import annotations

import os
import sys

from ...xxdev import job
from .. import search_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

USAGE = """\
usage: python -m {module} [options] app.py [arguments] | -m module [arguments] | -c code [arguments] | - [arguments]

Runs the program as one rank of whatever launcher started it. An uncaught exception ends all ranks.

  --as-mpi4py          `from mpi4py import MPI` means fastsock.mpj, in child Pythons too
  -rc key=value,...    set mpi4py.rc.key
  --mpi-std-version    the version of the MPI standard
  --mpi-lib-version    what carries the messages
  --prefix, --version, --help
"""

_module = ""  # by which this was started

_ABOUT: dict[str, Callable[[], str]] = {
    "prefix": lambda: os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
    "version": lambda: _version(),
    "mpi-library": lambda: _mpi().__file__,
    "mpi-std-version": lambda: f"MPI {_mpi().VERSION}.{_mpi().SUBVERSION}",
    "mpi-lib-version": lambda: _mpi().Get_library_version(),
    "help": lambda: _usage(),
    "h": lambda: _usage(),
}


def main(module: str = "mpi4py.run") -> None:
    """The command line of `mpi4py.run`, by that or another name."""
    global _module
    _module = module
    arguments = sys.argv[1:]
    while arguments and arguments[0].startswith("-") and arguments[0] not in ("-m", "-c", "-"):
        name, equals, value = arguments.pop(0).lstrip("-").partition("=")
        if name in _ABOUT and not equals:
            print(_ABOUT[name]())
            return
        if name == "as-mpi4py" and not equals:
            search_path.cover(os.environ, as_mpi4py=True)
            sys.path.insert(1, search_path.AS_MPI4PY)
            continue
        if name != "rc":
            _refuse(f"unknown option: {name}")
        if not equals:
            if not arguments:
                _refuse("-rc needs key=value")
            value = arguments.pop(0)
        _choose(value)
    if not arguments:
        _refuse("no program to run")
    if arguments[0] in ("-m", "-c") and len(arguments) < 2:
        _refuse(f"{arguments[0]} needs a value")
    try:
        run_command_line(arguments)
    except BaseException as error:
        set_abort_status(error)
        raise


def run_command_line(args: Sequence[str] | None = None) -> None:
    """Run ``app.py``, ``-m module``, ``-c code`` or ``-``, each with arguments, as ``__main__`` in this process."""
    import runpy

    sys.argv[:] = sys.argv[1:] if args is None else args
    first = sys.argv[0]
    _check_program(sys.argv)
    if first in ("-", "-c"):
        code, name = (sys.stdin.read(), "<stdin>") if first == "-" else (sys.argv.pop(1), "<string>")
        runpy._run_module_code(  # type: ignore[attr-defined]
            compile(code, name, "exec", dont_inherit=True), None, "__main__", script_name=first
        )
    elif first == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        if not sys.flags.isolated:
            sys.path[0] = os.path.realpath(os.path.dirname(first))
        runpy.run_path(first, run_name="__main__")


def _check_program(words: Sequence[str]) -> None:
    """Exits as Python does, with its words, where there is nothing to run."""
    first = words[0]
    if first in ("-m", "-c") and len(words) < 2:
        sys.stderr.write(f"Argument expected for the {first} option\n")
        sys.exit(2)
    if first == "-m":
        from importlib.util import find_spec

        try:
            found = find_spec(words[1])
        except (ImportError, ValueError):  # of a package above it
            found = None
        if found is None:
            sys.stderr.write(f"{sys.executable}: No module named {words[1]}\n")
            sys.exit(1)
    elif first not in ("-", "-c") and not os.path.exists(first):
        sys.stderr.write(f"{sys.executable}: can't open file {os.path.abspath(first)!r}: No such file or directory\n")
        sys.exit(2)


def set_abort_status(status: Any) -> None:
    """Let this process end all ranks when it exits; `status` is a number, or the exception that ends it."""
    if isinstance(status, SystemExit):
        status = status.code
    elif isinstance(status, KeyboardInterrupt):
        status = 130
    number = int(status) if isinstance(status, int) else 0 if status is None else 1
    joined = job.joined()
    if joined is None or number == 0:
        return
    import atexit

    # Registered last, so it runs before the layer's own: nobody is waited for.
    atexit.register(joined.abort, number, f"status {number} at its end")


def _choose(text: str) -> None:
    from ast import literal_eval

    from .. import rc

    for entry in text.split(","):
        name, _, value = entry.partition("=")
        if not name or not value:
            _refuse(f"cannot understand rc option {entry!r}")
        try:
            rc(**{name: literal_eval(value)})
        except (ValueError, SyntaxError):
            rc(**{name: value})


def _usage() -> str:
    return USAGE.format(module=_module).rstrip()


def _version() -> str:
    package = _module.partition(".")[0]
    return f"{package} {sys.modules[package].__version__}"


def _mpi() -> Any:
    from importlib import import_module

    from .. import rc

    rc.initialize = rc.finalize = False
    return import_module("fastsock.mpj.MPI")


def _refuse(text: str) -> NoReturn:
    sys.stderr.write(f"{text}\n{_usage()}\n")
    sys.exit(1)
