"""Latency and bandwidth of ranks as curves. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from . import mpi_targets, sizes, summary
from .interleave import Sample

PANELS = (("latency", "us, there and back"), ("bandwidth", "GB/s"), ("both ways", "GB/s, both ways together"))


def write(file: str, samples: Sequence[Sample], title: str) -> None:
    """One panel a measurement, one curve an MPI, medians. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(18, 6), layout="constrained")
    peers = list(dict.fromkeys(sample.peer for sample in samples))
    for panel, (what, unit) in zip(panels, PANELS, strict=True):
        mine = [s for s in samples if s.what == mpi_targets.name(what, 2, False)]
        for peer in peers:
            across = sorted({s.size for s in mine if s.peer == peer})
            medians = [summary.median([s.value for s in mine if (s.peer, s.size) == (peer, size)]) for size in across]
            panel.plot(across, medians, label=peer, marker="o", linewidth=2.4 if peer.startswith("fastsock") else 1.2)
        panel.set_title(what)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("message size")
        panel.xaxis.set_major_formatter(lambda value, _: sizes.name(max(1, int(value))))
        panel.set_ylabel(unit)
        panel.grid(True, which="both", alpha=0.25)
    panels[0].set_yscale("log")
    panels[0].legend()
    figure.suptitle(title)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
