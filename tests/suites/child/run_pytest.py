"""Runs the tests of one project's source distribution by pytest in this process, and records each.

Usage: run_pytest.py PLAN.json; the plan is that of tests/cpython, its module the project and, behind a slash, the
folder to run; or the name of an installed package that holds its tests.
"""

import fnmatch
import os
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cpython" / "child"))

from choosing import read_plan
from recording import Record

_OUTCOMES = {"passed": "pass", "failed": "fail", "skipped": "skip"}


def _name(nodeid):
    """Without the blank and bracket by which the referee knows what is no test."""
    return nodeid.replace(" (", "_(")


def _wanted(name, plan):
    def like_one_of(patterns):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    if name in plan["skip"]:
        return False
    if plan["only"] is not None:
        return name in plan["only"]
    return (not plan["narrow"] or like_one_of(plan["narrow"])) and not like_one_of(plan["leave_out"])


class Recorder:
    """A plugin that writes what happens to each test."""

    def __init__(self, plan, record):
        self._plan = plan
        self._record = record
        self._reports = []

    def pytest_collection_modifyitems(self, config, items):
        items[:] = [item for item in items if _wanted(_name(item.nodeid), self._plan)]

    def pytest_collectreport(self, report):
        if report.failed:
            self._record.end(f"load ({report.nodeid})", "error", detail=str(report.longrepr))

    def pytest_runtest_logstart(self, nodeid, location):
        self._reports = []
        self._record.start(_name(nodeid))

    def pytest_runtest_logreport(self, report):
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid, location):
        outcome = "pass"
        for report in self._reports:
            if hasattr(report, "wasxfail"):
                outcome = "expected failure"
            elif not report.passed:
                outcome = _OUTCOMES[report.outcome]
        seconds = sum(report.duration for report in self._reports)
        detail = "\n".join(str(report.longrepr) for report in self._reports if report.failed)
        self._record.end(_name(nodeid), outcome, seconds, detail)


def _configures_pytest(source):
    files = (source / name for name in ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"))
    return any(re.search(r"^\[(pytest|tool[.:]pytest)", _text(file), re.MULTILINE) for file in files)


def _text(file):
    return file.read_text(encoding="utf-8") if file.exists() else ""


def main(plan_path):
    import pytest

    plan = read_plan(plan_path)
    record = Record(plan["results"], plan["default_limit"], plan["limits"])
    project, _, inside = plan["module"].partition("/")
    source = Path(sys.prefix, "sources", project)
    where = [inside]
    if source.is_dir():
        os.chdir(source)
        sys.path.append(str(source))  # behind the installed package, which may have compiled parts
    else:
        where = ["--pyargs", plan["module"]]
    # a project's own options may ask for plugins that measure coverage
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "asyncio_default_fixture_loop_scope=function"]
    if source.is_dir() and not _configures_pytest(source):
        options += ["-c", str(source / "pyproject.toml")]  # or pytest takes that of the checkout around it
    if project.startswith("trio."):
        options += ["-p", "trio._tests.pytest_plugin", "-p", "no:trio"]
    code = pytest.main([*where, *options], plugins=[Recorder(plan, record)])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"pytest ended with {code!r}")
    record.finish()


if __name__ == "__main__":
    main(sys.argv[1])
