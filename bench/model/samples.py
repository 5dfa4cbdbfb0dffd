"""What was measured: one record a line, so that a run that was cut off goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

BYTES, DOUBLES, OBJECTS = "bytes", "doubles", "objects"
BEGINNING = b'{"mpi": "'  # of each line


class Unfit(Exception):
    """The user's mistake, in one line that says what to do."""


@dataclass(frozen=True)
class Sample:
    """One length of one call, on one MPI and so many ranks."""

    mpi: str
    what: str  # "send", "bcast", "ibcast", "bcast=scatter+allgather", "bcast:binomial_tree"
    kind: str  # bytes, doubles or objects
    ranks: int
    size: int  # bytes
    least: float  # microseconds
    median: float
    ninety: float  # 90 % of the measurements took no longer
    count: int
    distance: str  # of the cores: near, far, ...
    machine: str
    asked: int = -1  # the length that was asked for: blocks and doubles are whole
    versions: dict[str, str] = field(default_factory=dict)
    clock: float = 0.0  # microseconds of reading the clock, already subtracted
    probe: float | None = None  # microseconds of a cache line there and back
    edge: bool = False  # beside a boundary of protocols: for the model in pieces alone
    unseen: bool = False  # at a random length: tells how wrong the models are, and no fit sees it
    hidden: float | None = None  # share of a non-blocking call that work hides
    took: float = 0.0  # seconds of the whole start that measured it, shared among its samples
    pace: float = 0.0  # microseconds of the probe's work, at most, while it was measured
    full: float = 0.0  # and at the cores' full speed


def read(file: str) -> list[Sample]:
    """The records of a file. Raises Unfit where there are none."""
    try:
        whole = Path(file).read_bytes()
    except OSError as error:
        raise Unfit(f"{file}: {error.strerror}: run `python -m bench.model measure --samples {file}` first") from None
    found, _ = _records(file, whole)
    if not found:
        raise Unfit(f"{file} is empty: run `python -m bench.model measure --samples {file}` first")
    return found


def resumed(file: str) -> list[Sample]:
    """The records that a run goes on behind: none where the file is missing or empty.

    The unfinished last line of a run that was killed is cut off. Raises Unfit where the file holds anything else, or
    cannot be written, and leaves it as it is.
    """
    try:
        with open(file, "ab+") as out:
            out.seek(0)
            whole = out.read()
            found, length = _records(file, whole)
            if length < len(whole):
                os.truncate(out.fileno(), length)
    except OSError as error:
        raise Unfit(f"{file}: {error.strerror}: name a file that can be written with --samples") from None
    return found


def _records(file: str, whole: bytes) -> tuple[list[Sample], int]:
    """The records in a file's bytes, and where the last whole line ends. Raises Unfit where there is anything else."""
    length = whole.rfind(b"\n") + 1
    try:
        found = [Sample(**json.loads(line)) for line in whole[:length].decode().splitlines() if line.strip()]
    except (ValueError, TypeError) as error:
        raise Unfit(f"{file} holds something else than samples ({error}): name a file that measure wrote") from None
    begun = whole[length : length + len(BEGINNING)]
    if begun and not BEGINNING.startswith(begun):
        raise Unfit(f"{file} holds something else than samples: name a file that measure wrote")
    return found, length


def append(file: str, samples: Iterable[Sample]) -> None:
    """Add records to the file's end."""
    with open(file, "a") as out:
        for sample in samples:
            out.write(json.dumps(asdict(sample)) + "\n")


def alike(samples: Sequence[Sample]) -> None:
    """Raise Unfit where samples of different machines, distances or versions would be mixed in one fit."""
    for name, advice in (
        ("machine", "fit the file of one machine"),
        ("distance", "choose with --distance"),
    ):
        several = sorted({str(getattr(sample, name)) for sample in samples})
        if len(several) > 1:
            raise Unfit(f"the samples are of different {name}s ({'; '.join(several)}): {advice}")
    for mpi in dict.fromkeys(sample.mpi for sample in samples):
        versions = {json.dumps(sample.versions, sort_keys=True) for sample in samples if sample.mpi == mpi}
        if len(versions) > 1:
            differ = difference([json.loads(text) for text in versions])
            raise Unfit(f"the samples of {mpi} are of different versions ({differ}): measure again into a fresh file")


def difference(versions: Sequence[dict[str, str]]) -> str:
    """What differs, in words; nothing where they are the same."""
    names = dict.fromkeys(name for each in versions for name in each)
    return "; ".join(
        f"{name} {', '.join(sorted(values))}"
        for name in names
        if len(values := {each.get(name, "unknown") for each in versions}) > 1
    )
