"""Does dask gain by fastsock:// addresses alone, beside its own tcp://, without the launcher?"""

from __future__ import annotations

import json
import statistics
import sys
from importlib import util
from pathlib import Path

from common import machine, programs, question, table
from common.placement import Placement
from common.process import Broken, Unusable
from common.question import Options
from common.target import Result

PROGRAM = Path(__file__).parent / "common" / "dask_rates.py"
SCHEMES = ("tcp", "fastsock")
LEAST = {
    "message": 1.2,
    "message of 1 MiB": 2.0,
    "small task": 1.2,
    "1 MiB between workers": 2.0,
}  # times tcp://'s rate


def measure(options: Options) -> list[Result]:
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in LEAST}  # of each turn: tcp, fastsock
    placement = Placement(options.cores)
    placed = ""
    for _ in range(options.times(1, 5)):
        machine.wait_until_idle()
        before = placement.probe()
        try:
            tcp, fast = (_run(scheme, options) for scheme in SCHEMES)
        except (Broken, Unusable) as error:
            options.skipped.add("dask", str(error))
            break
        placed = placement.name(before, placement.probe())
        for name, pairs in rates.items():
            pairs.append((tcp[name], fast[name]))
    return [
        question.ratio(
            f"dask, {name}",
            _ratio(pairs),
            options.skipped,
            "dask",
            at_least=LEAST[name],
            cores=placed,
            note=_told(pairs),
        )
        for name, pairs in rates.items()
    ]


def _run(scheme: str, options: Options) -> dict[str, float]:
    if util.find_spec("distributed") is None:
        raise Unusable("needs the package distributed")
    seconds = options.pick(0.5, 2.0)
    command = [sys.executable, str(PROGRAM), scheme, "--seconds", str(seconds)]
    out, _ = programs.finish([*command, "--cores", ",".join(map(str, options.cores))], timeout=120)
    rates: dict[str, float] = json.loads(out.strip().splitlines()[-1])
    return rates


def _ratio(pairs: list[tuple[float, float]]) -> float | None:
    return statistics.median(fast / tcp for tcp, fast in pairs) if pairs else None


def _told(pairs: list[tuple[float, float]]) -> str:
    if not pairs:
        return ""
    tcp, fast = (table.number(statistics.median(side)) for side in zip(*pairs, strict=True))
    return f"tcp:// {tcp}, fastsock:// {fast} a second"


if __name__ == "__main__":
    question.run(measure, __doc__)
