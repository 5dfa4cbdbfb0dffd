"""Panels with matplotlib."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import sizes

from .figure import ESTIMATED, MEASURED, Figure, Panel

WIDE, HIGH = 6.4, 4.2  # inches, of a panel
DASHES = ("--", ":")  # of models
OWN = ("fastsock", "send_array", "buffer", "bulk", "bytes over shm")


def write(figure: Figure, panels: Sequence[Panel], caption: str, file: Path) -> None:
    """Draw the figure into a file. Raises ImportError without matplotlib."""
    from matplotlib import pyplot

    drawn = build(figure, panels, caption)
    file.parent.mkdir(parents=True, exist_ok=True)
    # without the time of drawing, so that the same numbers make the same file
    drawn.savefig(file, dpi=80, metadata={"Date": None} if file.suffix == ".svg" else None)
    pyplot.close(drawn)


def build(figure: Figure, panels: Sequence[Panel], caption: str) -> Any:
    """matplotlib's figure. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fastsock"})
    from matplotlib import pyplot

    across = min(figure.across, len(panels))
    down = -(-len(panels) // across)
    drawn, axes = pyplot.subplots(
        down, across, figsize=(WIDE * across, HIGH * down + 0.9), layout="constrained", squeeze=False
    )
    for each in axes.flat[len(panels) :]:
        each.set_axis_off()
    for each, panel in zip(axes.flat, panels, strict=False):
        show(each, panel)
    drawn.suptitle(f"{figure.name}: {figure.title}")
    text = " ".join(filter(None, [caption, figure.note]))
    drawn.supxlabel(textwrap.fill(text, 110 if across > 1 else 80), fontsize="small")
    return drawn


def show(axes: Any, panel: Panel) -> None:
    """One panel on its axes."""
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    if panel.bars is not None:
        _bars(axes, panel)
    else:
        _curves(axes, panel)
    axes.grid(True, axis="y" if panel.bars else "both", alpha=0.25)
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(fontsize="x-small")


def _curves(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import MultipleLocator

    colours: dict[str, str] = {}
    models: Counter[str] = Counter()  # of one colour: each has dashes of its own
    for curve in panel.curves:
        stem = curve.label.partition(",")[0] if curve.symbols else curve.label  # what is measured and estimated
        colour = colours.setdefault(stem, f"C{len(colours) % 10}")
        if curve.points:
            style = _style(curve, colours)
            if curve.symbols == ESTIMATED:
                style["linestyle"] = DASHES[models[stem] % len(DASHES)]
                models[stem] += 1
            axes.plot(*zip(*curve.points, strict=True), label=curve.label, color=colour, **style)
    if "x" in panel.logarithmic:
        axes.set_xscale("log", base=2)
    if "y" in panel.logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if panel.lengths:
        axes.xaxis.set_major_formatter(lambda value, _: sizes.name(round(value)))
        axes.tick_params(axis="x", labelrotation=30)
        if "x" not in panel.logarithmic:
            axes.xaxis.set_major_locator(MultipleLocator(8 << 10))
    else:
        axes.set_xticks(sorted({x for curve in panel.curves for x, _ in curve.points}))
        axes.xaxis.set_major_formatter("{x:g}")


def _style(curve: Any, colours: dict[str, str]) -> dict[str, Any]:
    marker = "os^vD*Px<>"[(len(colours) - 1) % 10]
    style = {"marker": marker, "markersize": 5, "linewidth": 2.2 if curve.label.startswith(OWN) else 1.2}
    if curve.symbols == MEASURED:
        return {**style, "fillstyle": "none"}
    return {**style, "linewidth": 1.0} if curve.symbols == ESTIMATED else style


def _bars(axes: Any, panel: Panel) -> None:
    bars = panel.bars
    assert bars is not None
    places = range(len(bars.categories))
    width = 0.6 if bars.stacked else 0.8 / len(bars.values)
    floor = [0.0] * len(bars.categories)
    for index, (label, values) in enumerate(bars.values.items()):
        heights = [value or 0.0 for value in values]
        if bars.stacked:
            axes.bar(places, heights, width, bottom=floor, label=label)
            floor = [below + height for below, height in zip(floor, heights, strict=True)]
        else:
            axes.bar([x + (index - (len(bars.values) - 1) / 2) * width for x in places], heights, width, label=label)
            floor = [max(pair) for pair in zip(floor, heights, strict=True)]
    for place, category in zip(places, bars.categories, strict=True):
        if category in bars.tops:
            axes.annotate(bars.tops[category], (place, floor[place]), ha="center", va="bottom", fontsize="small")
    long = max(map(len, bars.categories)) > 8
    axes.set_xticks(places, bars.categories, rotation=25 if long else 0, ha="right" if long else "center")
