"""Runs one module of gevent's installed tests in this process and records each test.

Usage: run_gevent.py PLAN.json; the plan is that of tests/cpython, its module
the module to test.
"""

import importlib
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "cpython" / "child"))

from choosing import choose, read_plan
from recording import Record, attach


def main(plan_path):
    plan = read_plan(plan_path)
    record = Record(plan["results"], plan["default_limit"], plan["limits"])
    attach(unittest.TextTestResult, record)
    # Each says itself what it wants patched, before it imports anything else.
    module = importlib.import_module(plan["module"])
    suite = unittest.TestSuite(choose(unittest.defaultTestLoader.loadTestsFromModule(module), plan))
    unittest.TextTestRunner(verbosity=2).run(suite)
    record.finish()


if __name__ == "__main__":
    main(sys.argv[1])
