"""What the runner of other projects' suites says of tests that pass, fail, and do not run."""

from __future__ import annotations

import os
import select
from pathlib import Path

import programs
import pytest
from programs import Suite, compare, play

from fastsock.launching import preloading

BENEATH = 'case "$LD_PRELOAD" in *fastsock*) {};; esac'
SUITE = Suite("", "", (), lambda source: iter(()), known=(("known*", "a reason"),), skipped=7)


def verdict(folder: Path, script: str, name: str = "one") -> str:
    test = programs.Test(name, ("sh", "-c", script), folder)
    return compare(SUITE, test, "0", 1, play(SUITE, test, None)).verdict


@pytest.mark.skipif(not Path(preloading.LIBRARY).exists(), reason="no preloaded library")
@pytest.mark.parametrize(
    ("does", "name", "expected"),
    [
        ("true", "one", "pass"),
        ("exit 1", "one", "regression"),
        ("exit 1", "known one", "known"),
        ("echo 'not ok 1 - x'", "one", "regression"),
        ("echo 'not ok 1 - x # TODO later'", "one", "pass"),
        ("echo 'FAIL: 12 - HTTP GET'", "one", "regression"),
        ("echo 'test copy                         ... FAILED      123 ms'", "one", "regression"),
        ("echo '     char                         ... FAILED (exit code 2)'", "one", "regression"),
        ("echo '     char                         ... ok           31 ms'", "one", "pass"),
    ],
)
def test_what_passes_plain_alone_is_a_regression(tmp_path: Path, does: str, name: str, expected: str) -> None:
    assert verdict(tmp_path, BENEATH.format(does), name) == expected


def test_what_fails_plain_in_the_same_way_is_none(tmp_path: Path) -> None:
    assert verdict(tmp_path, "echo 'not ok 1 - x'") == "fails plain too"


@pytest.mark.parametrize(("script", "skipped"), [("echo 1..0 # no tls", True), ("exit 7", True), ("echo 1..2", False)])
def test_a_script_that_does_not_run_here_is_told_apart(tmp_path: Path, script: str, skipped: bool) -> None:
    assert play(SUITE, programs.Test("one", ("sh", "-c", script), tmp_path), None).skipped == skipped


def test_what_a_test_left_running_is_ended(tmp_path: Path) -> None:
    outcome = play(SUITE, programs.Test("one", ("sh", "-c", "sleep 1000 & echo $!"), tmp_path), None)
    try:
        process = os.pidfd_open(int(outcome.output))
    except ProcessLookupError:
        return
    ended, _, _ = select.select([process], [], [], 30)  # it was told to end, which takes a moment
    os.close(process)
    assert ended


def test_a_part_is_every_so_manyth_of_those_that_match() -> None:
    tests = [programs.Test(name, (), Path()) for name in ("a1", "a2", "b1", "a3")]
    options = programs.arguments(["--match", "a*", "--part", "2/2"])
    assert [test.name for test in programs.chosen(tests, options)] == ["a2"]


def test_tests_of_libevent_that_are_off_are_run_by_their_own_name(tmp_path: Path) -> None:
    regress = tmp_path / "build" / "bin" / "regress"
    regress.parent.mkdir(parents=True)
    regress.write_text("#!/bin/sh\necho '    http/base'; echo '    http/retry   (Off by default)'\n")
    regress.chmod(0o755)
    words = {test.name: test.words[-1] for test in programs.of_libevent(tmp_path)}
    assert (words["poll/http/base"], words["checks/http/retry"]) == ("http/base", "+http/retry")
