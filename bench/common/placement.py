"""Near or far: how the two cores are placed at this moment, seen from one cache line's round trip."""

from __future__ import annotations

import subprocess

from . import build

NEAR_BELOW = 0.25  # microseconds; measured placements lie at 0.05 to 0.10 and at about 0.5

NEAR, FAR, MIXED, ONE_CORE, UNKNOWN = "near", "far", "mixed", "one core", "unknown"


class Placement:
    """Probes one pair of cores. Where it cannot (one core, no compiler), every probe is None."""

    def __init__(self, cores: tuple[int, int]) -> None:
        self.cores = cores
        self.why_not = ""
        self._command: list[str] = []
        if cores[0] == cores[1]:
            self.why_not = ONE_CORE
        else:
            try:
                self._command = [str(build.program("probe")), str(cores[0]), str(cores[1])]
            except build.CannotBuild as error:
                self.why_not = str(error)

    def probe(self) -> float | None:
        """A cache line's round trip in microseconds, or None."""
        if not self._command:
            return None
        result = subprocess.run(self._command, capture_output=True, text=True)
        return float(result.stdout) if result.returncode == 0 else None

    def name(self, before: float | None, after: float | None) -> str:
        """The placement during something measured between two probes."""
        if before is None or after is None:
            return ONE_CORE if self.cores[0] == self.cores[1] else UNKNOWN
        return between(before, after)


def between(before: float, after: float) -> str:
    """The placement between two probes."""
    near = (before < NEAR_BELOW, after < NEAR_BELOW)
    return NEAR if all(near) else MIXED if any(near) else FAR
