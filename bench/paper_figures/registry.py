"""All figures by name."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from . import buffers, kernels, model, ranks, remote_calls, sockets
from .figure import Figure, Missing
from .undrawn import UNDRAWN

GROUPS = (model, sockets, ranks, remote_calls, kernels, buffers)
PAPER = re.compile(r"[A-E]")
NUMBER = re.compile(r"\d+(\.\d+)?")


def _order(name: str) -> tuple[str, list[int]]:
    paper, number = name.split()
    return paper, [int(part) for part in number.split(".")]


FIGURES: dict[str, Figure] = {
    figure.name: figure
    for figure in sorted((figure for group in GROUPS for figure in group.FIGURES), key=lambda each: _order(each.name))
}
NAMES = sorted([*FIGURES, *UNDRAWN], key=_order)


def chosen(words: Sequence[str]) -> list[str]:
    """The names that words choose: "A 2.1", "a2.1", "A-2.1", or "E" for all of a paper; none for all that can be drawn.

    Raises Missing for a figure that there is not, with those near.
    """
    text = re.sub(r"[-_, ]+", " ", " ".join(words).upper())
    tokens = re.findall(r"[A-Z]+(?= ?\d) ?[\d.]+|\S+", text)
    found: list[str] = []
    for token in tokens:
        name = re.sub(r"^([A-Z]+) ?(?=\d)", r"\1 ", token)
        if PAPER.fullmatch(name):
            found += [each for each in FIGURES if each.startswith(f"{name} ")]
        elif name in NAMES:
            found.append(name)
        else:
            raise Missing(f"there is no figure {token}; near it: {', '.join(_near(name))}")
    return list(dict.fromkeys(found)) if tokens else list(FIGURES)


def _near(name: str) -> list[str]:
    """Four names: those of the same chapter first, and nearest by number."""
    try:
        paper, (*chapter, number) = _order(name)
    except ValueError:
        return difflib.get_close_matches(name, NAMES, 4, 0.0)

    def distance(other: str) -> tuple[bool, bool, int]:
        its_paper, (*its_chapter, its_number) = _order(other)
        return its_paper != paper, its_chapter != chapter, abs(its_number - number)

    return sorted(NAMES, key=distance)[:4]
