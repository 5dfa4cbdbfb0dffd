"""Plays schedules on plain TCP and on each path, and compares call by call.

A difference is a failure unless plain TCP itself gives both: it is asked again a few times.
"""

from __future__ import annotations

import dataclasses
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..helpers.paths import environment
from ..helpers.scripts import ROOT
from .kills import generate_kill
from .schedule import generate

ASKED_AGAIN = 4
PATIENCE = 90.0  # for one schedule, whose calls have deadlines of their own
MINIMISING = 60.0  # seconds
WARM_UP = 60  # schedules: what a process holds from then on is no cache any more
# what is kept of memory for the next connection of the same processes, and the thread that hands sockets to pickles
LEAK_SLACK = {"descriptors": 10, "mappings": 16, "threads": 1}


class Program:
    """A player on one path, in a program of its own."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        launcher = [] if kind == "plain" else ["-m", "fastsock.launcher"]
        self.process = subprocess.Popen(
            [sys.executable, *launcher, "-m", "tests.soak.player"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, **environment(kind)},
        )  # fmt: skip

    def begin(self, do: str, *arguments: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, "arguments": arguments}) + "\n")
        self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            raise AssertionError(f"the player on {self.kind} says nothing")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the player on {self.kind} ended with {self.process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def play(self, schedule: dict[str, Any], expected: Any = None) -> dict[str, Any]:
        self.begin("play", schedule, expected)
        return self.result()

    def holding(self) -> dict[str, Any]:
        """What its processes hold, by their numbers."""
        self.begin("holding")
        return self.result()

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE)


def difference(kind: str, wanted: dict[str, Any], got: dict[str, Any]) -> str | None:
    """What of a play is not as on plain TCP, or None."""
    if got["problem"]:
        return str(got["problem"])
    for number, (expected, found) in enumerate(zip(wanted["trace"], got["trace"], strict=False)):
        if expected == found:
            continue
        before = " ".join(f"{what}: {told};" for what, told in wanted["trace"][:number])
        return f"{found[0]}: {found[1]!r} instead of {expected[0]}: {expected[1]!r}; before: {before}"
    if len(wanted["trace"]) != len(got["trace"]):
        return f"{len(got['trace'])} outcomes instead of {len(wanted['trace'])}"
    return None


@dataclasses.dataclass
class Result:
    """What was played. `problems` is empty when all was well."""

    played: int = 0
    plays: int = 0
    unsteady: int = 0
    calls: int = 0
    seconds: float = 0.0
    moved: dict[str, int] = dataclasses.field(default_factory=dict)
    gained: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    def count_paths(self, got: dict[str, Any]) -> None:
        for path in set(got["paths"]):
            self.moved[path] = self.moved.get(path, 0) + 1
        self.gained += got["gained"]

    def __str__(self) -> str:
        paths = ", ".join(f"{count} began on {name}" for name, count in sorted(self.moved.items()))
        paths += f", {self.gained} gained memory" if self.gained else ""
        return "".join(f"PROBLEM: {each}\n" for each in self.problems) + (
            f"{self.played} schedules, {self.plays} plays beside plain TCP ({paths}), {self.calls} outcomes compared, "
            f"{self.unsteady} unsteady on plain TCP, {self.seconds:.0f} s, {len(self.problems)} problems"
        )


class Comparison:
    """Plain TCP and the paths beside it."""

    def __init__(self, paths: Sequence[str], minimise: bool, tell: Callable[[str], None] = lambda text: None) -> None:
        self.result = Result()
        self._plain = Program("plain")
        self._paths = [Program(path) for path in paths]
        self._minimise, self._tell = minimise, tell

    def run(self, seeds: Sequence[int]) -> Result:
        start = time.monotonic()
        before: list[dict[str, Any]] = []
        schedules = [generate(seed) for seed in seeds]
        wanted = self._plain.play(schedules[0])
        for number, schedule in enumerate(schedules):
            if number == min(WARM_UP, len(schedules) // 2):
                before = [program.holding() for program in self._paths]
            for program in self._paths:
                program.begin("play", schedule, wanted["trace"])
            following = schedules[number + 1 : number + 2]
            for each in following:  # while the others play this one
                self._plain.begin("play", each)
            found = [(program, program.result()) for program in self._paths]
            ahead = [self._plain.result() for _ in following]
            for program, got in found:
                self._judge(program, schedule, wanted, got)
            wanted = ahead[0] if ahead else {}
        self._compare_holdings(before)
        self.result.seconds = time.monotonic() - start
        return self.result

    def _judge(self, program: Program, schedule: Any, wanted: Any, got: Any) -> None:
        result = self.result
        result.plays += 1
        result.played += program is self._paths[0]
        result.calls += len(got["trace"])
        result.count_paths(got)
        text = difference(program.kind, wanted, got)
        if text is None:
            return
        if self._is_unsteady(program.kind, schedule, got):
            result.unsteady += 1
            return
        again = sum(self._fails(program, schedule) for _ in range(ASKED_AGAIN))
        told = f"{text}\n  again in {again} of {ASKED_AGAIN} plays"
        if self._minimise and again:
            schedule = minimal(schedule, lambda fewer: any(self._fails(program, fewer) for _ in range(2)))
        result.problems.append(_described(program.kind, schedule, told, got["paths"]))
        self._tell(result.problems[-1])

    def _is_unsteady(self, kind: str, schedule: Any, got: Any) -> bool:
        """Whether plain TCP, asked again, gives this too."""
        return any(difference(kind, self._plain.play(schedule), got) is None for _ in range(ASKED_AGAIN))

    def _fails(self, program: Program, schedule: Any) -> bool:
        wanted = self._plain.play(schedule)
        got = program.play(schedule, wanted["trace"])
        return difference(program.kind, wanted, got) is not None and not self._is_unsteady(program.kind, schedule, got)

    def _compare_holdings(self, before: list[dict[str, Any]]) -> None:
        for program, then in zip(self._paths, before, strict=True):
            now = program.holding()
            for pid, was in then.items():
                for name, slack in LEAK_SLACK.items():
                    if pid in now and now[pid][name] > was[name] + slack:
                        text = f"{program.kind}: {name} of an end's process grew from {was[name]} to {now[pid][name]}"
                        self.result.problems.append(text)

    def close(self) -> None:
        for program in (self._plain, *self._paths):
            program.close()

    def __enter__(self) -> Comparison:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _described(kind: str, schedule: dict[str, Any], text: str, paths: list[str]) -> str:
    steps = "\n".join(f"    {step}" for step in schedule["steps"])
    ends = "threads" if schedule["threads"] else "processes"
    early = "" if schedule["early"] is None else f", {schedule['early']} bytes before the accept"
    who = f"{ends}, {schedule['connects']} connects{early}, began on {'/'.join(paths)}"
    return f"{kind}, seed {schedule['seed']}, {who}\n  {text}\n{steps}"


def minimal(schedule: dict[str, Any], fails: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The schedule without the steps that it fails without."""
    steps = list(schedule["steps"])
    size = max(1, len(steps) // 2)
    end = time.monotonic() + MINIMISING
    while size:
        start = 0
        while start < len(steps) and time.monotonic() < end:
            fewer = steps[:start] + steps[start + size :]
            if fewer and fails({**schedule, "steps": fewer}):
                steps = fewer
            else:
                start += size
        size //= 2
    return {**schedule, "steps": steps}


def kill(paths: Sequence[str], seeds: Sequence[int], tell: Callable[[str], None] = lambda text: None) -> Result:
    """A death for each seed, on each path."""
    result, start = Result(), time.monotonic()
    programs = [Program(path) for path in paths]
    try:
        for seed in seeds:
            schedule = generate_kill(seed)
            for program in programs:
                program.begin("kill", schedule)
            for program in programs:
                got = program.result()
                result.plays += 1
                result.calls += len(got["trace"])
                result.count_paths(got)
                if got["problem"] is not None:
                    how = f"end {schedule['victim']} {schedule['while']}, killed: {got['problem']}"
                    result.problems.append(_described(program.kind, schedule, how, got["paths"]))
                    tell(result.problems[-1])
            result.played += 1
    finally:
        for program in programs:
            program.close()
    result.seconds = time.monotonic() - start
    return result
