"""Runs a program inside the launcher's process, where that process cannot be replaced.

It does by hand what the interpreter does for its main program: a new ``__main__``, ``sys.argv`` and
``sys.path[0]``. The interpreter still ends the process by itself, so exit codes, signals, threads and
atexit are its own. Tracebacks lose the frames of this module.

Three things differ from a plain start. The program's first frame has callers: a warning's ``stacklevel``
and the depth of a recursion can show them. An interactive ``-`` reads to the end of the input first. A
traceback from ``-c`` shows no source lines (Python 3.13 shows them).
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import os
import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any

_launcher: list[ModuleType] = []


def run(program: list[str], *, children: bool = True) -> None:
    """Run ``app.py args``, ``-m module args``, ``-c code args`` or ``- args``, after installing fastsock.

    children: whether child Pythons get it too.
    """
    from . import installation

    installation.install(children=children)
    main = _new_main()
    _launcher.append(sys.modules["__main__"])  # it is still running: keep it whole
    sys.modules["__main__"] = main
    first, rest = program[0], program[1:]
    try:
        if first[:2] in ("-m", "-c"):
            value = first[2:] or rest.pop(0)
            if first[:2] == "-m":
                _run_module(value, rest)
            else:
                sys.argv[:] = ["-c", *rest]
                _search_first("")
                _execute(compile(value, "<string>", "exec", dont_inherit=True), main)
        elif first == "-":
            sys.argv[:] = ["-", *rest]
            _search_first("")
            _set_file(main, "<stdin>")
            _execute(compile(sys.stdin.buffer.read(), "<stdin>", "exec", dont_inherit=True), main)
        else:
            sys.argv[:] = program
            _run_path(first, main)
    except SystemExit:
        raise
    except BaseException as error:
        _hide_own_frames(error)
        raise


def _new_main() -> ModuleType:
    main = ModuleType("__main__")
    main.__dict__.update(
        __loader__=importlib.machinery.BuiltinImporter,
        __builtins__=builtins,
    )
    if sys.version_info < (3, 14):  # since then made when somebody asks for them
        main.__annotations__ = {}
    return main


def _set_file(main: Any, file: str) -> None:
    main.__file__ = file
    if sys.version_info < (3, 15):
        main.__cached__ = None


def _search_first(entry: str) -> None:
    """Set ``sys.path[0]``: it is still the launcher's. A Python that leaves that entry out is left alone."""
    if not _leaves_first_out():
        sys.path[0] = entry


def _leaves_first_out() -> bool:
    return bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))  # safe_path: since Python 3.11


def _run_module(name: str, arguments: list[str]) -> None:
    import runpy

    sys.argv[:] = ["-m", *arguments]
    _search_first(os.getcwd())
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]


def _run_path(path: str, main: ModuleType) -> None:
    from pkgutil import get_importer

    full = os.path.join(os.getcwd(), path)
    if get_importer(full) is not None:  # a directory or a zip file with a __main__
        import runpy

        if _leaves_first_out():
            sys.path.insert(0, full)
        else:
            sys.path[0] = full
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    _search_first(os.path.dirname(os.path.realpath(path)))
    try:
        with io.open_code(full) as file:
            source = file.read()
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {full!r}: [Errno {error.errno}] {error.strerror}\n")
        sys.exit(2)
    _execute_file(source, full, main)


def _execute_file(source: bytes, file: str, main: Any) -> None:
    _set_file(main, file)
    if file.endswith(".pyc"):
        main.__loader__ = importlib.machinery.SourcelessFileLoader("__main__", file)
        code = main.__loader__.get_code("__main__")
    else:
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
        code = compile(source, file, "exec", dont_inherit=True)
    _execute(code, main)


def _execute(code: CodeType, main: ModuleType) -> None:
    exec(code, main.__dict__)


def _hide_own_frames(error: BaseException) -> None:
    """Let the interpreter report ``error`` as in a plain start, from the program's first frame on."""
    shown = _from_program(error.__traceback__)
    hook = sys.excepthook

    def report(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        sys.excepthook = hook
        if value is error:
            value.__traceback__ = trace = shown
            if hasattr(sys, "last_exc"):
                sys.last_exc = value
            sys.last_traceback = trace
        hook(kind, value, trace)

    sys.excepthook = report


def _from_program(trace: TracebackType | None) -> TracebackType | None:
    """What follows the last frame of this module; the frames before it belong to whoever runs the launcher."""
    program = trace
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == __file__:
            program = trace.tb_next
        trace = trace.tb_next
    return program
