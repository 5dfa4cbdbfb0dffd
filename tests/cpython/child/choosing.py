"""Chooses the tests that a plan asks for."""

import fnmatch
import json
import unittest


def read_plan(path):
    """The plan that the parent process wrote: its class `Plan`, as a dictionary."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _flatten(suite):
    if isinstance(suite, unittest.TestCase):  # which may be iterable all the same
        yield suite
        return
    try:
        tests = iter(suite)
    except TypeError:
        yield suite
    else:
        for test in tests:
            yield from _flatten(test)


def _wanted(name, plan):
    if name in plan["skip"]:
        return False
    if plan["only"] is not None:
        return name in plan["only"]

    def like_one_of(patterns):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    return (
        (not plan["match"] or like_one_of(plan["match"]))
        and (not plan["narrow"] or like_one_of(plan["narrow"]))
        and not like_one_of(plan["leave_out"])
    )


def choose(suite, plan):
    """The tests wanted, in order, each with the name to record it under: its id, and #2, #3 where tests share one.

    The name is kept on the test itself: a list of the tests would keep alive
    what each has opened, which unittest takes care to drop.
    """
    seen = {}
    for test in _flatten(suite):
        name = test.id()
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name}#{seen[name]}"
        if _wanted(name, plan):
            test.recorded_as = name
            yield test
