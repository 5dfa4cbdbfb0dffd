"""Runs `python -m twisted.trial PACKAGE` in this process and records each test.

Usage: run_trial.py PLAN.json; the plan is that of tests/cpython, its module
the package to test.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cpython" / "child"))

from choosing import choose, read_plan
from recording import Record, attach


def main(plan_path):
    plan = read_plan(plan_path)
    record = Record(plan["results"], plan["default_limit"], plan["limits"])

    from twisted.scripts import trial
    from twisted.trial import reporter, runner

    attach(reporter.TestResult, record)

    load = runner.TestLoader.loadByNames

    def load_chosen(loader, names, recurse=False):
        return loader.suiteFactory(choose(load(loader, names, recurse), plan))

    runner.TestLoader.loadByNames = load_chosen
    sys.argv[1:] = ["--reporter=bwverbose", plan["module"]]
    try:
        trial.run()
    finally:
        record.finish()


if __name__ == "__main__":
    main(sys.argv[1])
