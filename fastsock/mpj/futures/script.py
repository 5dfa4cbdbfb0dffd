"""The master's main script. Workers import it under another name, to find the functions that it defines."""

from __future__ import annotations

import os
import runpy
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WORKER = "__worker__"
MAIN = "__main__"

_code: tuple[str, str] | None = None  # of a command that has no file: its text and name
_imported = False
importing = False
"""This worker is importing the script: what then makes an executor would wait for itself."""


class Script:
    """How a worker can get at the module `__main__` of the master."""

    def __init__(self) -> None:
        main = sys.modules[MAIN]
        spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
        self.code = _code
        self.module: str | None = None if _code is not None or spec is None else spec.name
        self.file: str | None = None
        if _code is None and self.module is None and file is not None:
            self.file = os.path.abspath(file)
        self.arguments = list(sys.argv)
        self.path = list(sys.path)


def remember_code(text: str, name: str) -> None:
    """The main script of this process has no file, but this text."""
    global _code
    _code = (text, name)


def alias() -> None:
    """What workers define comes back under their name of the script."""
    sys.modules.setdefault(WORKER, sys.modules[MAIN])


def take(script: Script, names: dict[str, Any]) -> None:
    """Import the script in this worker, once; `names` are there before."""
    global _imported, importing
    if _imported:
        return
    _imported = True
    sys.argv[:] = script.arguments
    sys.path.extend(entry for entry in script.path if entry not in sys.path)
    module = types.ModuleType(WORKER)
    module.__dict__.update(names)
    importing = True
    try:
        if script.module is not None:
            name = script.module
            content = runpy.run_module(name, init_globals=names, run_name=WORKER, alter_sys=True)
        elif script.file is not None:
            content = runpy.run_path(script.file, init_globals=names, run_name=WORKER)
        elif script.code is not None:
            text, name = script.code
            content = module.__dict__
            exec(compile(text, name, "exec", dont_inherit=True), content)
        else:
            content = {}
    finally:
        importing = False
    module.__dict__.update(content)
    module.__name__ = WORKER
    sys.modules[MAIN] = sys.modules[WORKER] = module
