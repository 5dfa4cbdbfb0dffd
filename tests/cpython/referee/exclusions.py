"""Reads exclusions.toml: tests known to fail under the launcher, each with its reason."""

from __future__ import annotations

import fnmatch
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastsock.config import KNOWN_TRANSPORTS

from .interpreters import SUPPORTED

PATHS = KNOWN_TRANSPORTS

# At most this many of test_socket's tests may be excluded on any one path and version.
SOCKET_LIMIT = 5


class ExclusionError(Exception):
    """exclusions.toml is not in order; the text says where."""


@dataclass(frozen=True)
class Exclusion:
    """Tests (a glob over ids) that need not pass, on these paths and versions."""

    test: str
    reason: str
    paths: tuple[str, ...] = PATHS
    pythons: tuple[str, ...] = SUPPORTED

    def holds(self, test: str, path: str, python: str) -> bool:
        return path in self.paths and python in self.pythons and fnmatch.fnmatchcase(test, self.test)


def _load(file: Path) -> dict[str, Any]:
    # Python 3.10 has no tomllib; pip carries a copy of its forerunner for its own use.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli")
    loaded: dict[str, Any] = toml.loads(file.read_text(encoding="utf-8"))
    return loaded


def read(file: Path) -> list[Exclusion]:
    """Every entry of the file; ExclusionError names the first that is wrong."""
    found = []
    for number, entry in enumerate(_load(file).get("exclusion", ()), 1):
        where = f"{file.name}, entry {number}"
        unknown = set(entry) - {"test", "reason", "paths", "pythons"}
        if unknown:
            raise ExclusionError(f"{where}: unknown key {sorted(unknown)[0]!r}")
        if not entry.get("test") or not str(entry.get("reason", "")).strip():
            raise ExclusionError(f"{where}: needs `test` and a `reason`")
        exclusion = Exclusion(
            entry["test"], entry["reason"], tuple(entry.get("paths", PATHS)), tuple(entry.get("pythons", SUPPORTED))
        )
        for value, known in ((exclusion.paths, PATHS), (exclusion.pythons, SUPPORTED)):
            if not value or not set(value) <= set(known):
                raise ExclusionError(f"{where}: {list(value)} should be some of {list(known)}")
        found.append(exclusion)
    return found


@dataclass
class Ledger:
    """What became of each exclusion in the runs made so far."""

    exclusions: list[Exclusion]

    def __post_init__(self) -> None:
        self._matched: set[Exclusion] = set()
        self._passed: dict[tuple[Exclusion, str, str], int] = {}
        self._failed: dict[tuple[Exclusion, str, str], set[str]] = {}

    def of(self, test: str, path: str, python: str) -> Exclusion | None:
        return next((e for e in self.exclusions if e.holds(test, path, python)), None)

    def saw(self, test: str, path: str, python: str, passed: bool) -> bool:
        """Notes how a test that passes plain ended under the launcher; whether an exclusion covers it."""
        exclusion = self.of(test, path, python)
        if exclusion is None:
            return False
        self._matched.add(exclusion)
        key = exclusion, path, python
        if passed:
            self._passed[key] = self._passed.get(key, 0) + 1
        else:
            self._failed.setdefault(key, set()).add(test)
        return True

    def complaints(self, everything_ran: bool) -> list[str]:
        """What is wrong with the file, one sentence each; `everything_ran`: no module or test was left out."""
        found = []
        for (exclusion, path, python), count in self._passed.items():
            if (exclusion, path, python) not in self._failed:
                found.append(
                    f"exclusion {exclusion.test!r} is not needed on {path}, Python {python}: "
                    f"{count} of {count} pass; narrow or remove it"
                )
        if everything_ran:
            found += [
                f"exclusion {e.test!r} matches no test that passes plain"
                for e in self.exclusions
                if e not in self._matched
            ]
        sockets: dict[tuple[str, str], set[str]] = {}
        for (_, path, python), tests in self._failed.items():
            sockets.setdefault((path, python), set()).update(t for t in tests if t.startswith("test.test_socket."))
        found += [
            f"{len(tests)} exclusions in test_socket on {path}, Python {python}: at most {SOCKET_LIMIT} are allowed"
            for (path, python), tests in sockets.items()
            if len(tests) > SOCKET_LIMIT
        ]
        return found
