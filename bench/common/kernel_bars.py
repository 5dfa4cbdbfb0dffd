"""Times of kernels as bars, a panel for each number of ranks. Needs matplotlib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from . import machine, summary
from .interleave import Sample


def write(file: str, samples: Sequence[Sample], cores: Sequence[int]) -> None:
    """Each MPI's median time over that of the first one. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ranks = list(dict.fromkeys(sample.what.split(", ")[1] for sample in samples))
    peers = list(dict.fromkeys(sample.peer for sample in samples))
    figure, panels = pyplot.subplots(len(ranks), 1, figsize=(14, 4 * len(ranks)), layout="constrained", squeeze=False)
    for panel, number in zip(panels[:, 0], ranks, strict=True):
        names = list(dict.fromkeys(s.what for s in samples if s.what.split(", ")[1] == number))
        for place, peer in enumerate(peers):
            over = []
            for name in names:
                mine = [s.value for s in samples if (s.what, s.peer) == (name, peer)]
                first = [s.value for s in samples if (s.what, s.peer) == (name, peers[0])]
                over.append(summary.median(mine) / summary.median(first) if mine and first else 0.0)
            width = 0.8 / len(peers)
            aside = (place - (len(peers) - 1) / 2) * width
            panel.bar([x + aside for x in range(len(names))], over, width, label=peer)
        panel.axhline(1.0, color="black", linewidth=0.8)
        panel.set_xticks(range(len(names)), [name.split(",")[0] for name in names], rotation=60, ha="right")
        panel.set_title(number)
        panel.set_ylabel(f"time over {peers[0]}'s")
        panel.grid(True, axis="y", alpha=0.25)
    panels[0][0].legend()
    about = machine.description()
    places = ", ".join(f"{where} {times}" for where, times in Counter(s.placement for s in samples).most_common())
    figure.suptitle(f"{about['processor']}, Linux {about['kernel']}; cores {' and '.join(map(str, cores))}: {places}")
    figure.savefig(file, dpi=90)
    pyplot.close(figure)
