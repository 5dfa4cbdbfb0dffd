"""Random schedules of every call beside plain TCP, and deaths in them: `python -m tests.soak --schedules 10000`.

FASTSOCK_SOAK=1 plays thousands, FASTSOCK_TEST_SEED others.
"""

from __future__ import annotations

import os

import pytest

from ..helpers.paths import PATHS, why_not
from ..soak.comparing import Comparison, kill

LONG = bool(os.environ.get("FASTSOCK_SOAK"))
COUNT = 3400 if LONG else 60
DEATHS = 3400 if LONG else 20
SEED = int(os.environ.get("FASTSOCK_TEST_SEED", "1"))

pytestmark = [pytest.mark.timeout(7200 if LONG else 300), pytest.mark.parametrize("path", PATHS)]


@pytest.fixture(autouse=True)
def _can_be_tested(path):
    reason = why_not(path)
    if reason:
        pytest.skip(reason)


def test_schedules_go_as_on_plain_tcp(path):
    with Comparison([path], minimise=False) as comparison:
        result = comparison.run(range(SEED, SEED + COUNT))
    assert not result.problems, str(result)
    assert result.played == COUNT
    assert _took_it(result, path, COUNT), str(result)


def test_who_is_killed_loses_nothing_unsaid(path):
    result = kill([path], range(SEED, SEED + DEATHS))
    assert not result.problems, str(result)
    assert result.played == DEATHS
    assert _took_it(result, path, DEATHS), str(result)


def _took_it(result, path, count):
    if path == "shm":  # some watch, or hand on, what has no memory yet
        return result.gained > count // 3
    return result.moved.get(path, 0) > count // 2
