"""How much faster do unmodified programs run? Each of bench/apps, with and without the launcher, by turns.

python bench/apps.py
python bench/apps.py --quick --apps asyncio_echo,http_urllib
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from common import machine, programs, record, table
from common.placement import Placement
from common.process import Broken, Unusable

LAUNCHED = "everything under the launcher"
FAILED = "FAILED: "


@dataclass
class Comparison:
    """One rate of one program, both ways."""

    app: str
    payload: str  # "small", "large" (1 MiB), ...
    path: str  # the best that the launcher may take
    plain: list[float] = field(default_factory=list)  # calls a second
    launched: list[float] = field(default_factory=list)
    paths: dict[str, int] = field(default_factory=dict)  # what the connections took
    cores: str = ""  # their placement in the last turn

    @property
    def ratio(self) -> float | None:
        """How many times faster under the launcher, median over the turns."""
        ratios = [fast / plain for fast, plain in zip(self.launched, self.plain, strict=False)]
        return statistics.median(ratios) if ratios else None

    def rates(self) -> str:
        """Calls a second, plain and under the launcher."""
        return f"plain {table.number(_middle(self.plain))}, launched {table.number(_middle(self.launched))}"

    def connections(self) -> str:
        """Which paths they took."""
        return "connections " + (" ".join(f"{path}:{count}" for path, count in self.paths.items()) or "unknown")


def compare(
    apps: list[str],
    *,
    turns: int,
    seconds: float,
    cores: tuple[int, int],
    paths: Sequence[str] = programs.PATHS[:1],
) -> tuple[list[Comparison], dict[str, str]]:
    """Run every app ``turns`` times plain and on each path; also returns what could not be run, and why.

    A reason that begins with FAILED is a program that did not end well, which is a finding and not a lack.
    """
    found: dict[tuple[str, str, str], Comparison] = {}
    failed: dict[str, str] = {}
    for _ in range(turns):
        for app in apps:
            if app in failed:
                continue
            try:
                _turn(found, app, seconds, cores, paths, failed)
            except (Broken, Unusable) as error:
                failed[app] = f"{FAILED if isinstance(error, Broken) else ''}{error}"
                print(f"  skipped: {app}: {failed[app]}", file=sys.stderr)
    return list(found.values()), failed


def _turn(
    found: dict[tuple[str, str, str], Comparison],
    app: str,
    seconds: float,
    cores: tuple[int, int],
    paths: Sequence[str],
    failed: dict[str, str],
) -> None:
    programs.require(app)
    machine.wait_until_idle()
    placement = Placement(cores)
    before = placement.probe()
    plain = programs.run(app, path=None, seconds=seconds, cores=cores)
    launched: dict[str, programs.Run] = {}
    if LAUNCHED not in failed:
        try:
            programs.require_launcher()
            launched = {path: programs.run(app, path=path, seconds=seconds, cores=cores) for path in paths}
        except Unusable as error:
            failed[LAUNCHED] = str(error)
            print(f"  skipped: {LAUNCHED}: {error}", file=sys.stderr)
    placed = placement.name(before, placement.probe())
    for payload, value in plain.rates.items():
        for path in paths:
            comparison = found.setdefault((app, payload, path), Comparison(app, payload, path))
            comparison.plain.append(value)
            comparison.cores = placed
            if launched:
                comparison.launched.append(launched[path].rates[payload])
                comparison.paths = launched[path].paths


def report(found: list[Comparison]) -> str:
    """One line for each program and payload."""
    return table.lines(
        ["program", "payload", "path", "plain, calls/s", "launched", "times faster", "cores", "connections"],
        [
            [c.app, c.payload, c.path, table.number(_middle(c.plain)), table.number(_middle(c.launched)),
             table.number(c.ratio), c.cores, " ".join(f"{k}:{v}" for k, v in c.paths.items()) or "-"]
            for c in found
        ],
    )  # fmt: skip


def _middle(values: list[float]) -> float | None:
    return statistics.median(values) if values else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apps", help=f"which, separated by commas, of: {', '.join(programs.names())}")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the client's and the server's core")
    parser.add_argument("--paths", default="shm", help="which, separated by commas (default: shm, or what serves it)")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each rate's measurement")
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    apps = options.apps.split(",") if options.apps else programs.names()
    if unknown := set(apps) - set(programs.names()):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    paths = options.paths.split(",")
    if unknown := set(paths) - set(programs.PATHS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    turns, seconds = (1, 0.3) if options.quick else (options.turns, options.seconds)
    found, failed = compare(apps, turns=turns, seconds=seconds, cores=options.pin, paths=paths)
    print(report(found))
    for app, reason in failed.items():
        print(f"\nnot measured: {app}: {reason}")
    if options.json:
        record.write(options.json, {"apps": found, "failed": failed})
    return 0 if found and not any(reason.startswith(FAILED) for reason in failed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
