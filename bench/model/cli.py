"""The words of python -m bench.model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from common import machine, mpi, placement, record, sizes, table
from common.interleave import Skipped
from common.process import Broken, Unusable
from common.words import Parser, writable

from . import choosing, errors, fits, measure, metrics, samples, substitute
from .fits import Fit
from .samples import Sample, Unfit

PEERS = (mpi.FASTSOCK, *mpi.OTHERS)
THERE_ARE = (mpi.FASTSOCK, mpi.FASTSOCK_TCP, *mpi.DEVICES, *mpi.OTHERS)
DISTANCES = (placement.NEAR, placement.FAR, placement.ONE_CORE, placement.UNKNOWN)


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words say: the exit status, 2 for the user's mistakes, which are told in one line as all failures."""
    said = _parser().parse_args(words)
    try:
        writable(said.json, said.write)
        found: int = said.run(said)
    except (Unfit, Unusable) as error:
        return _refuse(str(error))
    except Broken as error:
        _refuse(str(error))
        return 1
    except UnicodeDecodeError:
        return _refuse(f"{said.samples} holds something else than samples: name a file that measure wrote")
    except OSError as error:
        return _refuse(f"{error.filename or 'a file'}: {error.strerror or error}: name another file, or make room")
    return found


def _refuse(text: str) -> int:
    print(f"bench.model: {' '.join(text.split())}", file=sys.stderr)
    return 2


def _parser() -> argparse.ArgumentParser:
    """Each command has the words that it heeds, and no others."""
    parser = Parser(prog="python -m bench.model", description=__doc__)
    kinds = parser.add_subparsers(required=True, metavar="measure|fit|errors|predict|metrics|substitute|table")
    for name, function in COMMANDS.items():
        one = kinds.add_parser(name, help=function.__doc__, description=function.__doc__)
        one.set_defaults(run=function, samples="", json=None, write=None)
        for option, (commands, given) in OPTIONS.items():
            if name in commands.split():
                one.add_argument(f"--{option}", **given)
    return parser


_SUITE = "measure errors substitute"  # those that measure calls
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {  # the commands that heed it, and what argparse is told
    "samples": ("measure fit errors", {
        "default": "model-samples.jsonl", "metavar": "FILE", "help": "default: %(default)s",
    }),
    "models": ("fit errors predict metrics substitute", {
        "default": "model-fits.json", "metavar": "FILE", "help": "default: %(default)s",
    }),
    "peers": ("measure fit errors predict metrics substitute", {
        "default": ",".join(PEERS), "help": "MPIs, with commas (default: all three)",
    }),
    "what": ("measure fit errors predict table", {
        "default": "", "help": "calls, with commas (default: all; measure --quick: ten; predict: one)",
    }),
    "kind": ("measure fit predict", {
        "default": "", "help": "bytes, doubles or objects (default: bytes for measure --what, else any)",
    }),
    "ranks": ("measure fit table predict", {
        "default": "",
        "help": "with commas (default: 2,3,4, with --quick 2,4; fit: those there are; predict: 2 alone)",
    }),
    "sizes": ("measure", {"default": "", "help": "lengths, with commas (default: 0 and powers of four)"}),
    "plain": ("measure", {
        "action": "store_true",
        "help": "these lengths alone, none at protocols' boundaries for the model in pieces, none at random for errors",
    }),
    "longest": ("measure table", {"default": "", "help": "length where none are named (default: 4m; quick: 1m)"}),
    "bytes": ("predict", {"default": "64K", "help": "the length (default: %(default)s)"}),
    "times": (_SUITE, {
        "type": int, "default": 0, "help": "measurements of each length (default: 150; quick: 50)",
    }),
    "pin": (f"{_SUITE} table", {"default": "0,1", "type": machine.two_cores, "help": "the cores (default: 0,1)"}),
    "quick": (f"{_SUITE} table", {
        "action": "store_true", "help": "fewer and shorter; measure: ten calls, 2 and 4 ranks, up to 1 MiB",
    }),
    "install": (_SUITE, {"action": "store_true", "help": "first install MPICH and Open MPI into bench/.venvs"}),
    "distance": (f"{_SUITE} fit", {
        "default": "", "choices": ("", *DISTANCES), "metavar": "|".join(DISTANCES),
        "help": "of the cores: measure and fit at this one alone",
    }),
    "patience": (_SUITE, {
        "type": float, "metavar": "SECONDS",
        "help": "for the cores to be at one distance and full speed; 0: as they are (default: 2; quick: 1)",
    }),
    "statistic": ("fit predict metrics substitute", {
        "default": fits.LEAST, "choices": (fits.LEAST, fits.MEDIAN),
        "help": "of the measurements (default: %(default)s; fit writes both, and prints this one)",
    }),
    "write": ("table", {"metavar": "FILE", "help": "write it (the shipped one only where it is named)"}),
    "json": ("errors substitute table", {"metavar": "FILE", "help": "write the results"}),
}  # fmt: skip


def _measure(said: argparse.Namespace) -> int:
    """run the micro-benchmark suite"""
    writable(said.samples)
    ranks = _ranks(said)
    if said.what:
        wanted = measure.named(said.what, said.kind or samples.BYTES)
    else:
        quick = [measure.Call(name, samples.BYTES) for name in measure.QUICK]
        wanted = [call for call in (quick if said.quick else measure.FULL) if said.kind in ("", call.kind)]
        if not wanted:
            raise Unfit(f"--kind {said.kind}: the suite has none of that kind: name calls with --what")
    plain = sorted({0, *_lengths(said.sizes)}) if said.sizes else []
    longest = max(plain) if plain else _longest(said)
    suite, peers = _suite(said)
    there = measure.run(suite, list(measure.starts(peers, wanted, ranks)), longest, plain, said.samples, said.plain)
    print(f"{len(there)} samples in {said.samples}; next: python -m bench.model fit --samples {said.samples}")
    return 0 if there else 1


def _fit(said: argparse.Namespace) -> int:
    """fit the models to the samples"""
    writable(said.models)
    found = fits.both(_chosen(said))
    fits.write(said.models, found)
    print(f"{len(found)} fits in {said.models}")
    print(metrics.report([each for each in found if each.statistic == said.statistic]))
    return 0


def _errors(said: argparse.Namespace) -> int:
    """tell how wrong the models are at random lengths that no fit has seen"""
    known = fits.read(said.models)
    known = [f for f in known if not said.what or f.what in said.what.split(",")]
    if not known:
        raise Unfit(f"{said.models} has no model of {said.what}: leave --what out, or measure and fit it")
    taken = samples.read(said.samples)
    suite, peers = _suite(said)
    found = errors.run(suite, known, peers, taken)
    if not found:
        raise Unfit(f"{said.samples} has no unseen lengths of these calls: see what was skipped above, measure again")
    print(errors.report(found))
    if said.json:
        record.write(said.json, {"errors": found, "skipped": suite.skipped})
    return 0


def _predict(said: argparse.Namespace) -> int:
    """tell a call's time on so many ranks"""
    if not said.what:
        raise Unfit("predict what? say --what bcast")
    known = fits.read(said.models)
    length, ranks = _length(said.bytes), _numbers(said.ranks or "2")[0]
    rows = []
    unseen = ""
    for name in dict.fromkeys(each.mpi for each in _of_peers(known, said)):
        one = fits.find(known, name, said.what, said.kind or None, said.statistic)
        told = []
        for model in fits.MODELS:
            try:
                told.append(table.number(one.predict(model, length, ranks)))
            except Unfit as error:
                told.append("-")
                unseen = str(error)
        rows.append([name, *told])
    print(f"{said.what} of {sizes.name(length)} on {ranks} ranks, us")
    print(table.lines(["mpi", *fits.MODELS], rows))
    if unseen:
        print(unseen, file=sys.stderr)
    return 0


def _metrics(said: argparse.Namespace) -> int:
    """tell parameters and peaks, as tables 2.1 to 2.4"""
    known = [each for each in fits.read(said.models) if each.statistic == said.statistic]
    print(metrics.report(_of_peers(known, said)))
    return 0


def _substitute(said: argparse.Namespace) -> int:
    """tell where two calls are cheaper than one, and measure both"""
    known = [each for each in fits.read(said.models) if each.statistic == said.statistic]
    suite, peers = _suite(said)
    found = substitute.run(suite, known, peers, said.statistic)
    if not found:
        raise Unfit(f"{said.models} has no primitive together with its parts: measure and fit {substitute.NEEDED}")
    print(substitute.report(found))
    if said.json:
        record.write(said.json, {"pairs": found, "skipped": suite.skipped})
    return 0


def _table(said: argparse.Namespace) -> int:
    """write a selection table from models of the algorithms, and compare it with the tuned one"""
    ranks, longest = _ranks(said), _longest(said)
    if said.write:
        choosing.check_file(said.write)
    found = choosing.run(said.pin, said.what, ranks, longest, said.quick)
    if said.write:
        choosing.write(said.write, found)
    print(choosing.report(found))
    if said.json:
        seconds = {"models": found.took, "tuning": found.tuning}
        record.write(said.json, {"choices": found.choices, "settled": found.settled, "seconds": seconds})
    return 0


COMMANDS = {
    "measure": _measure, "fit": _fit, "errors": _errors, "predict": _predict, "metrics": _metrics,
    "substitute": _substitute, "table": _table,
}  # fmt: skip


def _suite(said: argparse.Namespace) -> tuple[measure.Suite, list[mpi.Mpi]]:
    skipped = Skipped()
    names = said.peers.split(",")
    if unknown := [name for name in names if name not in THERE_ARE]:
        raise Unfit(f"--peers {unknown[0]}: there is no such MPI; there are {', '.join(THERE_ARE)}")
    if said.times < 0:
        raise Unfit(f"--times {said.times}: say how often each length is measured")
    if said.install:
        for name in mpi.OTHERS:
            mpi.install(name)
    peers = []
    for name in names:
        try:
            peers.append(mpi.find(name))
        except Unusable as error:
            skipped.add(name, str(error))
    if not peers:
        raise Unfit(f"none of {said.peers} can run here: name others with --peers, or --install them")
    times = said.times or (50 if said.quick else 150)
    patience = said.patience if said.patience is not None else 1.0 if said.quick else 2.0
    plan = measure.Plan(said.pin, times, measure.seconds(said.quick), said.distance, patience)
    return measure.Suite(plan, skipped), peers


def _of_peers(known: Sequence[Fit], said: argparse.Namespace) -> list[Fit]:
    """The fits of the MPIs that were named. Raises Unfit where there are none."""
    found = [each for each in known if each.mpi in said.peers.split(",")]
    if not found:
        there = ", ".join(dict.fromkeys(each.mpi for each in known)) or "nothing"
        raise Unfit(f"{said.models} has no model of {said.peers}, but of {there}: name these with --peers")
    return found


def _chosen(said: argparse.Namespace) -> list[Sample]:
    found = [s for s in samples.read(said.samples) if s.mpi in said.peers.split(",")]
    if said.distance:
        found = [s for s in found if s.distance == said.distance]
    if said.what:
        found = [s for s in found if s.what in said.what.split(",")]
    if said.kind:
        found = [s for s in found if s.kind == said.kind]
    if said.ranks:
        numbers = _numbers(said.ranks)
        found = [s for s in found if s.ranks in numbers]
    if not found:
        raise Unfit(f"{said.samples} has no such samples: leave out what narrows them, or measure them")
    return found


def _ranks(said: argparse.Namespace) -> list[int]:
    return _numbers(said.ranks or ("2,4" if said.quick else "2,3,4"))


def _numbers(text: str) -> list[int]:
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        raise Unfit(f"--ranks {text}: say numbers with commas between, as 2,4") from None
    if min(found) < 2:
        raise Unfit(f"--ranks {text}: a message needs at least two ranks")
    return found


def _length(text: str) -> int:
    return _lengths(text)[0]


def _lengths(text: str) -> list[int]:
    try:
        return [0 if word == "0" else sizes.parse(word)[0] for word in text.split(",")]
    except ValueError:
        raise Unfit(f"{text}: say lengths as 0,8,64k,1m") from None


def _longest(said: argparse.Namespace) -> int:
    return _length(said.longest or ("1m" if said.quick else "4m"))
