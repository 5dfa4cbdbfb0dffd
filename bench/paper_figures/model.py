"""A 2.1 to 2.4: models beside measurements. From bench.model's samples; the fits are made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from model import fits
from model.fits import HOCKNEY, PROPOSED, Fit
from model.samples import BYTES, Sample, Unfit

from .figure import ESTIMATED, MEASURED, Curve, Figure, Missing, Panel, with_data
from .reading import LENGTH, peers_of
from .records import Records

SOURCE = "model"
BANDWIDTH = "bandwidth, MB/s"


def _of(records: Records, what: str) -> dict[str, tuple[Fit, list[Sample]]]:
    """By MPI: the models of a call and its samples. Raises Missing."""
    samples, distance = records.model(SOURCE)
    found, refused = {}, ""
    for mpi in peers_of(samples, "mpi"):
        mine = [s for s in samples if (s.mpi, s.what, s.kind) == (mpi, what, BYTES)]
        if not mine:
            continue
        try:
            found[mpi] = fits.fit(mine)[0], mine
        except Unfit as error:
            refused = str(error)
    if not found:
        raise Missing(refused or f"{records.path(SOURCE)} has no {what} (cores {distance}): measure --what {what}")
    return found


def _speed(size: int, time: float) -> float:
    return size / time if time > 0 else 0.0


def _time(_: int, time: float) -> float:
    return time


def _curves(
    of: dict[str, tuple[Fit, list[Sample]]], ranks: int, models: Sequence[str], value: Callable[[int, float], float],
    longest: int = 1 << 40,
) -> list[Curve]:  # fmt: skip
    """For each MPI what was measured, with empty symbols, and what the models say, with filled ones."""
    found = []
    for mpi, (fit, samples) in of.items():
        wanted = [s for s in samples if s.ranks == ranks and 0 < s.size <= longest and not (s.edge or s.unseen)]
        mine = sorted(wanted, key=lambda s: s.size)
        found.append(Curve(f"{mpi}, {MEASURED}", [(s.size, value(s.size, s.least)) for s in mine], MEASURED))
        for model in models:
            points = [(s.size, value(s.size, fit.predict(model, s.size, ranks))) for s in mine]
            label = ESTIMATED if len(models) == 1 else f"{model} model"
            found.append(Curve(f"{mpi}, {label}", points, ESTIMATED))
    return found


def _bandwidth(of: dict[str, tuple[Fit, list[Sample]]], ranks: int, title: str, models: Sequence[str]) -> Panel:
    return Panel(title, LENGTH, BANDWIDTH, _curves(of, ranks, models, _speed), logarithmic="x", lengths=True)


def _numbers(of: dict[str, tuple[Fit, list[Sample]]]) -> list[int]:
    return sorted({sample.ranks for _, samples in of.values() for sample in samples})


def _hockney(records: Records) -> list[Panel]:
    send, broadcast = _of(records, "send"), _of(records, "bcast")
    most = max(_numbers(broadcast))
    both = (HOCKNEY, PROPOSED)
    return with_data([
        _bandwidth(send, 2, "(a) Send, 2 ranks", both),
        _bandwidth(broadcast, most, f"(b) Broadcast, {most} ranks", both),
    ], "A 2.1")  # fmt: skip


def _send(records: Records) -> list[Panel]:
    of = _of(records, "send")
    latency = _curves(of, 2, [PROPOSED], _time, 4096)
    return with_data([
        Panel("latency of Send", LENGTH, "latency, us", latency, logarithmic="x", lengths=True),
        _bandwidth(of, 2, "bandwidth of Send", [PROPOSED]),
    ], "A 2.2")  # fmt: skip


def _collectives(name: str, calls: dict[str, str]) -> Callable[[Records], list[Panel]]:
    def panels(records: Records) -> list[Panel]:
        of, lacking = {}, None
        for call in calls:  # one is drawn where the other was not measured
            try:
                of[call] = _of(records, call)
            except Missing as error:
                lacking = error
        if lacking is not None and not of:
            raise lacking
        numbers = sorted({ranks for each in of.values() for ranks in _numbers(each)})
        return with_data([
            _bandwidth(of[call], ranks, f"{calls[call]}, {ranks} ranks", [PROPOSED])
            for ranks in numbers for call in of
        ], name)  # fmt: skip

    return panels


_NOTE = "Bandwidth is n / T(n, p). A row for each number of ranks stands for a row for each network."
FIGURES = [
    Figure("A 2.1", "Hockney's model and the thesis's, beside measured bandwidth", [SOURCE], _hockney),
    Figure("A 2.2", "measured and estimated latency and bandwidth of Send", [SOURCE], _send),
    Figure("A 2.3", "measured and estimated bandwidth of Broadcast and Reduce", [SOURCE],
           _collectives("A 2.3", {"bcast": "Broadcast", "reduce": "Reduce"}), note=_NOTE),
    Figure("A 2.4", "measured and estimated bandwidth of Scatter and Alltoall", [SOURCE],
           _collectives("A 2.4", {"scatter": "Scatter", "alltoall": "Alltoall"}), note=_NOTE),
]  # fmt: skip
