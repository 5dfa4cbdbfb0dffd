"""Programs whose system calls are refused one by one: they get the same bytes and the same errors as plain ones.

A call is refused before the program begins, and so the library knows; or by the program itself, in
the middle of its work.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from . import compiled

pytestmark = compiled.needs_library

ERRORS = ["EPERM", "EACCES", "ENOSYS"]
NO_FILTER = 77  # what the program ends with where it may install none
TALKS = [["epoll", "read"], ["poll", "polls"], ["thread", "recv"]]


@cache
def calls() -> list[str]:
    return compiled.plain([compiled.program("denied")]).stdout.splitlines()


def outcome(seen: subprocess.CompletedProcess[str]) -> tuple[int, str]:
    """A program that fails has several processes that say so, in any order."""
    return (seen.returncode, seen.stdout) if seen.returncode == 0 else (1, "")


def expected(words: list[str]) -> tuple[int, str]:
    seen = compiled.plain(words)
    if seen.returncode == NO_FILTER:
        pytest.skip(f"no filter may be installed here: {seen.stderr}")
    return outcome(seen)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("after", [0, 3])
def test_a_program_that_denies_itself_a_call_sees_what_tcp_shows(error: str, after: int, tmp_path: Path) -> None:
    reasons, right = set(), expected([compiled.program("denied"), "kcmp", error, "midway"])
    assert right[0] == 0
    for call in calls():
        words, report = [compiled.program("denied"), call, error, "midway"], tmp_path / call.replace(" ", ".")
        wanted = expected(words)
        if wanted != right:
            continue  # the program needs it, too
        seen = compiled.ours_at_once(words, report, UPGRADE_AFTER=after)
        assert outcome(seen) == wanted, (call, seen.stdout, seen.stderr)
        if report.exists():
            reasons |= {(line["reason"], line["detail"]) for line in compiled.report_lines(report) if "reason" in line}
    assert ("descriptor_taken", "") in reasons  # had memory before the filter


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("talk", TALKS, ids="-".join)
def test_a_program_that_begins_without_a_call_sees_what_tcp_shows(error: str, talk: list[str], tmp_path: Path) -> None:
    talks = [compiled.program("talk"), *talk, "3", "12", "20000"]
    gained = 0
    for call in calls():
        words, report = [compiled.program("denied"), call, error, "exec", *talks], tmp_path / call.replace(" ", ".")
        wanted = expected(words)
        if wanted[0] != 0:
            continue  # the program needs it, too
        seen = compiled.ours_at_once(words, report, UPGRADE_AFTER=3)
        assert outcome(seen) == wanted, (call, seen.stdout, seen.stderr)
        gained += compiled.gained(report) if report.exists() else 0
    assert gained > 0  # without those that memory does not need


@pytest.mark.parametrize("call", ["ppoll", "epoll_pwait", "recvfrom MSG_PEEK"])
def test_the_report_says_that_a_filter_refuses_what_memory_needs(call: str, tmp_path: Path) -> None:
    talks = [compiled.program("talk"), "poll", "recv", "1", "12", "1000"]
    words, report = [compiled.program("denied"), call, "EPERM", "exec", *talks], tmp_path / "report"
    assert compiled.ours_at_once(words, report, UPGRADE_AFTER=3).returncode == expected(words)[0] == 0
    said = [line for line in compiled.report_lines(report) if "reason" in line]
    assert "system_error" in {line["reason"] for line in said}
    assert all("seccomp" in line["detail"] for line in said)
    assert compiled.gained(report) == 0
