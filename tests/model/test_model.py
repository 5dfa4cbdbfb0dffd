"""The protocol's models: the quickest of them hold, and the quickest of the seeded mistakes are found."""

from __future__ import annotations

import re

import pytest

from .checks import MISTAKES, MODELS
from .run import HERE, chosen, missing_tools, perform

needs_spin = pytest.mark.skipif(bool(missing_tools()), reason=f"not installed: {', '.join(missing_tools())}")


@needs_spin
@pytest.mark.parametrize("check", chosen("quick"), ids=lambda check: check.title)
def test_a_model_does_as_expected(check):
    outcome = perform(check)
    assert outcome.found == check.expected, outcome.said


def test_every_seeded_mistake_of_a_model_is_looked_for():
    looked_for = {(check.model, define) for check in (*MODELS, *MISTAKES) for define in check.defines}
    for page in HERE.glob("*.pml"):
        seeded = set(re.findall(r"\bMUT_\w+", re.sub(r"/\*.*?\*/", "", page.read_text(), flags=re.DOTALL)))
        assert seeded, f"{page.name} has no seeded mistake"
        assert sorted(name for name in seeded if (page.stem, name) not in looked_for) == [], page.name


def test_no_two_checks_have_the_same_title():
    titles = [check.title for check in (*MODELS, *MISTAKES)]
    assert len(titles) == len(set(titles))
