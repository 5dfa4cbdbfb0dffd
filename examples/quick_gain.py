"""What an unmodified program gains: runs unmodified_echo.py plain and under the launcher, in turns, and compares.

    python examples/quick_gain.py

Ratios are taken within a turn and their median is told, because the speed of a shared machine drifts. This is a
first impression that takes a few seconds; bench/ measures properly.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median

PROGRAM = Path(__file__).resolve().with_name("unmodified_echo.py")
TURNS = 5

Result = dict[str, float]


def run(*launcher: str) -> Result:
    """Runs the program by itself, or behind `launcher`, and reads the line that it prints."""
    command = [sys.executable, *launcher, str(PROGRAM)]
    done = subprocess.run(
        command,
        cwd=PROGRAM.parent,  # -m would import from a checkout in the current folder, built or not
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    result: Result = json.loads(done.stdout)
    return result


def paths_taken(statistics: Path) -> str:
    """Which paths the launched program's connections took and, where that was TCP, why."""
    taken: Counter[str] = Counter()
    for line in statistics.read_text().splitlines():
        row = json.loads(line)
        if "transport" in row:
            taken[row["transport"] + ("" if row["reason"] == "joined" else f" ({row['reason']})")] += 1
    return ", ".join(taken) or "unknown"


def main() -> None:
    print(f"{PROGRAM.name}, plain and under `python -m fastsock.launcher`, {TURNS} turns ...", flush=True)
    plain: list[Result] = []
    fast: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        statistics = Path(folder) / "connections"
        for _ in range(TURNS):
            plain.append(run())
            fast.append(run("-m", "fastsock.launcher", f"--stats={statistics}"))
        taken = paths_taken(statistics)

    def row(title: str, unit: str, key: str, gain: float) -> str:
        before, after = (median(result[key] for result in results) for results in (plain, fast))
        return f"{title:<28}{before:>11.2f} {unit:<4}{after:>11.2f} {unit:<4}{gain:>9.1f} times"

    calls = median(before["call_us"] / after["call_us"] for before, after in zip(plain, fast, strict=True))
    blocks = median(after["gb_s"] / before["gb_s"] for before, after in zip(plain, fast, strict=True))
    print(f"\n{'':<28}{'plain TCP':>16}{'fastsock':>16}{'gain':>15}")
    print(row("a call of 64 bytes", "us", "call_us", calls))
    print(row("blocks of 1 MiB", "GB/s", "gb_s", blocks))
    print(f"\nThe launched program's connections took: {taken}.")
    if "shm" not in taken:
        print("`fastsock doctor` says why it is not shm, and what to do.")


if __name__ == "__main__":
    main()
