"""Checks the protocol's models with spin: `python -m tests.model.run [--short] [--jobs N] [--only WORDS] [--trace]`.

Every model must hold, and every seeded mistake must be found. Exit status: 0; 1 where something is not as expected; 77
where spin or gcc is missing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .checks import MISTAKES, MODELS, Check

HERE = Path(__file__).resolve().parent
RUNS = ("quick", "short", "full")  # each has all of those before it
LIMIT_S = 900
DEPTH = 1_000_000
NOT_HERE = 77
HASH_BITS = 24  # of the table of states: 2**24 slots of 8 bytes


@dataclass(frozen=True)
class Outcome:
    check: Check
    found: str  # what Check.expected says, or "unfinished", "broken"
    states: int | None
    seconds: float
    said: str  # the counterexample, or why there is no result

    @property
    def good(self) -> bool:
        return self.found == self.check.expected


def missing_tools() -> list[str]:
    return [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]


def _call(command: Sequence[str], folder: Path) -> tuple[int, str]:
    result = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result.returncode, result.stdout


def _first_line(said: str) -> str:
    return said.strip().partition("\n")[0]


def _build(check: Check, folder: Path) -> str:
    """Makes the verifier in the folder. Returns what is wrong, or nothing."""
    defines = [f"-D{define}" for define in check.defines]
    status, said = _call(["spin", "-a", *defines, str(HERE / f"{check.model}.pml")], folder)
    if status or not (folder / "pan.c").exists() or re.search(r"^spin: .*[Ee]rror", said, re.MULTILINE):
        return _first_line(said)
    kind = "-DNFAIR=3" if check.live else "-DSAFETY"
    # where little is searched, compiling is what takes the time
    optimise = "-O1" if check.expected == "holds" and check.run != "quick" else "-O0"
    status, said = _call(["gcc", optimise, "-w", "-DVECTORSZ=2048", "-DCOLLAPSE", kind, "-o", "pan", "pan.c"], folder)
    return _first_line(said) if status else ""


def _judge(said: str) -> tuple[str, str]:
    """What the verifier found, and in which words."""
    if re.search(r"max search depth too small|out of memory|hash table overflow", said, re.IGNORECASE):
        return "unfinished", "the limits are too small"
    errors = re.search(r"errors: (\d+)", said)
    if errors is None:
        return "unfinished", said[-200:]
    if errors[1] == "0":
        return "holds", ""
    words = re.search(r"^pan:\d+: (.*) \(at depth \d+\)", said, re.MULTILINE)
    what = re.sub(r"\s+", " ", words[1]) if words else said
    return ("standstill" if "invalid end state" in what else "assertion" if "assert" in what else "cycle"), what


def _show_trace(check: Check, folder: Path, trail: Path) -> None:
    defines = [f"-D{define}" for define in check.defines]
    print(_call(["spin", "-k", str(trail), "-p", "-g", "-l", *defines, str(HERE / f"{check.model}.pml")], folder)[1])


def perform(check: Check, trace: bool = False) -> Outcome:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fastsock-model-") as name:
        folder = Path(name)
        wrong = _build(check, folder)
        if wrong:
            return Outcome(check, "broken", None, time.monotonic() - start, wrong)
        command = ["./pan", f"-m{DEPTH}", f"-w{HASH_BITS}", *(["-a", "-f"] if check.live else [])]
        status, said = _call(["timeout", str(LIMIT_S), *command], folder)
        found, words = ("unfinished", f"{LIMIT_S} s are over") if status == 124 else _judge(said)
        states = re.search(r"^ *([\d.e+]+) states, stored", said, re.MULTILINE)
        if trace and found != "holds":
            trail = next(folder.glob("*.trail"), None)
            if trail is not None:
                _show_trace(check, folder, trail)
        return Outcome(check, found, int(float(states[1])) if states else None, time.monotonic() - start, words)


def chosen(run: str, only: str = "") -> list[Check]:
    allowed = RUNS[: RUNS.index(run) + 1]
    return [check for check in (*MODELS, *MISTAKES) if check.run in allowed and only in check.title]


def _table(heading: str, outcomes: Sequence[Outcome]) -> None:
    if not outcomes:
        return
    width = max(len(heading), *(len(outcome.check.title) for outcome in outcomes))
    print(f"\n{heading:<{width}}  {'states':>10}  {'s':>5}  result")
    for outcome in outcomes:
        states = "-" if outcome.states is None else f"{outcome.states:,}"
        result = outcome.found if outcome.good else f"{outcome.found.upper()}, expected: {outcome.check.expected}"
        words = f" ({outcome.said})" if outcome.said else ""
        print(f"{outcome.check.title:<{width}}  {states:>10}  {outcome.seconds:5.1f}  {result}{words}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="without the long ones: three minutes on two cores")
    parser.add_argument("--quick", action="store_true", help="only what the default test run has")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="models at the same time")
    parser.add_argument("--only", default="", help="models whose title contains this")
    parser.add_argument("--trace", action="store_true", help="print the steps of each counterexample")
    arguments = parser.parse_args()
    missing = missing_tools()
    if missing:
        print(f"not found: {', '.join(missing)}; on Debian: apt-get install {' '.join(missing)}", file=sys.stderr)
        return NOT_HERE
    checks = chosen("quick" if arguments.quick else "short" if arguments.short else "full", arguments.only)
    if not checks:
        parser.error(f"no model's title contains {arguments.only!r}")
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for outcome in pool.map(lambda check: perform(check, arguments.trace), checks):
            print("." if outcome.good else "!", end="", flush=True)
            outcomes.append(outcome)
    print()
    _table("model", [outcome for outcome in outcomes if outcome.check.expected == "holds"])
    _table("seeded mistake", [outcome for outcome in outcomes if outcome.check.expected != "holds"])
    bad = [outcome for outcome in outcomes if not outcome.good]
    print(f"\n{len(outcomes) - len(bad)} as expected, {len(bad)} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
