"""Programs with low limits (RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_NPROC, RLIMIT_FSIZE) go on as on plain TCP."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from . import compiled

pytestmark = compiled.needs_library


def connections(told: str) -> int:
    found = re.fullmatch(r"(\d+) connections\n", told)
    assert found is not None, told
    return int(found[1])


@pytest.mark.parametrize("after", ["0", "3", "pays"])
@pytest.mark.parametrize("numbers", [16, 24, 64, 130])
@pytest.mark.parametrize("how", [[], ["poll"]], ids=["epoll", "poll"])
def test_descriptors_are_given_back_or_the_program_is_told(
    how: list[str], numbers: int, after: str, tmp_path: Path
) -> None:
    words = [compiled.program("limited"), "numbers", str(numbers), *how]
    plain, ours = compiled.plain(words), compiled.ours_at_once(words, tmp_path / "report", UPGRADE_AFTER=after)
    assert (plain.returncode, ours.returncode) == (0, 0)
    missing = connections(plain.stdout) - connections(ours.stdout)
    assert 0 <= missing <= 1
    if missing:
        assert ours.stderr.count("\n") == 1
        assert f"(RLIMIT_NOFILE, {numbers}), and {missing} of them are fastsock's" in ours.stderr


@pytest.mark.parametrize(("limit", "number"), [("memory", 0), ("memory", 1), ("memory", 16), ("processes", 0)])
def test_a_program_without_room_for_more_goes_on(limit: str, number: int, tmp_path: Path) -> None:
    words = [compiled.program("limited"), limit, str(number)]
    plain, ours = compiled.plain(words), compiled.ours_at_once(words, tmp_path / "report", UPGRADE_AFTER=3)
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_a_report_that_may_not_be_written_ends_no_program(tmp_path: Path) -> None:
    talk = shlex.join([compiled.program("talk"), "epoll", "read", "3", "12", "20000"])
    words, report = ["/bin/sh", "-c", f"ulimit -f 0; exec {talk} 2>&1"], tmp_path / "report"
    plain, ours = compiled.plain(words), compiled.ours_at_once(words, report, UPGRADE_AFTER=3)
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout)
    assert report.read_text() == ""  # it was to be written
