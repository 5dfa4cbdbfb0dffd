"""Reads exclusions.toml: modules and tests of mpi4py's that need not pass, each with its kind and reason."""

from __future__ import annotations

import fnmatch
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

KINDS = ("vendor-specific",)


class ExclusionError(Exception):
    """exclusions.toml is not in order; the text says where."""


@dataclass(frozen=True)
class Exclusion:
    """A glob over `module` or `module.Class.test`."""

    test: str
    kind: str
    reason: str

    def holds(self, name: str) -> bool:
        return fnmatch.fnmatchcase(name, self.test)


def read(file: Path) -> list[Exclusion]:
    """Every entry of the file; ExclusionError names the first that is wrong."""
    # Python 3.10 has no tomllib; pip carries a copy of its forerunner for its own use.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
    found = []
    for number, entry in enumerate(toml.loads(file.read_text(encoding="utf-8")).get("exclusion", ()), 1):
        where = f"{file.name}, entry {number}"
        if set(entry) != {"test", "kind", "reason"} or not str(entry["reason"]).strip():
            raise ExclusionError(f"{where}: needs `test`, `kind` and a `reason`, and nothing else")
        if entry["kind"] not in KINDS:
            raise ExclusionError(f"{where}: kind {entry['kind']!r} should be one of {', '.join(KINDS)}")
        found.append(Exclusion(**entry))
    return found
