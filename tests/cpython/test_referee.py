"""The referee itself: what it calls a regression, and when it complains about an exclusion."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from referee import connections, exclusions, match, modules, report, verdicts
from referee.interpreters import Interpreter
from referee.process import ModuleRun, Outcome, Plan, Way, run_module

from fastsock.launching import preloading

SCRIPT = str(Path(__file__).parent / "child" / "run_module.py")


def a_run(**outcomes: str) -> ModuleRun:
    return ModuleRun({name: Outcome(outcome) for name, outcome in outcomes.items()})


def play(plain: ModuleRun, subject: ModuleRun, again: dict[tuple[str, bool], ModuleRun], times: int = 2) -> list[str]:
    """Kinds of the differences; `again` gives the later runs by side and whether the test is alone."""
    differences = verdicts.compare(plain, subject)
    verdicts.settle(differences, lambda side, tests: again[side, tests is not None], times)
    return [difference.kind for difference in differences]


PASS, FAIL = a_run(one="pass"), a_run(one="fail")


def test_the_same_results_are_no_difference() -> None:
    assert play(a_run(one="pass", two="skip", three="fail"), a_run(one="pass", two="skip", three="error"), {}) == []


@pytest.mark.parametrize("outcome", ["fail", "error", "skip", "hang", "expected failure"])
def test_whatever_is_no_pass_is_a_difference(outcome: str) -> None:
    assert play(PASS, a_run(one=outcome), {}, times=0) == ["regression"]


def test_a_test_that_did_not_run_is_a_difference() -> None:
    assert play(PASS, a_run(), {}, times=0) == ["regression"]


def test_an_error_that_only_the_subject_has_is_a_difference() -> None:
    assert play(PASS, ModuleRun({**PASS.outcomes, "tearDownModule (x)": Outcome("error")}), {}, times=0) == [
        "regression"
    ]


@pytest.mark.parametrize(
    ("status", "another", "kind"),
    [
        ("exit status 1", "pass", "excluded"),
        ("exit status 1", "fail", "regression"),  # a test that is not known has failed too
        ("exit status 2", "pass", "regression"),  # tests that fail do not end so
        ("hang", "pass", "regression"),
    ],
)
def test_the_end_of_a_module_whose_known_tests_fail_is_known(status: str, another: str, kind: str) -> None:
    plain = ModuleRun({name: Outcome("pass") for name in ("known", "another", "exit (m)")})
    outcomes = {"known": "fail", "another": another, "exit (m)": status}
    subject = ModuleRun({name: Outcome(outcome) for name, outcome in outcomes.items()})
    differences = verdicts.compare(plain, subject)
    differences[0].kind = "excluded"
    verdicts.exclude_exit(differences, subject)
    assert {d.test: d.kind for d in differences}["exit (m)"] == kind


def test_a_module_that_ends_badly_though_no_test_failed_is_a_regression() -> None:
    subject = ModuleRun({**PASS.outcomes, "exit (m)": Outcome("exit status 1")})
    differences = verdicts.compare(ModuleRun({**PASS.outcomes, "exit (m)": Outcome("pass")}), subject)
    verdicts.exclude_exit(differences, subject)
    assert [d.kind for d in differences] == ["regression"]


@pytest.mark.parametrize(
    ("alone_plain", "alone", "together_plain", "together", "kind"),
    [
        (PASS, FAIL, PASS, FAIL, "regression"),
        (FAIL, FAIL, PASS, FAIL, "flaky"),
        (PASS, PASS, PASS, FAIL, "regression"),  # fails only in the company of the others
        (PASS, PASS, FAIL, FAIL, "flaky"),
        (PASS, PASS, PASS, PASS, "unsteady"),
    ],
)
def test_a_failure_is_run_again(
    alone_plain: ModuleRun, alone: ModuleRun, together_plain: ModuleRun, together: ModuleRun, kind: str
) -> None:
    again = {
        ("plain", True): alone_plain,
        ("subject", True): alone,
        ("plain", False): together_plain,
        ("subject", False): together,
    }
    assert play(PASS, FAIL, again) == [kind]


def test_many_failures_are_first_run_again_together() -> None:
    names = [f"test{number}" for number in range(verdicts.MANY + 1)]
    passing, failing = a_run(**dict.fromkeys(names, "pass")), a_run(**dict.fromkeys(names, "fail"))
    asked: list[int] = []

    def run_again(side: str, tests: list[str] | None) -> ModuleRun:
        assert tests is not None
        asked.append(len(tests))
        return passing if side == "plain" else failing

    differences = verdicts.compare(passing, failing)
    verdicts.settle(differences, run_again, 3)
    assert {difference.kind for difference in differences} == {"regression"}
    assert asked == [len(names)] * 2


def an_entry(**changes: object) -> str:
    entry = {"test": "test.test_socket.A.*", "reason": "because", **changes}
    return "[[exclusion]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())


def read(tmp_path: Path, text: str) -> list[exclusions.Exclusion]:
    file = tmp_path / "exclusions.toml"
    file.write_text(text)
    return exclusions.read(file)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reason": " "}, "reason"),
        ({"paths": ["sham"]}, "sham"),
        ({"pythons": []}, "should be"),
        ({"why": "x"}, "'why'"),
    ],
)
def test_an_entry_that_is_wrong_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(exclusions.ExclusionError, match=said):
        read(tmp_path, an_entry() + an_entry(**changes))


def test_the_file_in_the_repository_is_in_order() -> None:
    exclusions.read(Path(__file__).with_name("exclusions.toml"))


def test_an_exclusion_must_still_be_needed(tmp_path: Path) -> None:
    ledger = exclusions.Ledger(read(tmp_path, an_entry(paths=["shm", "rdma"])))
    assert ledger.saw("test.test_socket.A.test_one", "shm", "3.11", passed=False)
    assert ledger.complaints(everything_ran=True) == []
    assert ledger.saw("test.test_socket.A.test_one", "rdma", "3.11", passed=True)
    assert not ledger.saw("test.test_socket.A.test_one", "tcp", "3.11", passed=True)
    (complaint,) = ledger.complaints(everything_ran=True)
    assert "not needed on rdma, Python 3.11" in complaint


def test_an_exclusion_must_match_a_test(tmp_path: Path) -> None:
    ledger = exclusions.Ledger(read(tmp_path, an_entry()))
    assert ledger.complaints(everything_ran=False) == []
    assert len(ledger.complaints(everything_ran=True)) == 1


def test_few_exclusions_are_allowed_in_test_socket(tmp_path: Path) -> None:
    ledger = exclusions.Ledger(read(tmp_path, an_entry()))
    for number in range(exclusions.SOCKET_LIMIT + 1):
        ledger.saw(f"test.test_socket.A.test_{number}", "shm", "3.11", passed=False)
    assert any("at most" in complaint for complaint in ledger.complaints(everything_ran=False))


def test_the_paths_taken_are_summed_over_processes() -> None:
    connection = json.dumps({"transport": "tcp", "reason": "not_yet"})
    paths = connections.read([connection, '{"totals": {"shm": 2, "tcp": 1}}', '{"totals": {"shm": 1}}', '{"tot'])
    assert (paths.taken["shm"], paths.taken["tcp"], paths.processes, paths.unreadable) == (3, 1, 2, 1)
    assert paths.reasons["tcp", "not_yet"] == 1


def test_modules_are_chosen_by_name() -> None:
    interpreter = Interpreter(
        "python", "3.11.7", ("test_socket", "_test_multiprocessing"), ("test_events",), None, False, ""
    )
    every = modules.of(interpreter)
    assert [m.name for m in modules.select(every, ["test_asyncio"])] == ["test.test_asyncio.test_events"]
    assert len(modules.select(every, ["multiprocessing*"])) == 3


A_MODULE = """
import os, signal, time, unittest
class Tests(unittest.TestCase):
    def test_1_passes(self): pass
    def test_2_fails(self):
        with self.subTest(part=1): self.fail("so")
    def test_3_crashes(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_4_hangs(self): signal.pause()
    def test_5_skips(self): self.skipTest("why")
    @unittest.expectedFailure
    def test_6_is_expected_to_fail(self): self.fail()
    def test_7_passes(self): pass
"""


def test_a_crash_and_a_hang_cost_one_test_each(tmp_path: Path) -> None:
    pytest.importorskip("test.support", reason="needs the interpreter's own package `test`")
    (tmp_path / "a_module.py").write_text(A_MODULE)
    run = run_module(
        sys.executable,
        SCRIPT,
        Plan("a_module", limits={"a_module.Tests.test_4_hangs": 1.0}),
        Way("plain"),
        {"PYTHONPATH": str(tmp_path)},
    )
    found = {name.rpartition(".")[2]: outcome for name, outcome in run.outcomes.items()}
    assert {name: outcome.outcome for name, outcome in found.items()} == {
        "test_1_passes": "pass",
        "test_2_fails": "fail",
        "test_3_crashes": "crash (exit status -9)",
        "test_4_hangs": "hang",
        "test_5_skips": "skip",
        "test_6_is_expected_to_fail": "expected failure",
        "test_7_passes": "pass",
        "exit (a_module)": "pass",
    }
    assert "test_4_hangs" in found["test_4_hangs"].detail  # the stacks were dumped


def test_against_the_library_alone_python_is_started_as_ever_beneath_it() -> None:
    (way,) = match.ways("library", ("-m", "fastsock.launcher"), None, 0, "0")
    assert way.command("python", ["script"]) == ["python", "script"]
    assert dict(way.environment) == {"FASTSOCK_UPGRADE_AFTER": "0", preloading.PRELOAD: preloading.LIBRARY}
    assert way.reports


@pytest.mark.parametrize(
    ("path", "after", "taken", "complains"),
    [
        ("shm", "0", "shm", False),
        ("shm", "0", "tcp", True),
        ("shm", "pays", "tcp", False),
        ("tcp", "0", "tcp", False),
    ],
)
def test_a_run_in_which_hardly_any_connection_took_the_path_is_told(
    path: str, after: str, taken: str, complains: bool
) -> None:
    (way,) = match.ways("launcher", ("-m", "fastsock.launcher"), [path], 0, after)
    environment = dict(way.environment)
    assert environment.get("FASTSOCK_UPGRADE_AFTER") == (after if path == "shm" else None)
    here = Interpreter(sys.executable, "3.11.7", (), (), "fastsock", True, "")
    seen = connections.read([json.dumps({"totals": {taken: report.EXERCISED}})])
    played = match.Played(here, "test.test_socket", way, PASS, PASS, [], seen)
    assert bool(report.not_exercised([played])) == complains
