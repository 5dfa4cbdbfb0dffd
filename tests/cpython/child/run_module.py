"""Runs the tests of one module of the standard library, in this process.

Usage: run_module.py PLAN.json, run by a plain interpreter and, unchanged, by
the launcher. The plan names the module, the tests wanted and the file of
results.
"""

import random
import resource
import sys
import unittest

from choosing import choose, read_plan
from recording import Record, attach

# Enough for every test here; some close every descriptor up to the limit, which takes long when that is a million.
DESCRIPTORS = 4096


class Result(unittest.TestResult):
    """A class of our own, so that the results that tests make for themselves are not recorded."""


def prepare(resources):
    """Sets what regrtest sets before it runs a module; the module `test.support`."""
    from test import support

    support.use_resources = list(resources)
    support.verbose = False
    support.record_original_stdout(sys.stdout)
    random.seed(20240229)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return support


def move_to(host):
    """The tests' servers listen at that address, and their clients connect to it, instead of the loopback address."""
    from test.support import socket_helper

    socket_helper.HOST = socket_helper.HOSTv4 = host
    socket_helper.bind_port.__defaults__ = (host,)


def main(plan_path):
    plan = read_plan(plan_path)
    record = Record(plan["results"], plan["default_limit"], plan["limits"])
    record.note_unraisable_exceptions()
    attach(Result, record)
    support = prepare(plan["resources"])
    if plan["host"]:
        move_to(plan["host"])

    loader = unittest.TestLoader()
    try:
        __import__(plan["module"])
        suite = loader.loadTestsFromModule(sys.modules[plan["module"]])
    except unittest.SkipTest as reason:
        record.end(f"import ({plan['module']})", "skip", detail=str(reason))
        record.finish()
        return
    for error in loader.errors:
        record.end(f"load ({plan['module']})", "error", detail=error)

    chosen = unittest.TestSuite(choose(suite, plan))
    del suite
    chosen.run(Result())

    support.gc_collect()
    support.reap_children()
    if support.environment_altered:
        record.note("environment", "test.support.environment_altered is set")
    record.finish()


if __name__ == "__main__":
    main(sys.argv[1])
