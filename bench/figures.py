"""The papers' figures, drawn from this machine's numbers.

python bench/figures.py --list                          which there are, and which cannot be drawn here
python bench/figures.py A 2.1 E 5 --records DIR         draw these from the records in DIR
python bench/figures.py --quick                         measure shortly what is missing, draw all: under three minutes
python bench/figures.py --run                           the same by full measurements: forty minutes, and an hour
                                                        each for kernels.json and model.jsonl if they are not there
python bench/figures.py --large                         the same with the kernels' classes B and C too, which take hours

What is there is not measured again, so a run that was stopped goes on. A figure goes to OUT/A-2.1.png, or .svg.
docs/explanation/figures.md says what the papers found and what is seen here. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from common.words import Parser
from paper_figures import drawing, registry
from paper_figures.figure import Missing
from paper_figures.records import FULL, LARGE, QUICK, SOURCES, Records
from paper_figures.undrawn import UNDRAWN


def main() -> int:
    words = _arguments()
    if words.list:
        print(_list())
        return 0
    try:
        names = registry.chosen(words.figures)
    except Missing as error:
        return _refuse(str(error))
    if find_spec("matplotlib") is None:
        return _refuse("matplotlib is not installed: pip install 'matplotlib', or fastsock with its extra `bench`")
    records = Records(words.records, words.measure)
    if words.measure in (FULL, LARGE):
        print(_estimate(records, names), file=sys.stderr, flush=True)
    status = 0
    for name in names:
        try:
            print(_draw(name, records, words.out, words.format), flush=True)
        except Missing as error:
            status = _refuse(f"{name}: {str(error).removeprefix(f'{name}: ')}")
    if not words.figures:
        print(f"not drawn here: {', '.join(UNDRAWN)} (--list says why)")
    return status


def _estimate(records: Records, names: Sequence[str]) -> str:
    sources = [source for name in names if name in registry.FIGURES for source in registry.FIGURES[name].sources]
    minutes = records.estimate(sources)
    longest = sorted(minutes, key=minutes.__getitem__, reverse=True)
    parts = ", ".join(f"{name} {math.ceil(minutes[name])}" for name in longest)
    whole = f"about {math.ceil(sum(minutes.values()))} minutes of measuring ({parts or 'all is there'})"
    return whole + ("; classes B and C take hours beside them" if records.measure == LARGE else "")


def _refuse(text: str) -> int:
    print(f"figures.py: {text}", file=sys.stderr)
    return 2


def _draw(name: str, records: Records, folder: Path, format: str) -> Path:
    if name in UNDRAWN:
        raise Missing(UNDRAWN[name])
    figure = registry.FIGURES[name]
    try:
        panels = figure.panels(records)
    except Missing as error:
        raise Missing(f"{error}{records.advice(figure.sources, figure.of)}") from None
    file = folder / f"{figure.file}.{format}"
    drawing.write(figure, panels, records.caption(figure.sources, figure.of), file)
    return file


def _list() -> str:
    lines = []
    for name in registry.NAMES:
        if name in UNDRAWN:
            lines.append(f"{name:8}cannot be drawn here: {UNDRAWN[name]}")
        else:
            figure = registry.FIGURES[name]
            files = ", ".join(SOURCES[source].file for source in figure.sources)
            lines.append(f"{name:8}{figure.title} ({files})")
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = Parser(description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="A 2.1, or E for all of that paper (default: all)")
    parser.add_argument("--records", type=Path, default=Path("paper-records"), metavar="DIR",
                        help="the folder of recorded JSON (default: %(default)s)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("paper-figures"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--format", choices=("png", "svg"), default="png", help="default: %(default)s")
    parser.set_defaults(measure="")
    for name, measure, text in (
        ("--quick", QUICK, "measure shortly what is missing"),
        ("--run", FULL, "measure in full what is missing"),
        ("--large", LARGE, "as --run, and the kernels' classes B, and C where memory allows: hours"),
    ):
        parser.add_argument(name, action="store_const", dest="measure", const=measure, help=text)
    parser.add_argument("--list", action="store_true", help="all figures, and why some cannot be drawn here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
