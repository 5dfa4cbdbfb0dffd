"""Runs `python -m tornado.test` in this process and records each test.

Usage: run_tornado.py PLAN.json; the plan is that of tests/cpython.
"""

import runpy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cpython" / "child"))

from choosing import choose, read_plan
from recording import Record, attach


def main(plan_path):
    plan = read_plan(plan_path)
    record = Record(plan["results"], plan["default_limit"], plan["limits"])
    # The runner's results are text results; those that the tests make for themselves are plain ones.
    attach(unittest.TextTestResult, record)

    load = unittest.TestLoader.loadTestsFromNames

    def load_chosen(loader, names, module=None):
        suite = load(loader, names, module)
        # The main program asks for "all", which asks in turn for the names of modules: choose once, at the outside.
        return unittest.TestSuite(choose(suite, plan)) if module is not None else suite

    unittest.TestLoader.loadTestsFromNames = load_chosen
    sys.argv[1:] = []
    try:
        runpy.run_module("tornado.test", run_name="__main__", alter_sys=True)
    finally:
        record.finish()


if __name__ == "__main__":
    main(sys.argv[1])
