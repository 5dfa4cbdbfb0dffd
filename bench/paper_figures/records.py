"""The records that figures are drawn from: the command that writes each, and how it is read."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import kernel_runs, mpi, sizes
from common.interleave import Sample
from common.placement import MIXED, NEAR, ONE_CORE
from model import samples as model_samples

from .figure import Missing

ROOT = Path(__file__).resolve().parents[2]
QUICK, FULL, LARGE = "quick", "full", "large"
SEND, SEND_QUICK = "0,1,8,64,512,2k,4k,16k,64k,256k,1m,4m", "0,1,64,1k,16k,128k,1m"


@dataclass(frozen=True)
class Source:
    """One file in the folder of records, and the commands behind `python` that write it; {file} is its path."""

    file: str
    full: Sequence[str]
    quick: Sequence[str] = ()
    large: Sequence[str] = ()  # beside `full`: what takes hours
    minutes: float = 2.0  # that `full` takes on two cores, about
    rest: float = 0.0  # the same where the file is there; 0: then nothing is measured, else the commands go on there
    drawn: Callable[[Any], bool] = lambda sample: True  # whether a figure is to show the sample
    group: Callable[[Any], str] = lambda sample: ""  # samples of one group are drawn at one distance
    alone: Callable[[Any], bool] = lambda sample: False  # one rank, which has no other to be near to

    def commands(self, folder: Path, measure: str) -> list[str]:
        """As they are typed at the repository's root, for QUICK, FULL or LARGE."""
        steps = self.quick or self.full if measure == QUICK else [*self.full, *(self.large if measure == LARGE else ())]
        names = {"file": shlex.quote(str(folder / self.file)), "folder": shlex.quote(str(folder))}
        return [f"python {step.format(**names)}" for step in steps]


def _question(name: str, minutes: float) -> Source:
    command = f"bench/{name}.py --json {{file}}"
    return Source(f"{name}.json", [command], [f"{command} --quick"], minutes=minutes)


def _curves(what: str, minutes: float) -> Source:
    command = f"bench/curves.py {what} --json {{file}}"
    return Source(f"{what}.json", [command], [f"{command} --quick"], minutes=minutes)


def _kinds(sizes: str, more: str = "") -> list[str]:
    command = f"-m bench.model measure --what send --sizes {sizes} --samples {{file}}{more} --kind"
    return [f"{command} {kind}" for kind in ("bytes", "doubles", "objects")]


def _of_kernels(sample: Sample) -> bool:
    """Not the devices, which were verified once, and no skeleton."""
    peers = (mpi.FASTSOCK, mpi.FASTSOCK_TCP, *mpi.OTHERS)
    return sample.peer in peers and kernel_runs.way(sample.what) in (kernel_runs.WHOLE, kernel_runs.OBJECTS)


def _problem(sample: Sample) -> str:
    kernel, letter = sample.what.split()[:2]
    return f"{kernel} {letter}"


def _one_rank(sample: Sample) -> bool:
    return kernel_runs.ranks(sample.what) == 1


def _call(sample: model_samples.Sample) -> str:
    return f"{sample.what} ({sample.kind})"


def _call_of_a_size(sample: Sample) -> str:
    return f"{sample.what.partition(',')[0]} of {sizes.name(sample.size)}"


_KERNELS = "bench/kernels.py --json {file} --resume"
_NPB, _JGF = "--what cg,ep,ft,is,mg,sp", "--what lufact,series,crypt,moldyn"
_TCP, _WITH_TCP = "'fastsock tcp'", "'fastsock,fastsock tcp,mpich,openmpi'"
_FITTED = [
    "-m bench.model measure --samples {folder}/model.jsonl",
    "-m bench.model fit --samples {folder}/model.jsonl --models {folder}/fits.json --distance near",
]
SOURCES = {
    **{name: _question(name, minutes) for name, minutes in (
        ("ping_pong", 1), ("send_array", 1), ("rmi", 4), ("active", 2), ("pmm", 4), ("rdma", 5),
    )},
    **{name: _curves(name, minutes) for name, minutes in (
        ("arrays", 2), ("buffers", 3), ("bulks", 3), ("devices", 3), ("remote_arrays", 6), ("remote_objects", 2),
        ("overhead", 2), ("gradient", 1),
    )},
    "model": Source(
        "model.jsonl",
        ["-m bench.model measure --samples {file}"],
        ["-m bench.model measure --quick --plain --what send,bcast,reduce,scatter,alltoall --ranks 2,4 --times 20"
         " --sizes 0,1,64,1k,16k,256k --peers fastsock,openmpi --samples {file}"],
        minutes=60, rest=1, group=_call,
    ),
    "errors": Source(
        "errors.json",
        [*_FITTED, "-m bench.model errors --samples {folder}/model.jsonl --models {folder}/fits.json --distance near"
                   " --json {file}"],
    ),
    "pairs": Source(
        "pairs.json",
        [*_FITTED, "-m bench.model substitute --models {folder}/fits.json --distance near --json {file}"],
    ),
    "kinds": Source(
        "kinds.jsonl", _kinds(SEND), _kinds(SEND_QUICK, " --quick --plain --times 20 --peers fastsock,openmpi"),
        minutes=3, rest=0.2,
    ),
    "collectives": Source(
        "collectives.json",
        ["bench/collectives.py --what bcast,reduce --ranks 2,4,8 --sizes 1k,1m --json {file}"],
        ["bench/collectives.py --what bcast,reduce --ranks 2,4 --sizes 1k,1m --turns 1 --seconds 0.01"
         " --peers fastsock,openmpi --json {file}"],
        group=_call_of_a_size,
    ),
    "kernels": Source(
        "kernels.json",
        # the first has the most of it; by objects and over TCP once
        [_KERNELS,
         f"{_KERNELS} {_NPB} --classes S,W,A --ranks 1,2,4 --turns 1 --peers {_TCP}",
         f"{_KERNELS} {_JGF} --classes A --ranks 1,2,4 --turns 1 --objects"],
        [f"{_KERNELS} --what ft,is --classes S --ranks 1,2 --turns 1 --repeat 0.1"
         " --peers 'fastsock,fastsock tcp,openmpi'",
         f"{_KERNELS} --what lufact,series,crypt,moldyn --classes A --ranks 1,2 --turns 1 --repeat 0.1"
         " --peers fastsock,openmpi"],
        [f"{_KERNELS} {_NPB} --classes B,C --ranks 1,2,4 --turns 1 --limit 7200 --peers {_WITH_TCP}",
         f"{_KERNELS} {_JGF} --classes B,C --ranks 1,2,4 --turns 1 --limit 7200 --objects"],
        minutes=60, rest=8, drawn=_of_kernels, group=_problem, alone=_one_rank,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Chosen:
    """The samples of one distance, and the points that have none of it."""

    samples: list[Any]
    distance: str
    left_out: list[str]
    points: int


Groups = dict[str, Chosen]  # what each group is drawn from, by its name


def _words(groups: Groups) -> str:
    """The distance, which groups have another, and how much is left out."""
    by_distance: dict[str, list[str]] = {}
    for name, chosen in groups.items():
        by_distance.setdefault(chosen.distance, []).append(name)
    if len(by_distance) > 1:
        by_distance.pop(ONE_CORE, None)  # one rank, whatever the others' distance is
    first, *others = sorted(by_distance, key=lambda place: -len(by_distance[place])) or [""]
    left_out, points = sum(len(each.left_out) for each in groups.values()), sum(each.points for each in groups.values())
    apart = [f"but {place} for {', '.join(by_distance[place])}" for place in others]
    less = [f"without {left_out} of {points} points"] if left_out else []
    return ", ".join([first, *apart, *less])


def _lacking(groups: Groups) -> str:
    """The points that are left out, in a few words."""
    left_out = [point for chosen in groups.values() for point in chosen.left_out]
    more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
    return f"no sample of that distance for {'; '.join(left_out[:3])}{more}" if left_out else ""


class Records:
    """The records of a folder. measure: QUICK, FULL or LARGE measures what is missing first; "" does not."""

    def __init__(self, folder: Path, measure: str = "") -> None:
        self.folder = folder
        self.measure = measure
        self._tried: set[str] = set()
        self._read: dict[str, Groups] = {}

    def path(self, name: str) -> Path:
        """The file of a source. Raises Missing where there is none and none can be measured."""
        source = SOURCES[name]
        path = self.folder / source.file
        if name not in self._tried and self._minutes(source):
            self._tried.add(name)
            self._run(source)
        if not path.exists():
            tried = "could not be measured" if name in self._tried else "is not there"
            raise Missing(f"{path} {tried}: run `{self.command(name)}`, or bench/figures.py with --quick")
        return path

    def estimate(self, names: Iterable[str]) -> dict[str, float]:
        """About how many minutes each of these sources takes, where something is missing."""
        found = {name: self._minutes(SOURCES[name]) for name in dict.fromkeys(names)}
        return {name: minutes for name, minutes in found.items() if minutes}

    def _minutes(self, source: Source) -> float:
        """For measuring what is missing; 0: nothing is."""
        if not self.measure:
            return 0.0
        if not (self.folder / source.file).exists():
            return source.minutes
        return 0.0 if self.measure == QUICK else source.rest

    def is_there(self, name: str) -> bool:
        """Whether the source's file is."""
        return (self.folder / SOURCES[name].file).exists()

    def command(self, name: str) -> str:
        """What writes the source's file, in full."""
        return " && ".join(SOURCES[name].commands(self.folder, FULL))

    def _run(self, source: Source) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for command in source.commands(self.folder.resolve(), self.measure):
            print(f"measuring: {command}", file=sys.stderr, flush=True)
            words = [sys.executable, *shlex.split(command)[1:]]
            done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
            if done.returncode > 1:  # 1: measured, with something skipped
                last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
                print(f"  failed: {last}", file=sys.stderr, flush=True)

    def document(self, name: str) -> dict[str, Any]:
        """A record as it is. Raises Missing."""
        return self.document_of(self.path(name))

    def document_of(self, path: Path) -> dict[str, Any]:
        """The record in a file. Raises Missing."""
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise Missing(f"{path} is no record ({error}): delete it and measure again") from None
        if not isinstance(found, dict) or not isinstance(found.get("machine"), dict):
            raise Missing(f"{path} is no record of a bench: delete it and measure again")
        return found

    def samples(self, name: str, of: Collection[str] = ()) -> tuple[list[Sample], str]:
        """Samples of the one distance at which each group has most points, and the distances in words. Raises Missing.

        of: groups, by their names or the beginning words of these; none: all.
        """
        if name not in self._read:
            path = self.path(name)
            with reading(path):
                found = [Sample(**each) for each in self.document(name)["samples"]]
                drawn = [sample for sample in found if SOURCES[name].drawn(sample)]
                points = [_named(s.what, s.peer, s.size) for s in drawn]
                self._read[name] = _grouped(SOURCES[name], drawn, points, [s.placement for s in drawn])
            if not drawn:
                raise Missing(f"{path} has no samples: delete it and measure again")
        return self._chosen(name, of)

    def model(self, name: str, of: Collection[str] = ()) -> tuple[list[model_samples.Sample], str]:
        """The same of bench/model's records. Raises Missing."""
        if name not in self._read:
            try:
                found = model_samples.read(str(self.path(name)))
            except model_samples.Unfit as error:
                raise Missing(str(error)) from None
            points = [_named(f"{s.what} ({s.kind}), {s.ranks} ranks", s.mpi, max(s.asked, 0)) for s in found]
            self._read[name] = _grouped(SOURCES[name], found, points, [s.distance for s in found])
        return self._chosen(name, of)

    def _chosen(self, name: str, of: Collection[str]) -> tuple[list[Any], str]:
        groups = self._groups(name, of)
        return [sample for chosen in groups.values() for sample in chosen.samples], _words(groups)

    def _groups(self, name: str, of: Collection[str]) -> Groups:
        read = self._read.get(name, {})
        wanted = [f"{each} " for each in of]
        return {group: chosen for group, chosen in read.items() if not of or f"{group} ".startswith(tuple(wanted))}

    def advice(self, names: Iterable[str], of: Collection[str] = ()) -> str:
        """For a figure that lacks points: those that were left out, and the command."""
        told = ""
        for name in names:
            if lacking := _lacking(self._groups(name, of)):
                path = self.folder / SOURCES[name].file
                told += f" ({lacking}: delete {path}, and run `{self.command(name)}` again)"
        return told

    def caption(self, names: Sequence[str], of: Collection[str] = ()) -> str:
        """The machine, the cores' distance, how often each point was measured, and what is left out."""
        told, lacking = [], []
        for name in names:
            if SOURCES[name].file.endswith("l"):
                samples, distance = self.model(name, of)
                times = max(s.count for s in samples)
                told.append((samples[0].machine, distance, f"the least of at most {times} measurements"))
            else:
                with reading(self.path(name)):
                    about = self.document(name)["machine"]
                    machine = f"{about['processor']}, {about['cores']} cores, Linux {about['kernel']}"
                    when = about["when"]
                measured, distance = self.samples(name, of)
                times = max(Counter((s.what, s.peer, s.size) for s in measured).values())
                told.append((machine, distance, f"medians of at most {times}, measured {when}"))
            lacking.append(_lacking(self._groups(name, of)))
        parts = ["; ".join(dict.fromkeys(each)) for each in zip(*told, strict=True)]
        left_out = "; ".join(dict.fromkeys(filter(None, lacking)))
        whole = f"{parts[0]}. Cores {parts[1]}. {parts[2][:1].upper()}{parts[2][1:]}."
        return f"{whole} Left out: {left_out}." if left_out else whole


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What is read inside is a bench's record. Raises Missing where it has another shape."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, ArithmeticError) as error:
        raise Missing(f"{path} has another shape than a bench writes ({error!r}): delete it, measure again") from None


def _named(what: str, peer: str, size: int) -> str:
    return f"{what} on {peer}" + (f", {sizes.name(size)}" if size else "")


def _grouped(source: Source, samples: Sequence[Any], points: Sequence[str], places: Sequence[str]) -> Groups:
    """Of each group that of one distance."""
    places = [ONE_CORE if source.alone(s) else place for s, place in zip(samples, places, strict=True)]
    groups: dict[str, list[int]] = {}
    for at, sample in enumerate(samples):
        groups.setdefault(source.group(sample), []).append(at)
    columns = (samples, points, places)
    return {group: of_one_distance(*([column[at] for at in of] for column in columns)) for group, of in groups.items()}


def of_one_distance(samples: Sequence[Any], points: Sequence[str], places: Sequence[str]) -> Chosen:
    """The samples of the one distance that most points have, and those of one core: near and far never mix.

    One core alone is at no distance, so what it measured stands beside all.
    """
    covered: dict[str, set[str]] = {}
    for point, place in zip(points, places, strict=True):
        covered.setdefault(place, set()).add(point)
    apart = covered.keys() - {ONE_CORE} or {ONE_CORE}
    # what was measured while the cores moved is of no distance
    best = max(sorted(apart), key=lambda place: (place != MIXED, len(covered[place]), place == NEAR))
    kept = [at for at, place in enumerate(places) if place in (best, ONE_CORE)]
    there = {points[at] for at in kept}
    left_out = [point for point in dict.fromkeys(points) if point not in there]
    return Chosen([samples[at] for at in kept], best, left_out, len(set(points)))
