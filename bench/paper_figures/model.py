"""A 2.1 to 2.4: models beside measurements. From bench.model's samples; the fits are made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from model import fits
from model.fits import HOCKNEY, PROPOSED, Fit, TooFew
from model.samples import BYTES, Sample, Unfit

from .figure import ESTIMATED, MEASURED, Curve, Figure, Missing, Panel, with_data
from .reading import LENGTH, peers_of
from .records import Records

SOURCE = "model"
BANDWIDTH = "bandwidth, MB/s"
Models = dict[str, tuple[Fit | None, list[Sample]]]


def _of(records: Records, what: str) -> Models:
    """By MPI: the models of a call, where there are enough samples of one distance, and the samples. Raises Missing."""
    samples, _ = records.model(SOURCE, [_group(what)])
    found: Models = {}
    for mpi in peers_of(samples, "mpi"):
        mine = [s for s in samples if s.mpi == mpi]
        try:
            found[mpi] = fits.fit(mine)[0], mine
        except TooFew:
            found[mpi] = None, mine
        except Unfit as error:
            raise Missing(str(error)) from None
    if not found:
        raise Missing(f"{records.path(SOURCE)} has no {what}: measure --what {what}")
    return found


def _group(what: str) -> str:
    return f"{what} ({BYTES})"


def _speed(size: int, time: float) -> float:
    return size / time if time > 0 else 0.0


def _time(_: int, time: float) -> float:
    return time


def _curves(
    of: Models, ranks: int, models: Sequence[str], value: Callable[[int, float], float],
    longest: int = 1 << 40,
) -> list[Curve]:  # fmt: skip
    """For each MPI what was measured, with empty symbols, and what the models say, with filled ones."""
    found = []
    for mpi, (fit, samples) in of.items():
        wanted = [s for s in samples if s.ranks == ranks and 0 < s.size <= longest and not (s.edge or s.unseen)]
        mine = sorted(wanted, key=lambda s: s.size)
        alone = "" if fit else ", too few for a model"
        found.append(Curve(f"{mpi}, {MEASURED}{alone}", [(s.size, value(s.size, s.least)) for s in mine], MEASURED))
        if fit is None:
            continue
        for model in models:
            points = [(s.size, value(s.size, fit.predict(model, s.size, ranks))) for s in mine]
            label = ESTIMATED if len(models) == 1 else f"{model} model"
            found.append(Curve(f"{mpi}, {label}", points, ESTIMATED))
    return found


def _bandwidth(of: Models, ranks: int, title: str, models: Sequence[str]) -> Panel:
    return Panel(title, LENGTH, BANDWIDTH, _curves(of, ranks, models, _speed), logarithmic="x", lengths=True)


def _numbers(of: Models) -> list[int]:
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
    Figure("A 2.1", "Hockney's model and the thesis's, beside measured bandwidth", [SOURCE], _hockney,
           of=[_group("send"), _group("bcast")]),
    Figure("A 2.2", "measured and estimated latency and bandwidth of Send", [SOURCE], _send,
           of=[_group("send")]),
    Figure("A 2.3", "measured and estimated bandwidth of Broadcast and Reduce", [SOURCE],
           _collectives("A 2.3", {"bcast": "Broadcast", "reduce": "Reduce"}), note=_NOTE,
           of=[_group("bcast"), _group("reduce")]),
    Figure("A 2.4", "measured and estimated bandwidth of Scatter and Alltoall", [SOURCE],
           _collectives("A 2.4", {"scatter": "Scatter", "alltoall": "Alltoall"}), note=_NOTE,
           of=[_group("scatter"), _group("alltoall")]),
]  # fmt: skip
