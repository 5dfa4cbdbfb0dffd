"""The papers' figures, drawn from this machine's numbers.

python bench/figures.py --list                          which there are, and which cannot be drawn here
python bench/figures.py A 2.1 E 5 --records DIR         draw these from the records in DIR
python bench/figures.py --quick                         measure shortly what is missing, draw all: three minutes at most
python bench/figures.py --run                           the same by full measurements, which take hours

A figure goes to OUT/A-2.1.png. docs/figures.md says what the papers found and what is seen here. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from paper_figures import drawing, registry
from paper_figures.figure import Missing
from paper_figures.records import SOURCES, Records
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
    records = Records(words.records, "quick" if words.quick else "full" if words.run else "")
    status = 0
    for name in names:
        try:
            print(_draw(name, records, words.out), flush=True)
        except Missing as error:
            status = _refuse(f"{name}: {str(error).removeprefix(f'{name}: ')}")
    if not words.figures:
        print(f"not drawn here: {', '.join(UNDRAWN)} (--list says why)")
    return status


def _refuse(text: str) -> int:
    print(f"figures.py: {text}", file=sys.stderr)
    return 2


def _draw(name: str, records: Records, folder: Path) -> Path:
    if name in UNDRAWN:
        raise Missing(UNDRAWN[name])
    figure = registry.FIGURES[name]
    panels = figure.panels(records)
    file = folder / f"{figure.file}.png"
    drawing.write(figure, panels, records.caption(figure.sources), file)
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="A 2.1, or E for all of that paper (default: all)")
    parser.add_argument("--records", type=Path, default=Path("paper-records"), metavar="DIR",
                        help="the folder of recorded JSON (default: %(default)s)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("paper-figures"), metavar="DIR", help="default: %(default)s")
    parser.add_argument("--quick", action="store_true", help="measure shortly what is missing")
    parser.add_argument("--run", action="store_true", help="measure in full what is missing")
    parser.add_argument("--list", action="store_true", help="all figures, and why some cannot be drawn here")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
