"""Plain text tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import sizes
from .summary import Row, in_words, smaller_is_better


def lines(header: Sequence[str], body: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns as wide as their content; the first `left` are left-aligned, the others are right-aligned."""
    table = [list(header), *map(list, body)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    text = []
    for row in table:
        cells = [
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip())
    text.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(text)


def number(value: float | None) -> str:
    """The value in few digits, "-" for None."""
    return "-" if value is None else in_words(value)


def matrices(rows: Sequence[Row]) -> str:
    """For each kind of measurement and placement: peers down, sizes across, medians and then ratios."""
    blocks = []
    for what, placement, baseline in dict.fromkeys((r.what, r.placement, r.baseline) for r in rows):
        block = [r for r in rows if (r.what, r.placement, r.baseline) == (what, placement, baseline)]
        unit = "round trip, us" if smaller_is_better(what) else "GB/s"
        across = sorted({r.size for r in block})
        at = {(r.peer, r.size): r for r in block}
        peers = list(dict.fromkeys(r.peer for r in block))
        names = [sizes.name(s) for s in across]
        values = [[p, *(number(at[p, s].median) if (p, s) in at else "-" for s in across)] for p in peers]
        probes = [_probe([r for r in block if r.size == s]) for s in across]
        ratios = [[p, *(number(at[p, s].ratio) if (p, s) in at else "-" for s in across)] for p in peers]
        samples = [r.count for r in block]
        note = f"{min(samples)} to {max(samples)} samples each"
        disturbed = sum(r.disturbed for r in block)
        if disturbed:
            note += f", {disturbed} of {sum(samples)} taken while others used the machine"
        blocks.append(
            f"{what}, {unit} (median; cores {placement}; {note})\n"
            + lines(["", *names], [*values, ["cache line, us", *probes]])
            + f"\n\n{what}, times faster than {baseline} (median of ratios within a turn)\n"
            + lines(["", *names], ratios)
        )
    return "\n\n".join(blocks)


def long(rows: Sequence[Row]) -> str:
    """One line for each row, with its spread and its probe."""
    return lines(
        ["what", "size", "peer", "median", "least", "most", "ratio", "cores", "cache line, us", "samples"],
        [
            [r.what, sizes.name(r.size), r.peer, number(r.median), number(r.least), number(r.most),
             number(r.ratio), r.placement, number(r.probe), str(r.count)]
            for r in rows
        ],
    )  # fmt: skip


def _probe(rows: Sequence[Row]) -> str:
    known = [r.probe for r in rows if r.probe is not None]
    return number(sum(known) / len(known)) if known else "-"
