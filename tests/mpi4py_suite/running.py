"""Runs one of mpi4py's test modules on some ranks, again without what hung or crashed until the rest has run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

CHILD = Path(__file__).resolve().parent / "child" / "run_module.py"

# A module whose tests hang or crash more often than this is given up.
RESUMES = 8


@dataclass(frozen=True)
class Way:
    """How ranks are started: `command` gets the number of ranks and the rest."""

    name: str
    command: tuple[str, ...]  # "{ranks}" and "{limit}" are filled in
    environment: tuple[tuple[str, str], ...] = ()
    testing: int | None = None  # so many ranks run the tests, from the first on; the others only help


@dataclass(frozen=True)
class Outcome:
    """pass, skip, fail, error, hang or crash; on which ranks it was not a pass, and the first one's traceback."""

    outcome: str
    ranks: tuple[int, ...] = ()
    detail: str = ""


@dataclass
class ModuleRun:
    """Every test of a module by name, and how long it took."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    seconds: float = 0.0
    trouble: str = ""  # why the module could not be run, or was given up


def run_module(way: Way, tests: Path, module: str, ranks: int, left_out: list[str], limit: float) -> ModuleRun:
    """Runs it; `limit` is seconds for one start of the ranks."""
    found = ModuleRun()
    started = time.monotonic()
    leave_out = list(left_out)
    for _ in range(RESUMES):
        outcomes, stopped, output = _run_once(way, tests, module, ranks, leave_out, limit)
        for test, outcome in outcomes.items():
            found.outcomes.setdefault(test, outcome)
        if not stopped:
            if not outcomes and not found.outcomes:
                found.trouble = f"no test ran:\n{output}"
            break
        # ranks that disagree about one test may hang in a later one: what failed stays away too
        new = [test for test, outcome in outcomes.items() if outcome.outcome not in ("pass", "skip")]
        if not new:
            found.trouble = f"ended before its end and outside any test:\n{output}"
            break
        leave_out += new
    else:
        found.trouble = f"given up after {RESUMES} starts that hung or crashed"
    found.seconds = time.monotonic() - started
    return found


def _run_once(
    way: Way, tests: Path, module: str, ranks: int, leave_out: list[str], limit: float
) -> tuple[dict[str, Outcome], bool, str]:
    """Outcomes, whether the ranks stopped before the end, and what they printed last."""
    with tempfile.TemporaryDirectory(prefix="mpi4py-suite-") as folder:
        command = [part.format(ranks=ranks, limit=limit) for part in way.command]
        command += [str(CHILD), str(tests), module, folder, *leave_out]
        output, lapsed, _ = output_of(command, {**os.environ, **dict(way.environment)}, limit + 15)
        lines = {rank: _lines(Path(folder) / f"{rank}.jsonl") for rank in range(way.testing or ranks)}
    stopped = lapsed or any(not events or events[-1]["event"] != "end" for events in lines.values())
    return _judge(lines, "hang" if lapsed or "timeout" in output.lower() else "crash", output), stopped, output


def output_of(
    command: list[str],
    environment: dict[str, str],
    limit: float,
    *,
    stdin: IO[str] | int = subprocess.DEVNULL,
    folder: Path | None = None,
) -> tuple[str, bool, int]:
    """The end of what a command printed, whether it had to be stopped, and its exit status."""
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        lapsed = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            lapsed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        printed.seek(0)
        return printed.read()[-4000:], lapsed, process.returncode


def _lines(file: Path) -> list[dict]:
    if not file.exists():
        return []
    events = []
    for line in file.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last one, of a rank that was killed while it wrote
            events.append(json.loads(line))
    return events


def _judge(lines: dict[int, list[dict]], unfinished: str, output: str) -> dict[str, Outcome]:
    """One outcome a test: the worst of its ranks."""
    by_test: dict[str, dict[int, tuple[str, str]]] = {}
    for rank, events in lines.items():
        for event in events:
            if event["event"] == "start":
                by_test.setdefault(event["test"], {})[rank] = (unfinished, output)
            elif event["event"] == "stop":
                by_test.setdefault(event["test"], {})[rank] = (event["outcome"], event["detail"])
    judged = {}
    for test, ranks in by_test.items():
        bad = {rank: said for rank, said in ranks.items() if said[0] not in ("pass", "skip")}
        if bad:
            # a failure on one rank explains the others' hanging
            first = min(bad, key=lambda rank: (bad[rank][0] in ("hang", "crash"), rank))
            judged[test] = Outcome(bad[first][0], tuple(bad), bad[first][1])
        elif all(outcome == "skip" for outcome, _ in ranks.values()):
            judged[test] = Outcome("skip", (), next(iter(ranks.values()))[1])
        else:
            judged[test] = Outcome("pass")
    return judged
