"""Shared-memory collectives between real processes against a plain reference; what happens when one of them ends."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastsock import core

if not core.available:
    pytest.skip("needs the native core", allow_module_level=True)

from fastsock.core.binding import _team
from tests.mpj.team_ranks import FUNCTIONS, NUMBERS


def run(scenario: str, ranks: int, seed: int | None = None) -> None:
    seed = random.randrange(1 << 20) if seed is None else seed
    command = [sys.executable, "-m", "tests.mpj.team_ranks", scenario, str(ranks), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{scenario} of {ranks} ranks, seed {seed}:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 9])
def test_random_collectives_give_what_the_reference_gives(ranks: int) -> None:
    run("mixed", ranks)


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
def test_a_killed_rank_is_named_to_all_others(ranks: int) -> None:
    run("killed", ranks)


def test_ranks_that_finished_and_ended_are_no_failure() -> None:
    run("finished", 4)


def test_a_wait_hears_signals_and_the_others_learn_who_left() -> None:
    run("interrupted", 3)


def test_who_waits_long_sleeps() -> None:
    run("slow", 3)


@pytest.mark.parametrize("who", range(3))
def test_where_one_cannot_take_part_nobody_has_a_team(who: int) -> None:
    run("refused", 3, who)


@settings(max_examples=5)
@given(seed=st.integers(0, 1 << 32), count=st.integers(0, 2000))
@example(seed=5, count=0)
@example(seed=5, count=1)
@example(seed=5, count=7)
@example(seed=5, count=8)
@example(seed=5, count=100_003)
def test_reduce_local(seed: int, count: int) -> None:
    generator = np.random.default_rng(seed)
    for name, operation in itertools.product(NUMBERS, FUNCTIONS):
        kind, number, code = _team.TYPES[name], _team.OPERATIONS[operation], NUMBERS[name]
        if not _team.can_reduce(number, kind):
            with pytest.raises(ValueError, match="not defined"):
                _team.reduce_local(number, kind, b"12345678", bytearray(8))
            continue
        source, target = (generator.integers(0, 120, count).astype(code) for _ in range(2))
        with np.errstate(over="ignore"):
            expected = FUNCTIONS[operation](source, target)
        _team.reduce_local(number, kind, source, target)
        assert np.array_equal(target, expected), (name, operation)


def test_reduce_local_of_what_needs_no_alignment() -> None:
    memory = np.zeros(81, np.uint8)
    target, source = memory[1:].view("d"), np.arange(10.0)
    _team.reduce_local(_team.OPERATIONS["SUM"], _team.TYPES["DOUBLE"], source, target)
    assert np.array_equal(target, source)


@pytest.mark.parametrize(("operation", "wins"), [("MAXLOC", max), ("MINLOC", min)])
def test_reduce_local_of_pairs_takes_the_lower_place_of_equal_values(operation: str, wins: object) -> None:
    names = ["FLOAT_INT", "DOUBLE_INT", "LONG_INT", "INT_INT", "SHORT_INT", "LONG_DOUBLE_INT"]
    for name, code in zip(names, "fdlihg", strict=True):
        pair = np.dtype([("value", code), ("place", "i")])  # as it travels: without gaps
        left = np.array([(1, 0), (2, 5), (3, 3), (-1, 2)], pair)
        right = np.array([(2, 1), (2, 4), (1, 9), (-1, 3)], pair)
        expected = [
            wins(a, b, key=lambda p: (p[0], -p[1] if wins is max else p[1])) for a, b in zip(left, right, strict=True)
        ]  # type: ignore[operator]
        _team.reduce_local(_team.OPERATIONS[operation], _team.TYPES[name], left, right)
        assert [(p["value"], p["place"]) for p in right] == [(p["value"], p["place"]) for p in expected]


@pytest.mark.parametrize("operation", ["LAND", "LOR", "LXOR"])
def test_reduce_local_of_truth(operation: str) -> None:
    function = {"LAND": np.logical_and, "LOR": np.logical_or, "LXOR": np.logical_xor}[operation]
    for name, code in [("BOOL", "?"), ("INT32", "i"), ("UINT8", "B")]:
        left, right = np.array([0, 0, 3, 1], code), np.array([0, 2, 0, 5], code)
        expected = function(left, right)
        _team.reduce_local(_team.OPERATIONS[operation], _team.TYPES[name], left, right)
        assert np.array_equal(right, expected.astype(code))


def test_reduce_local_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="elements"):
        _team.reduce_local(0, _team.TYPES["DOUBLE"], bytes(8), bytearray(16))
    with pytest.raises(ValueError, match="not defined"):
        _team.reduce_local(99, 0, b"", bytearray(0))


def test_memory_that_is_no_teams_is_refused() -> None:
    memory = os.memfd_create("other")
    with pytest.raises(OSError, match="collective over shared memory"):
        _team.Team(None, memory, 0, [-1, -1], [-1, -1], [0, 1])
