"""The options of a program, read once when MPI is imported: MPI4PY_RC_* of the environment, else `rc`."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .. import Rc

_TRUTH = dict.fromkeys(("1", "true", "yes", "on", "y", "t"), True)
_TRUTH |= dict.fromkeys(("0", "false", "no", "off", "n", "f"), False)
_DEFAULTS: dict[str, Any] = {
    "initialize": True,
    "threads": True,
    "thread_level": "multiple",
    "finalize": None,
    "fast_reduce": True,
    "recv_mprobe": True,
    "irecv_bufsz": 32768,
    "errors": "exception",
}
_WORDS = {
    "thread_level": ("single", "funneled", "serialized", "multiple"),
    "errors": ("default", "exception", "abort", "fatal"),
}


class Options:
    """The options, each with a value that means something."""

    initialize: bool
    threads: bool
    thread_level: str
    finalize: bool | None
    # nothing here depends on these: objects are reduced along trees, and received without a guess at their size
    fast_reduce: bool
    recv_mprobe: bool
    irecv_bufsz: int
    errors: str

    def __init__(self, rc: Rc) -> None:
        """Replaces a value that means nothing by the default, with a RuntimeWarning. `rc` gets the environment's."""
        for name, default in _DEFAULTS.items():
            value = _from_environment(name, getattr(rc, name))
            setattr(rc, name, value)
            meaning, chosen = _meaning(name, value)
            if not meaning:
                _warn(rc, name, value)
                chosen = default
            setattr(self, name, chosen)


def _from_environment(name: str, value: Any) -> Any:
    text = os.environ.get(f"MPI4PY_RC_{name.upper()}", "").strip()
    if not text:
        return value
    if name == "irecv_bufsz" and text.isdigit():
        return int(text)
    return _TRUTH.get(text.lower(), text.lower())


def _meaning(name: str, value: Any) -> tuple[bool, Any]:
    """Whether the value means something, and what."""
    if name in _WORDS:
        return isinstance(value, str) and value in _WORDS[name], value
    if name == "irecv_bufsz":
        return type(value) is int and value >= 0, value
    if value is None:
        return name == "finalize", value
    if value in (True, "yes"):
        return True, True
    return value in (False, "no"), False


def _warn(rc: Rc, name: str, value: Any) -> None:
    import warnings

    known: object = sys.modules.get("mpi4py.rc")
    package = "mpi4py" if known is rc else "fastsock.mpj"  # as the program knows it
    warnings.warn(f"{package}.rc.{name}: unexpected value {value!r}", RuntimeWarning, stacklevel=3)
