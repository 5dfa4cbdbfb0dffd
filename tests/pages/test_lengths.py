"""A page is read in eight minutes, and lies where a reader looks for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .running import ROOT

MOST_WORDS = 1600  # eight minutes
FOLDERS = {"tutorials", "how-to", "reference", "explanation"}
PAGES = sorted((ROOT / "docs").rglob("*.md"))

pytestmark = pytest.mark.skipif(not PAGES, reason="fastsock is installed without its repository")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_no_more_than_eight_minutes_of_reading(page: Path) -> None:
    shown = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    words = len(shown.split())
    assert words <= MOST_WORDS, f"{page.relative_to(ROOT)} has {words} words: split it by what a reader wants"


def test_every_page_has_its_place() -> None:
    places = {page.relative_to(ROOT / "docs").parts[0] for page in PAGES}
    assert places == FOLDERS | {"index.md"}
