"""What `originals` takes its calls from where the system is not Linux: no connection leaves TCP there.

The modules that macOS and Windows have, with a call that raises in place of each one that they lack. So the table of
calls is one, and nobody who imports fastsock there needs to know which are missing.
"""

from __future__ import annotations

import errno
import importlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Missing(int):
    """A call that this system lacks, and a number where a constant is asked for."""

    def __call__(self, *_: object, **__: object) -> Any:
        raise OSError(errno.ENOSYS, "this system has no such call")


class Module:
    """One or several modules of the standard library as one. The first that has a name gives it."""

    def __init__(self, *names: str) -> None:
        self._modules = [module for module in map(_found, names) if module is not None]

    def __getattr__(self, name: str) -> Any:
        for module in self._modules:
            if hasattr(module, name):
                return getattr(module, name)
        return Missing()


def _found(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


fcntl = Module("fcntl")
posix = Module("posix", "nt", "os")
resource = Module("resource")
select = Module("select")
