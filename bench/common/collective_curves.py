"""Collectives as curves. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from . import sizes, summary
from .interleave import Sample


def write(file: str, samples: Sequence[Sample], title: str) -> None:
    """A row of panels for each collective, a panel for each number of ranks, a curve an MPI. Raises ImportError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    mine = [sample for sample in samples if sample.size]
    names = list(dict.fromkeys(sample.what.split(", ")[0] for sample in mine))
    ranks = list(dict.fromkeys(sample.what.split(", ")[1] for sample in mine))
    peers = list(dict.fromkeys(sample.peer for sample in mine))
    figure, panels = pyplot.subplots(
        len(names), len(ranks), figsize=(5 * len(ranks), 3.4 * len(names)), layout="constrained", squeeze=False
    )
    for row, name in zip(panels, names, strict=True):
        for panel, number in zip(row, ranks, strict=True):
            here = [sample for sample in mine if sample.what == f"{name}, {number}"]
            for peer in peers:
                across = sorted({s.size for s in here if s.peer == peer})
                medians = [summary.median([s.value for s in here if (s.peer, s.size) == (peer, n)]) for n in across]
                panel.plot(across, medians, label=peer, marker="o", linewidth=2.4 if peer == "fastsock" else 1.2)
            panel.set_title(f"{name}, {number}")
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.xaxis.set_major_formatter(lambda value, _: sizes.name(max(1, int(value))))
            panel.set_ylabel("us")
            panel.grid(True, which="both", alpha=0.25)
    panels[0][0].legend()
    figure.suptitle(title)
    figure.savefig(file, dpi=90)
    pyplot.close(figure)
