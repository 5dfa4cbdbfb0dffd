"""Where Python objects end. All modules of this folder are in the file of `_core`, which has the C core within.

So they share the one core of the process, whichever file of `_core` it has (`core/__init__.py`). The interpreter looks
for a file by the name of each module, and is told here which one it is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec


class _InOneFile:
    """A finder of modules."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        package, _, module = name.rpartition(".")
        if package != __name__ or module == "_core":
            return None
        file = str(import_module(f"{__name__}._core").__file__)
        spec = ModuleSpec(name, ExtensionFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec


sys.meta_path.insert(0, _InOneFile())  # first: files of their own are of an older build
