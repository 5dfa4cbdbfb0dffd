"""Decides what a difference between two runs of one module means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .process import ModuleRun, Outcome

MISSING = Outcome("did not run")

# With more differences than this in a module, they are first run again together: something general is broken.
MANY = 20

# `run_again(side, tests)`: side "plain" or "subject"; tests None means the whole module.
RunAgain = Callable[[str, "list[str] | None"], ModuleRun]


@dataclass
class Difference:
    """A test that passes plain and did not under the launcher.

    `kind`: "regression"; "flaky" if it failed plain too when it was run again;
    "unsteady" if it never failed again; "excluded" if a reason is on file.
    """

    test: str
    plain: Outcome
    subject: Outcome
    kind: str = "regression"
    how: str = ""


def compare(plain: ModuleRun, subject: ModuleRun) -> list[Difference]:
    """Every test that passes plain and does not in the subject, and every error that only the subject has."""
    found = []
    for test, outcome in plain.outcomes.items():
        other = subject.outcomes.get(test, MISSING)
        if outcome.passed and not other.passed:
            found.append(Difference(test, outcome, other))
    for test, other in subject.outcomes.items():
        if test not in plain.outcomes and other.outcome not in ("pass", "skip"):
            found.append(Difference(test, MISSING, other))
    return found


def exclude_exit(differences: list[Difference], subject: ModuleRun) -> None:
    """A process whose tests failed ends with status 1. Where all of these are excluded, its end is too."""
    excluded = {d.test for d in differences if d.kind == "excluded"}
    failed = {test for test, outcome in subject.outcomes.items() if _is_a_test(test) and not _is_well(outcome)}
    for difference in differences:
        is_end = difference.test.startswith("exit (") and difference.subject.outcome == "exit status 1"
        if is_end and failed and failed <= excluded:
            difference.kind, difference.how = "excluded", "its tests that failed are excluded"


def settle(differences: list[Difference], run_again: RunAgain, times: int) -> None:
    """Runs each differing test again, alone, on both sides, then its whole module; sets kind and how.

    A second failure, where plain passes again, is a regression. A test that
    fails only in the company of the others shows in the second run of the module.
    """
    open_ones = [d for d in differences if d.kind == "regression"]
    if times < 1 or not open_ones:
        return
    if len(open_ones) > MANY:
        open_ones = _decide_together(open_ones, run_again)
    undecided = [d for d in open_ones if not _decide_alone(d, run_again, times)]
    if not undecided:
        return
    plain, subject = run_again("plain", None), run_again("subject", None)
    for difference in undecided:
        if not _as_before(difference, plain):
            difference.kind, difference.how = "flaky", "fails plain in a second run of the module"
        elif not subject.outcomes.get(difference.test, _absent(difference)).passed:
            difference.how = "fails again in a second run of the module, passes alone"
        else:
            difference.kind, difference.how = "unsteady", f"failed once, then passed {times + 1} times"


def _decide_together(differences: list[Difference], run_again: RunAgain) -> list[Difference]:
    """Runs the differing tests in one process; those that are still undecided."""
    tests = [d.test for d in differences if _is_a_test(d.test)]
    plain, subject = run_again("plain", tests), run_again("subject", tests)
    undecided = []
    for difference in differences:
        again = subject.outcomes.get(difference.test, _absent(difference))
        if _is_a_test(difference.test) and _as_before(difference, plain) and not again.passed:
            difference.how = f"fails again with the {len(tests)} tests that differ"
        else:
            undecided.append(difference)
    return undecided


def _decide_alone(difference: Difference, run_again: RunAgain, times: int) -> bool:
    if not _is_a_test(difference.test):
        return False  # a set-up or an exit: only the whole module shows it
    for attempt in range(1, times + 1):
        if not _as_before(difference, run_again("plain", [difference.test])):
            difference.kind, difference.how = "flaky", f"fails plain, alone, at attempt {attempt}"
            return True
        if not run_again("subject", [difference.test]).outcomes.get(difference.test, _absent(difference)).passed:
            difference.how = f"fails again, alone, at attempt {attempt}"
            return True
    return False


def _is_a_test(name: str) -> bool:
    return " (" not in name


def _is_well(outcome: Outcome) -> bool:
    return outcome.outcome in ("pass", "skip", "expected failure")


def _absent(difference: Difference) -> Outcome:
    """What it means that a run does not mention it: a set-up without an error is not mentioned."""
    return Outcome("pass") if difference.plain is MISSING else MISSING


def _as_before(difference: Difference, plain: ModuleRun) -> bool:
    return plain.outcomes.get(difference.test, _absent(difference)).passed
