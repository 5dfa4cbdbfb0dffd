"""Child Python processes: the environment that makes them install fastsock before their own program.

``PYTHONPATH`` starts with a directory that holds only a ``sitecustomize`` module. Python imports it at
its start. It installs fastsock, or has it installed when `socket` is imported, takes its directory off ``sys.path``
again, and runs the ``sitecustomize`` that it displaced. So children by subprocess, os.exec*, os.spawn* and
multiprocessing (fork needs nothing; spawn, forkserver) are covered alike, at any depth.

Some children are not covered, and run unpatched: those started with ``-I``, ``-E`` or ``-S``, those with
an environment without these variables (``env={}``), and those of a Python that is older than 3.10 or
has no fastsock. ``FASTSOCK_INSTALL=0`` in a child's environment leaves that child alone.

With ``--no-children`` the process that the launcher becomes installs fastsock, and then takes all of this out of its
environment.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

BOOTSTRAP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bootstrap")

INSTALL = "FASTSOCK_INSTALL"
INTERPRETER = "FASTSOCK_INTERPRETER"
CHILDREN = "FASTSOCK_CHILDREN"  # 0: the process that the launcher became takes all of this out (--no-children)
_SEARCH_PATH = "PYTHONPATH"


def interpreter() -> str:
    """A name for this Python environment. A child in the same one takes the very package that covers it."""
    return f"{sys.implementation.cache_tag}:{sys.prefix}"


def can_cover() -> bool:
    """Whether the directory can stand in PYTHONPATH. It cannot if its path contains the separator."""
    return os.pathsep not in BOOTSTRAP


def cover(environ: MutableMapping[str, str]) -> None:
    """Change an environment so that Pythons started with it install fastsock. Idempotent."""
    environ[INSTALL] = "1"
    environ[INTERPRETER] = interpreter()
    entries = environ.get(_SEARCH_PATH, "")
    others = [entry for entry in entries.split(os.pathsep) if entry != BOOTSTRAP] if entries else []
    environ[_SEARCH_PATH] = os.pathsep.join([BOOTSTRAP, *others])


def uncover(environ: MutableMapping[str, str]) -> None:
    """Take back what ``cover`` did. Idempotent."""
    environ.pop(INSTALL, None)
    environ.pop(INTERPRETER, None)
    entries = environ.get(_SEARCH_PATH, "").split(os.pathsep)
    if BOOTSTRAP in entries:
        others = [entry for entry in entries if entry != BOOTSTRAP]
        if others:
            environ[_SEARCH_PATH] = os.pathsep.join(others)
        else:
            del environ[_SEARCH_PATH]
