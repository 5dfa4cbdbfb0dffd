"""Calls where the processors are scarce: a server that also computes, both ends on one core, eight clients on two."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from . import question, summary
from .interleave import Turns
from .pair import Pair
from .peers.remote_calls import ADD, Caller
from .placement import Placement
from .process import Broken, Process, Unusable
from .question import Options
from .target import Result

CLIENTS = 8
BUSY, ONE_CORE, MANY = "busy thread in the server", "both ends on one core", f"{CLIENTS} clients on two cores"
BARS = {BUSY: 50, ONE_CORE: 2, MANY: 2}


def results(options: Options, make: Callable[[], Caller], make_other: Callable[[], Caller]) -> list[Result]:
    """How many times as fast the first peer's add(1, 2) is as the second's."""
    turns = Turns(Placement(options.cores), options.skipped)
    with ExitStack() as opened:
        measures: dict[str, list[tuple[str, Callable[[], float]]]] = {BUSY: [], ONE_CORE: [], MANY: []}
        for peer in (make(), make_other()):
            if peer.name in options.skipped:
                continue
            try:
                _open(options, peer, opened, measures)
            except (Broken, Unusable) as error:
                options.skipped.add(peer.name, str(error))
        for turn in range(options.times(1, 5) + 1):
            for what, runs in measures.items():
                turns.take(what, 0, runs, keep=turn > 0)
    own, other = make().name, make_other().name
    found = {what: summary.compare_here(turns.samples, what, 0, own, other) for what in BARS}
    return [
        question.ratio(
            f"add(1, 2), {what}: times as fast as {other}",
            found[what][0],
            options.skipped,
            other,
            at_least=bar if found[what][1] or found[what][0] is None else None,
            cores=summary.placements(turns.samples, what, 0),
            note=summary.medians(turns.samples, what, 0),
        )
        for what, bar in BARS.items()
    ]


def _open(
    options: Options,
    peer: Caller,
    opened: ExitStack,
    measures: dict[str, list[tuple[str, Callable[[], float]]]],
) -> None:
    for what, cores in ((BUSY, options.cores), (ONE_CORE, (options.cores[0], options.cores[0]))):
        pair = Pair(peer, cores)
        opened.callback(pair.close)
        if what == BUSY:
            pair.other.call("keep_busy")
        count = options.times(10, 50) if what == BUSY else options.times(200, 2000)
        measures[what].append((peer.name, lambda pair=pair, count=count: _one(pair.near, count)))  # type: ignore[misc]
    everywhere = set(options.cores)
    server = Process(lambda: peer, cores=everywhere, environment=peer.environment)
    opened.callback(server.close)
    address = server.call("listen")
    clients = []
    for _ in range(CLIENTS):
        client = Process(lambda: peer, cores=everywhere, environment=peer.environment)
        opened.callback(client.close)
        client.call("connect", address)
        clients.append(client)
    measures[MANY].append((peer.name, lambda: _all(clients, options.times(50, 500))))


def _one(client: Process, count: int) -> float:
    """Microseconds a call."""
    return float(client.call("measure", ADD, count) / count * 1e6)


def _all(clients: list[Process], count: int) -> float:
    """Microseconds a call, of all clients at the same time."""
    for client in clients:
        client.start("measure", ADD, count)
    return max(client.finish() for client in clients) / count / len(clients) * 1e6
