"""--trace and FASTSOCK_TRACE: every decision on standard error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ..helpers.comparing import Programs
from .test_report import CONVERSATION, FASTEST, PATIENT


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.inside_of(tmp_path)


@pytest.mark.parametrize("way", ["launched", "inside"])
def test_every_connection_is_told(programs: Programs, way: str) -> None:
    programs.variables.update(PATIENT)
    programs.write("app.py", CONVERSATION + "converse(); print(os.getpid())")
    outcome = getattr(programs, way)("--trace", f"--transports={FASTEST}", "app.py")
    assert outcome.returncode == 0
    lines = outcome.stderr.splitlines()
    assert {line.partition("]")[0] for line in lines} == {f"fastsock[{outcome.stdout.strip()}"}
    for role in ("connect", "accept"):
        assert [line for line in lines if re.search(rf"\b{role}\b.*\b{FASTEST}\b", line)]


def test_nothing_is_told_unasked(programs: Programs) -> None:
    programs.write("app.py", CONVERSATION + "converse()")
    assert programs.launched("app.py").stderr == ""


def test_the_logger_is_put_back(programs: Programs) -> None:
    programs.write(
        "app.py",
        """
import logging, os
logger = logging.getLogger("fastsock")
before = logger.level, list(logger.handlers)
os.environ["FASTSOCK_TRACE"] = "1"
import fastsock
fastsock.install()
assert len(logger.handlers) == 1 and logger.isEnabledFor(logging.DEBUG)
fastsock.uninstall()
assert (logger.level, logger.handlers) == before
""",
    )
    outcome = programs.run("app.py")
    assert (outcome.returncode, outcome.stderr) == (0, "")
