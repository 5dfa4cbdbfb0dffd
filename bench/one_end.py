"""One end alone under `fastsock run`, and the other one plain: what is lost. redis and redis-benchmark."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from statistics import median

from any_program import RUN, rate, server
from common import question
from common.question import Options
from common.target import Result

LOADS = {"-c 1": 15_000, "-c 50": 60_000, "-c 50 -P 16": 300_000}
WAYS = {"the server": (True, False), "the client": (False, True), "both plain": (False, False)}
LEAST = 0.99


def measure(options: Options) -> list[Result]:
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        return [Result(f"redis GET, {load}", None, "x", note="redis is not installed") for load in LOADS]
    rates: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = {fast: stack.enter_context(server(folder, RUN if fast else []))[:2] for fast in (False, True)}
        for _ in range(options.times(5, 9)):
            for load, requests in LOADS.items():
                for way, (server_is_fast, client_is_fast) in WAYS.items():
                    one = rate(RUN if client_is_fast else [], servers[server_is_fast], load, requests)
                    rates.setdefault((load, way), []).append(one)
    results = []
    for load in LOADS:
        plain = median(rates[load, "both plain"])
        for way in ("the server", "the client"):
            ours = median(rates[load, way])
            note = f"both plain {plain / 1000:,.0f}k/s, {way} alone under fastsock {ours / 1000:,.0f}k/s"
            results.append(Result(f"redis GET, {load}, {way} alone", ours / plain, "x", at_least=LEAST, note=note))
    return results


if __name__ == "__main__":
    question.run(measure, __doc__)
