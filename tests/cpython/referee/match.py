"""Plays one module: plain, then each way under the launcher, and settles what differs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from fastsock.config import DEFAULT_TRANSPORTS
from fastsock.launching import preloading

from . import connections, verdicts
from .exclusions import Ledger
from .interpreters import Interpreter, clean_environment
from .modules import Module
from .process import ModuleRun, Plan, Way, run_module

# A test may take this much longer under the launcher before it counts as hung: the machine may be busy.
LIMIT_FACTOR, LIMIT_SECONDS = 5.0, 40.0


@dataclass
class Played:
    """One module run one way, beside its plain run."""

    interpreter: Interpreter
    module: str
    way: Way
    plain: ModuleRun
    subject: ModuleRun
    differences: list[verdicts.Difference]
    paths: connections.Paths = field(default_factory=connections.Paths)

    def of_kind(self, kind: str) -> list[verdicts.Difference]:
        return [d for d in self.differences if d.kind == kind]

    def new_notes(self) -> list[dict[str, str]]:
        """Side effects that the plain run did not have, by their last line."""

        def last_line(note: dict[str, str]) -> str:
            return note["text"].strip().splitlines()[-1]

        known = {last_line(note) for note in self.plain.notes}
        return [note for note in self.subject.notes if last_line(note) not in known]


def ways(against: str, launcher: tuple[str, ...], paths: list[str] | None, nice: int, upgrade_after: str) -> list[Way]:
    """The ways to run the tests that are compared with plain: one for each path preferred, or plain once more.

    Against the library there is one way: it is preloaded, and Python's own class stays.

    A path that is taken only by name is not among them unless it is named. `upgrade_after`: on the path `shm`, how many
    calls a connection makes on TCP before it gains memory.
    """
    if against == "plain":
        return [Way("plain again", nice=nice)]
    if against == "library":
        variables: dict[str, str] = {"FASTSOCK_UPGRADE_AFTER": upgrade_after}
        preloading.cover(variables)
        carrier = "shm" if upgrade_after == "0" else ""
        return [Way("library", (), tuple(variables.items()), nice, carrier)]
    return [_way(path, launcher, nice, upgrade_after) for path in paths or DEFAULT_TRANSPORTS]


def _way(path: str, launcher: tuple[str, ...], nice: int, upgrade_after: str) -> Way:
    variables = [("FASTSOCK_TRANSPORTS", ",".join(_from(path)))]
    carrier = path
    if path == "shm":
        variables.append(("FASTSOCK_UPGRADE_AFTER", upgrade_after))
        carrier = path if upgrade_after == "0" else ""  # few of the tests' connections live longer
    return Way(path, launcher, tuple(variables), nice, carrier)


def _from(path: str) -> tuple[str, ...]:
    """The default chain from that path on; the path and TCP, where it is not in the chain."""
    if path not in DEFAULT_TRANSPORTS:
        return path, DEFAULT_TRANSPORTS[-1]
    return DEFAULT_TRANSPORTS[DEFAULT_TRANSPORTS.index(path) :]


@dataclass(frozen=True)
class Rules:
    """What holds for every module of a run."""

    script: str
    match: tuple[str, ...] = ()
    resources: tuple[str, ...] = ("cpu", "walltime")
    times: int = 3
    nice: int = 10
    host: str = ""  # where the tests' servers listen; none: the loopback address, as CPython has it


def play(interpreter: Interpreter, module: Module, ways: list[Way], rules: Rules, ledger: Ledger) -> list[Played]:
    """Runs the module plain once and once for each way."""
    environment = clean_environment()
    plan = Plan(
        module.name,
        match=list(module.only),
        leave_out=list(module.leave_out),
        resources=rules.resources + module.resources,
        narrow=list(rules.match),
        host=rules.host,
    )
    plain_way = Way("plain", nice=rules.nice)

    def run(way: Way, this_plan: Plan) -> ModuleRun:
        return run_module(interpreter.executable, rules.script, this_plan, way, environment)

    plain = run(plain_way, plan)
    limits = {test: LIMIT_SECONDS + LIMIT_FACTOR * outcome.seconds for test, outcome in plain.outcomes.items()}
    played = []
    for way in ways:
        guarded = replace(plan, limits=limits)
        subject = run(way, guarded)
        differences = verdicts.compare(plain, subject)
        failing = {d.test for d in differences}
        for test in set(failing).union(t for t, outcome in plain.outcomes.items() if outcome.passed):
            ledger.saw(test, way.name, interpreter.minor, test not in failing)
        for difference in differences:
            exclusion = ledger.of(difference.test, way.name, interpreter.minor)
            if exclusion is not None:
                difference.kind, difference.how = "excluded", exclusion.reason
        verdicts.exclude_exit(differences, subject)

        def run_again(side: str, tests: list[str] | None, way: Way = way, guarded: Plan = guarded) -> ModuleRun:
            return run(plain_way if side == "plain" else way, replace(guarded, only=tests))

        verdicts.settle(differences, run_again, rules.times)
        played.append(
            Played(interpreter, module.name, way, plain, subject, differences, connections.read(subject.stats))
        )
    return played
