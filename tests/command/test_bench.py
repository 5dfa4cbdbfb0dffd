"""`fastsock bench`: a table of this machine. How fast it is, no test says."""

from __future__ import annotations

import json

from ..preload import compiled
from .running import run


@compiled.needs_library
def test_it_measures_both_and_says_what_was_used():
    seen = run("bench", "--turns", "1", "--json")
    found = json.loads(seen.stdout)
    assert (found["transport"], found["turns"], seen.returncode) == ("shm", 1, 0)
    assert len(found["rows"]) == 5
    assert all(row["plain"] > 0 and row["least_ratio"] <= row["ratio"] <= row["most_ratio"] for row in found["rows"])


def test_a_number_of_turns_that_cannot_be():
    seen = run("bench", "--turns", "0")
    assert seen.returncode == 2 and "--turns" in seen.stderr
