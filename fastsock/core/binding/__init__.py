"""Where Python objects end. All modules of this folder are in the file of `_core`, which has the C core within.

So they share the one core of the process, whichever file of `_core` it has (`core/__init__.py`). The interpreter looks
for a file by the name of each module. So load() loads all of them at once, each behind those that it imports. A finder
would stand in `sys.meta_path`, where a program sees it, and another thread's import could miss one as it goes.
"""

from __future__ import annotations

import sys
from _frozen_importlib import module_from_spec  # importlib.util has it too, and takes as long as all this
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, ModuleSpec

_MODULES = (
    *("_buffers", "_stream", "_watching", "_table", "_calls", "_ends", "_channel_bytes", "_channel", "_carrier"),
    *("_connections", "_schedule", "_requests", "_messages", "_engine", "_system", "_exports", "_registered"),
    *("_polling", "_polls", "_remote", "_shown", "_team", "_window"),
)


def load() -> None:
    """Loads all modules of this folder. Idempotent. Raises ImportError where `_core` is not built."""
    file = str(import_module(f"{__name__}._core").__file__)
    for own_name in _MODULES:
        name = f"{__name__}.{own_name}"
        if name not in sys.modules:
            _load(name, file)
        globals()[own_name] = sys.modules[name]


def _load(name: str, file: str) -> None:
    loader = ExtensionFileLoader(name, file)
    spec = ModuleSpec(name, loader, origin=file)
    spec.has_location = True
    module = sys.modules[name] = module_from_spec(spec)
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
