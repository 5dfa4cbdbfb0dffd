"""The records that figures are drawn from: the command that writes each, and how it is read."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from common.interleave import Sample
from common.placement import NEAR
from model import samples as model_samples

from .figure import Missing

ROOT = Path(__file__).resolve().parents[2]
SEND, SEND_QUICK = "0,1,8,64,512,2k,4k,16k,64k,256k,1m,4m", "0,1,64,1k,16k,128k,1m"


@dataclass(frozen=True)
class Source:
    """One file in the folder of records, and the commands behind `python` that write it; {file} is its path."""

    file: str
    full: Sequence[str]
    quick: Sequence[str] = ()

    def commands(self, folder: Path, quick: bool) -> list[str]:
        """As they are typed at the repository's root."""
        steps = self.quick if quick and self.quick else self.full
        names = {"file": shlex.quote(str(folder / self.file)), "folder": shlex.quote(str(folder))}
        return [f"python {step.format(**names)}" for step in steps]


def _question(name: str) -> Source:
    command = f"bench/{name}.py --json {{file}}"
    return Source(f"{name}.json", [command], [f"{command} --quick"])


def _curves(what: str) -> Source:
    command = f"bench/curves.py {what} --json {{file}}"
    return Source(f"{what}.json", [command], [f"{command} --quick"])


def _kinds(sizes: str, more: str = "") -> list[str]:
    command = f"-m bench.model measure --what send --sizes {sizes} --samples {{file}}{more} --kind"
    return [f"{command} {kind}" for kind in ("bytes", "doubles", "objects")]


_KERNELS = "bench/kernels.py --json {file} --resume"
_WITH_TCP = "'fastsock,fastsock tcp,mpich,openmpi'"
_FITTED = [
    "-m bench.model measure --samples {folder}/model.jsonl",
    "-m bench.model fit --samples {folder}/model.jsonl --models {folder}/fits.json --distance near",
]
SOURCES = {
    **{name: _question(name) for name in ("ping_pong", "send_array", "rmi", "active", "pmm", "rdma")},
    **{name: _curves(name) for name in ("arrays", "buffers", "bulks", "devices", "remote_arrays", "remote_objects",
                                        "overhead", "gradient")},
    "model": Source(
        "model.jsonl",
        ["-m bench.model measure --samples {file}"],
        ["-m bench.model measure --quick --what send,bcast,reduce,scatter,alltoall --ranks 2,4 --times 20"
         " --sizes 0,1,64,1k,16k,256k --peers fastsock,openmpi --samples {file}"],
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
    "kinds": Source("kinds.jsonl", _kinds(SEND), _kinds(SEND_QUICK, " --quick --times 20 --peers fastsock,openmpi")),
    "collectives": Source(
        "collectives.json",
        ["bench/collectives.py --what bcast,reduce --ranks 2,4,8 --sizes 1k,1m --json {file}"],
        ["bench/collectives.py --what bcast,reduce --ranks 2,4 --sizes 1k,1m --turns 1 --seconds 0.01"
         " --peers fastsock,openmpi --json {file}"],
    ),
    "kernels": Source(
        "kernels.json",
        [_KERNELS,
         f"{_KERNELS} --what cg,ep,ft,is,mg,sp --classes S,W,A,B --ranks 1,2,4 --peers {_WITH_TCP}",
         f"{_KERNELS} --what lufact,series,crypt,moldyn --classes A,B --ranks 1,2,4 --objects"],
        [f"{_KERNELS} --what ft,is --classes S --ranks 1,2 --turns 1 --peers 'fastsock,fastsock tcp,openmpi'",
         f"{_KERNELS} --what lufact,series,crypt,moldyn --classes A --ranks 1,2 --turns 1 --peers fastsock,openmpi"],
    ),
}  # fmt: skip


class Records:
    """The records of a folder. measure: "quick" or "full" measures what is missing first; "" does not."""

    def __init__(self, folder: Path, measure: str = "") -> None:
        self.folder = folder
        self.measure = measure
        self._tried: set[str] = set()
        self.samples = cache(self._samples)
        self.model = cache(self._model)

    def path(self, name: str) -> Path:
        """The file of a source. Raises Missing where there is none and none can be measured."""
        source = SOURCES[name]
        path = self.folder / source.file
        if not path.exists() and self.measure and name not in self._tried:
            self._tried.add(name)
            self._run(source)
        if not path.exists():
            tried = "could not be measured" if name in self._tried else "is not there"
            raise Missing(f"{path} {tried}: run `{self.command(name)}`, or bench/figures.py with --quick")
        return path

    def is_there(self, name: str) -> bool:
        """Whether the source's file is."""
        return (self.folder / SOURCES[name].file).exists()

    def command(self, name: str) -> str:
        """What writes the source's file, in full."""
        return " && ".join(SOURCES[name].commands(self.folder, False))

    def _run(self, source: Source) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for command in source.commands(self.folder.resolve(), self.measure == "quick"):
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
        except ValueError as error:
            raise Missing(f"{path} is no record ({error}): delete it and measure again") from None
        if not isinstance(found, dict) or "machine" not in found:
            raise Missing(f"{path} is no record of a bench: delete it and measure again")
        return found

    def _samples(self, name: str) -> tuple[list[Sample], str]:
        """Samples of one distance where one covers everything, and the distances in words. Raises Missing."""
        try:
            found = [Sample(**each) for each in self.document(name)["samples"]]
        except (KeyError, TypeError):
            raise Missing(f"{self.path(name)} holds no samples: delete it and measure again") from None
        if not found:
            raise Missing(f"{self.path(name)} has no samples: delete it and measure again")
        return of_one_distance(found, [(s.what, s.peer, s.size) for s in found], [s.placement for s in found])

    def _model(self, name: str) -> tuple[list[model_samples.Sample], str]:
        """The same of bench/model's records. Where no distance has everything, all are as of one: one fit wants that.

        Raises Missing.
        """
        try:
            found = model_samples.read(str(self.path(name)))
        except model_samples.Unfit as error:
            raise Missing(str(error)) from None
        cells = [(s.mpi, s.what, s.kind, s.ranks, s.asked) for s in found]
        used, where = of_one_distance(found, cells, [s.distance for s in found])
        return [replace(s, distance=where) for s in used], where

    def caption(self, names: Sequence[str]) -> str:
        """The machine, the cores' distance, and how often each point was measured."""
        told = []
        for name in names:
            if SOURCES[name].file.endswith("l"):
                samples, distance = self.model(name)
                times = max(s.count for s in samples)
                told.append((samples[0].machine, distance, f"the least of at most {times} measurements"))
                continue
            document = self.document(name)
            about = document["machine"]
            machine = f"{about['processor']}, {about['cores']} cores, Linux {about['kernel']}"
            samples, distance = self.samples(name)
            times = max(Counter((s.what, s.peer, s.size) for s in samples).values())
            told.append((machine, distance, f"medians of at most {times}, measured {about['when']}"))
        parts = ["; ".join(dict.fromkeys(each)) for each in zip(*told, strict=True)]
        return f"{parts[0]}. Cores {parts[1]}. {parts[2][:1].upper()}{parts[2][1:]}."


def of_one_distance(samples: list[Any], cells: list[Any], places: list[str]) -> tuple[list[Any], str]:
    """The samples of the one distance that has every cell; all of them, and how many are of which, where none has."""
    covered: dict[str, set[Any]] = {}
    for cell, place in zip(cells, places, strict=True):
        covered.setdefault(place, set()).add(cell)
    wanted = set(cells)
    whole = [place for place, of in covered.items() if of == wanted]
    if whole:
        place = NEAR if NEAR in whole else max(whole, key=places.count)
        return [s for s, where in zip(samples, places, strict=True) if where == place], place
    order = sorted(covered, key=places.count, reverse=True)
    return samples, "changed: " + ", ".join(f"{place} in {places.count(place)}" for place in order) + " samples"
