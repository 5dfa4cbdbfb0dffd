"""Finds modules that call C by cffi or ctypes, as pyOpenSSL does. Their C code reads and writes the number.

Other code only watches the number. The names in a module tell the two apart. A module of the first kind has cffi or
ctypes, or a library, function or type of theirs, or a module or function that has one of these.
"""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERFACES = ("_cffi_backend", "_ctypes")
_LIBRARIES = frozenset((*INTERFACES, "cffi", "cffi.api", "ctypes", "ctypes.util"))
_STANDARD = frozenset(sys.stdlib_module_names)
_MOST_KNOWN = 4096
known: dict[str, tuple[int, bool]] = {}  # by module: how many names it had, and what was found


def asking(frame: FrameType) -> FrameType | None:
    """The frame that asks for a number in `frame`. Functions `fileno` only hand it on, those of files among them."""
    by: FrameType | None = frame
    while by is not None and by.f_code.co_name == "fileno":
        by = by.f_back
    return by


def calls_c(frame: FrameType) -> bool:
    """Whether a module of this kind asks for a number in `frame`."""
    loaded = sys.modules
    if INTERFACES[0] not in loaded and INTERFACES[1] not in loaded:
        return False
    by = asking(frame)
    return by is not None and _has_library(by.f_globals)


def takes_descriptor(sock: Any) -> bool:
    """Whether `sock` is a TLS socket that was wrapped before it connected. OpenSSL reads and writes its descriptor."""
    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(sock, ssl.SSLSocket)


def _has_library(names: dict[str, Any]) -> bool:
    name = names.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or vars(module) is not names:
        return _look(names)
    count, found = known.get(module.__name__, (-1, False))
    if count != len(names):
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = _look(names)
        known[module.__name__] = len(names), found
    return found


def _look(names: dict[str, Any]) -> bool:
    values = list(names.values())
    return any(map(_is_of_library, values)) or any(_leads_to_library(value, names) for value in values)


def _is_of_library(value: Any) -> bool:
    kind = type(value)
    whence = kind.__module__
    if kind is ModuleType:
        whence = value.__dict__.get("__name__")
    elif kind is type:
        whence = value.__module__
    return isinstance(whence, str) and whence in _LIBRARIES


def _leads_to_library(value: Any, names: dict[str, Any]) -> bool:
    if type(value) is FunctionType:
        inside = value.__globals__
    elif type(value) is ModuleType:
        inside = vars(value)
    else:
        return False
    name = str(inside.get("__name__"))
    if inside is names or name.partition(".")[0] in _STANDARD:
        return False
    return any(map(_is_of_library, list(inside.values())))
