"""Latency and bandwidth curves, as in the papers' figures 3.13 and 3.14. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import sizes
from .exchange import PING_PONG, STREAM
from .summary import Row

SHORT = 4096  # bytes; the latency figure shows messages up to here


def write(file: str, rows: Sequence[Row], placement: str) -> None:
    """Three panels: latency of short messages, bandwidth of ping-pong (both half a round trip), bandwidth of streams.

    Raises ImportError without matplotlib.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [r for r in rows if r.placement == placement]
    figure, panels = pyplot.subplots(1, 3, figsize=(19, 6.5), layout="constrained")
    peers = list(dict.fromkeys(r.peer for r in rows))
    styles = {peer: _style(peer, i) for i, peer in enumerate(peers)}
    for peer in peers:
        exchanges = sorted((r.size, r.median / 2) for r in rows if r.peer == peer and r.what == PING_PONG)
        short = [(s, t) for s, t in exchanges if s <= SHORT]
        _curve(panels[0], short, peer, styles)
        _curve(panels[1], [(s, s / t / 1e3) for s, t in exchanges], peer, styles)
        _curve(panels[2], sorted((r.size, r.median) for r in rows if r.peer == peer and r.what == STREAM), peer, styles)
    titles = ("latency (half a round trip)", "bandwidth, ping-pong", "bandwidth, stream")
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title)
        panel.set_xscale("log", base=2)
        panel.set_xlabel("message size")
        panel.xaxis.set_major_formatter(lambda value, _: sizes.name(max(1, int(value))))
        panel.tick_params(axis="x", labelrotation=45)
        panel.grid(True, which="both", alpha=0.25)
    panels[0].set_ylabel("us")
    panels[0].set_yscale("log")
    for panel in panels[1:]:
        panel.set_ylabel("GB/s")
        panel.set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    figure.suptitle(f"Python to Python on one host, cores {placement}")
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def _curve(panel: Any, points: list[tuple[int, float]], peer: str, styles: dict[str, dict[str, Any]]) -> None:
    if points:
        panel.plot(*zip(*points, strict=True), label=peer, **styles[peer])


def _style(peer: str, index: int) -> dict[str, Any]:
    ours = "fastsock" in peer
    return {
        "marker": "os^vD*Px"[index % 8],
        "markersize": 4,
        "linewidth": 2.4 if ours else 1.2,
        "linestyle": "--" if peer.startswith("asyncio") else ":" if peer.startswith("bare ring") else "-",
        "color": f"C{index % 10}",
    }
