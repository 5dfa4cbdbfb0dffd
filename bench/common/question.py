"""What every question's file does: options, the measurement, its table, JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

from . import machine, record, target
from .interleave import Sample, Skipped
from .placement import FAR, NEAR, UNKNOWN
from .target import Result

HERE = (NEAR, UNKNOWN)  # where nothing can be probed, the cores count as near
NOISE = 0.03  # what "not slower" may miss


@dataclass
class Options:
    """How much to measure, and where."""

    quick: bool = False
    cores: tuple[int, int] = (0, 1)
    skipped: Skipped = field(default_factory=Skipped)
    samples: list[Sample] = field(default_factory=list)  # that a question keeps beside its results

    def pick(self, quick: float, full: float) -> float:
        """The one that applies."""
        return quick if self.quick else full

    def times(self, quick: int, full: int) -> int:
        """The one that applies."""
        return quick if self.quick else full


Question = Callable[[Options], list[Result]]


def ratio(
    what: str,
    measured: float | None,
    skipped: Skipped,
    peer: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    cores: str = "",
    note: str = "",
    noise: float = 0.0,
) -> Result:
    """A ratio's line; where it is None, the note tells why ``peer`` was skipped or how the cores stood."""
    if measured is None:
        why = skipped.get(peer) or (f"the cores were not {cores}" if cores in (NEAR, FAR) else "not measured")
        note = f"{why}; {note}" if note else why
    return Result(what, measured, "x", at_least, at_most, cores, note, noise)


def main(question: Question, text: str | None, counts: Callable[[Options], str] | None = None) -> int:
    """Answer one question from the command line. counts: a table to be shown behind the answer."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    words = parser.parse_args()
    options = Options(words.quick, words.pin)
    results = question(options)
    print(target.report(results))
    if counts is not None:
        print(f"\n{counts(options)}")
    if words.json:
        record.write(words.json, {"results": results, "samples": options.samples, "skipped": options.skipped})
    return 0 if results else 1


def add_options(parser: argparse.ArgumentParser) -> None:
    """--quick, --pin and --json."""
    parser.add_argument("--quick", action="store_true", help="fewer and shorter samples")
    parser.add_argument("--pin", default="0,1", type=machine.two_cores, help="the two ends' cores (default: 0,1)")
    parser.add_argument("--json", metavar="FILE", help="write the results")


def run(question: Question, text: str | None, counts: Callable[[Options], str] | None = None) -> None:
    """``main`` as the program's end."""
    sys.exit(main(question, text, counts))
