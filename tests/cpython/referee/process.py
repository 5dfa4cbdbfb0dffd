"""Runs a module's tests in a process of their own, to the end even if some hang or crash."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from fastsock.launching.preloading import PRELOAD

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts what runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A module whose tests hang or crash more often than this is given up.
RESUMES = 12

# After this many hangs in a module the limits are a quarter.
PATIENCE = 2


@dataclass(frozen=True)
class Way:
    """One way to run Python: `launcher` goes between the interpreter and the script; none means plain.

    `carrier`: the path that many of its connections should take; none where that is not known.
    """

    name: str
    launcher: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    nice: int = 10
    carrier: str = ""

    @property
    def reports(self) -> bool:
        """Whether fastsock is there to write what each connection used."""
        return bool(self.launcher) or PRELOAD in dict(self.environment)

    def command(self, python: str, script: list[str]) -> list[str]:
        nice = ["nice", "-n", str(self.nice)] if self.nice and shutil.which("nice") else []
        return [*nice, python, *self.launcher, *script]


@dataclass
class Plan:
    """What the process is asked to do; read by child/run_module.py.

    A test runs if it matches one of `match` and one of `narrow` (globs over
    ids; none given: any) and none of `leave_out`; where `only` is given, it
    alone decides. Limits are seconds for one test. `host` is put in the place
    of the loopback address.
    """

    module: str
    match: list[str] = field(default_factory=list)
    narrow: list[str] = field(default_factory=list)
    leave_out: list[str] = field(default_factory=list)
    only: list[str] | None = None
    skip: list[str] = field(default_factory=list)
    default_limit: float = 90.0
    limits: dict[str, float] = field(default_factory=dict)
    resources: tuple[str, ...] = ("cpu", "walltime")
    results: str = ""
    host: str = ""


@dataclass(frozen=True)
class Outcome:
    """How one test ended, after how many seconds, and the traceback or reason."""

    outcome: str
    seconds: float = 0.0
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.outcome == "pass"


@dataclass
class ModuleRun:
    """Every test of a module, by name; `notes` are side effects that no test saw."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    notes: list[dict[str, str]] = field(default_factory=list)
    stats: list[str] = field(default_factory=list)
    seconds: float = 0.0


_running: set[int] = set()


def stop_all() -> None:
    """Ends every process group that is running; their runs then report crashes."""
    for group in tuple(_running):
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.killpg(group, signal.SIGKILL)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends whatever the tests left behind in the process group that was made for them."""
    with contextlib.suppress(ProcessLookupError):  # nothing was left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _running.discard(process.pid)


def _last_part(path: Path, characters: int = 6000) -> tuple[str, bool]:
    """The end of what was printed, and whether the watch dumped stacks because a limit was over."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return text[-characters:], "\nTimeout (" in "\n" + text


def _run_once(
    command: list[str], environment: dict[str, str], folder: Path, limit: float
) -> tuple[int | None, str, bool]:
    """The exit status (None: it did not end), the last of what it printed, and whether it hung."""
    log = folder / "output.txt"
    working = folder / "work"
    working.mkdir()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=working,
            env={**environment, "TMPDIR": str(working)},
            start_new_session=True,
        )
        _running.add(process.pid)
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end_group(process)
    shutil.rmtree(working, ignore_errors=True)
    printed, hung = _last_part(log)
    return status, printed, hung or status is None


def _read(results: Path, run: ModuleRun) -> tuple[str | None, bool]:
    """Adds the results to the run; the test that was begun and not ended, and whether the end was reached."""
    begun = None
    finished = False
    for text in results.read_text(encoding="utf-8").splitlines() if results.exists() else ():
        line = json.loads(text)
        event = line["event"]
        if event == "start":
            begun = line["id"]
        elif event == "end":
            run.outcomes[line["id"]] = Outcome(line["outcome"], line["seconds"], line["detail"])
            begun = None if begun == line["id"] else begun
        elif event == "note":
            run.notes.append({"kind": line["kind"], "text": line["text"]})
        else:
            finished = True
    return begun, finished


def run_module(
    python: str, script: str, plan: Plan, way: Way, environment: dict[str, str], limit: float = 1800.0
) -> ModuleRun:
    """Runs a plan, and again without the tests done so far each time one of them takes the process down."""
    run = ModuleRun()
    started = time.monotonic()
    exit_name = f"exit ({plan.module})"
    done: list[str] = []
    hangs = 0
    # Short: the name of an AF_UNIX socket below it has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="referee-", ignore_cleanup_errors=True) as name:
        for attempt in range(RESUMES):
            folder = Path(name, str(attempt))
            folder.mkdir()
            results, stats = folder / "results.jsonl", folder / "stats.jsonl"
            plan_file = folder / "plan.json"
            # Where some hang, more will: they are given less time than the first were.
            patience = 1.0 if hangs < PATIENCE else 0.25
            asked = replace(
                plan,
                results=str(results),
                skip=plan.skip + done,
                default_limit=plan.default_limit * patience,
                limits={test: seconds * patience for test, seconds in plan.limits.items()},
            )
            plan_file.write_text(json.dumps(asdict(asked)), encoding="utf-8")
            variables = {**environment, **dict(way.environment)}
            if way.reports:
                variables["FASTSOCK_STATS"] = str(stats)
            status, output, hung = _run_once(way.command(python, [script, str(plan_file)]), variables, folder, limit)
            begun, finished = _read(results, run)
            if stats.exists():
                run.stats += stats.read_text(encoding="utf-8", errors="replace").splitlines()
            if finished:
                if status != 0:
                    run.outcomes[exit_name] = Outcome("hang" if hung else f"exit status {status}", 0.0, output)
                else:
                    run.outcomes[exit_name] = Outcome("pass")
                break
            hangs += hung
            what = "hang" if hung else f"crash (exit status {status})"
            if begun is None:  # in a set-up, a tear-down or an import: nothing to leave out the next time
                run.outcomes[exit_name] = Outcome(what, 0.0, output)
                break
            run.outcomes[begun] = Outcome(what, 0.0, output)
            done = list(run.outcomes)
        else:
            run.outcomes[exit_name] = Outcome("given up", 0.0, f"{RESUMES} tests hung or crashed")
    run.seconds = time.monotonic() - started
    return run
