"""Where Python objects end. All modules of this folder are in the file of `_core`, which has the C core within.

So they share the one core of the process, whichever file of `_core` it has (`core/__init__.py`). The interpreter looks
for a file by the name of each module. So load() tells it which one it is, for all of them at once: nothing that a
program could see stays behind in `sys.meta_path`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec

_MODULES = (
    *("_buffers", "_calls", "_carrier", "_channel", "_channel_bytes", "_connections", "_ends", "_engine", "_exports"),
    *("_lending", "_messages", "_polling", "_polls", "_remote", "_requests", "_schedule", "_stream", "_system"),
    *("_table", "_team", "_watching"),
)


class _InOneFile:
    """A finder of modules."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if package != __name__ or module not in _MODULES:
            return None
        file = str(import_module(f"{__name__}._core").__file__)
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


def load() -> None:
    """Loads all modules of this folder. Idempotent. Raises ImportError where `_core` is not built."""
    finder = _InOneFile()
    sys.meta_path.insert(0, finder)  # first: files of their own are of an older build
    try:
        for module in _MODULES:
            import_module(f"{__name__}.{module}")
    finally:
        sys.meta_path.remove(finder)
