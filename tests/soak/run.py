"""Runs the soak on one path and tells what was found."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import select
import threading
import time
from typing import Any

from fastsock import config
from fastsock.testing import FarProcess, PairMaker
from fastsock.testing.outcomes import describe

from . import leaks
from .connection import GONE, Plan, converse, serve

PER_PROCESS = 25  # connections of one client process
# KiB that are no leak: what is remembered of closed connections, pages that the allocator keeps, rings kept for reuse.
# descriptors: two that ask (abstract.c), one for each segment kept for another process (shm.py)
SLACK = {"memory": 40_000, "shared": 24_000, "descriptors": 10}


@dataclasses.dataclass
class Result:
    """What a soak did. `problems` is empty when all was well."""

    connections: int
    bytes: int
    deaths: int
    by_transport: dict[str, int]
    before: leaks.Holding
    after: leaks.Holding
    problems: list[str]

    def __str__(self) -> str:
        paths = ", ".join(f"{count} {name}" for name, count in sorted(self.by_transport.items()))
        text = (
            f"{self.connections} connections ({paths}), {self.bytes / 1e9:.2f} GB, {self.deaths} processes killed\n"
            f"server before: {self.before}\nserver after:  {self.after}\n"
        )
        return text + "".join(f"PROBLEM: {each}\n" for each in self.problems or []) + f"{len(self.problems)} problems"


# The server


def _start_server(here: Any, maker: PairMaker, backlog: int, most: int) -> Any:
    here.listener = maker.listener(backlog=backlog)
    here.problems, here.served, here.active = [], itertools.count(), set()
    here.transports, here.lock = {}, threading.Lock()
    threading.Thread(target=_accept_for_ever, args=(here, most), daemon=True).start()
    return here.listener.getsockname()


def _accept_for_ever(here: Any, most: int) -> None:
    while True:
        sock, address = here.listener.accept()
        name = getattr(sock, "transport", "plain")
        here.transports[name] = here.transports.get(name, 0) + 1
        thread = threading.Thread(target=_serve_one, args=(here, sock, most, address), daemon=True)
        with here.lock:
            here.active.add(thread)
            thread.start()


def _serve_one(here: Any, sock: Any, most: int, address: Any) -> None:
    try:
        # Gone: the client reset it or was killed, as its plan or the run meant it to.
        with contextlib.suppress(GONE):
            serve(sock, most)
    except AssertionError as error:
        # A client that was killed ends its stream anywhere; a wrong byte is a problem whoever died.
        if "ended after" not in str(error):
            here.problems.append(f"server, client {address}: {error}")
    except BaseException as error:
        here.problems.append(f"server, client {address}: {error!r}")
    finally:
        with here.lock:
            here.active.discard(threading.current_thread())


def _wait_until_idle(here: Any) -> None:
    import gc

    with here.lock:
        active = list(here.active)
    for thread in active:
        thread.join(60)
        if thread.is_alive():
            here.problems.append(f"{thread.name} still serves a connection whose client has gone")
    gc.collect()


def _report(here: Any) -> Any:
    return here.problems, here.transports


# The clients


def _run_clients(here: Any, maker: PairMaker, address: Any, seeds: list[int], end: float, most: int) -> Any:
    """Threads that open one connection after the other until the time is over."""
    problems: list[str] = []
    totals = {"connections": 0, "bytes": 0}
    lock = threading.Lock()

    def client(seed: int) -> None:
        chooser = random.Random(seed)
        while time.monotonic() < end and not problems:
            plan = Plan(chooser.getrandbits(40), most)
            try:
                moved = converse(maker.connect(address), plan)
            except BaseException as error:
                text = describe(error) if isinstance(error, OSError) else repr(error)
                problems.append(f"client, {plan.ending}, {plan.upward} up, {plan.downward} down: {text}")
                return
            with lock:
                totals["connections"] += 1
                totals["bytes"] += moved

    threads = [threading.Thread(target=client, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return problems, totals


def soak(maker: PairMaker, seconds: float, connections: int, seed: int = 1, most: int = 2 << 20) -> Result:
    """Run the soak. most: upper bound of the bytes that one connection carries each way."""
    chooser = random.Random(seed)
    # the server accepts in one of hundreds of threads: offers that lapse would only try plain TCP
    config.configure(meeting_ms=30_000)
    result = Result(0, 0, 0, {}, None, None, [])  # type: ignore[arg-type]
    with FarProcess() as server:
        address = server.run(_start_server, maker, connections * 2, most)
        # The first connections fill caches of the interpreter: they are not leaks.
        _round(server, maker, address, min(2.0, seconds / 4), connections, chooser, result, most)
        result.before = leaks.holding(server.pid)
        _round(server, maker, address, seconds, connections, chooser, result, most)
        result.after = leaks.settled(server.pid, result.before)
        problems, result.by_transport = server.run(_report)
        result.problems += problems
    _compare(result)
    return result


def _round(
    server: FarProcess, maker: PairMaker, address: Any, seconds: float, connections: int, chooser: random.Random,
    result: Result, most: int,
) -> None:  # fmt: skip
    """Keep the connections busy for a time; replace a random client process by a new one now and then."""
    end = time.monotonic() + seconds
    clients: dict[FarProcess, Any] = {}

    def start(count: int) -> None:
        process = FarProcess()
        seeds = [chooser.getrandbits(32) for _ in range(count)]
        clients[process] = process.begin(_run_clients, maker, address, seeds, end, most)

    for start_at in range(0, connections, PER_PROCESS):
        start(min(PER_PROCESS, connections - start_at))
    while time.monotonic() < end:
        pause = min(chooser.uniform(0.2, 1.5), max(0.0, end - time.monotonic()))
        # Paced by the clock on purpose: this is load, not synchronisation.
        ready, _, _ = select.select([process._answers for process in clients], [], [], pause)
        if ready:
            break  # a client has finished before its time: it has found a problem
        victim = chooser.choice(list(clients))
        victim.kill()
        victim.wait()
        victim.close()
        clients.pop(victim)
        result.deaths += 1
        if time.monotonic() < end:
            start(PER_PROCESS)
    for process, pending in clients.items():
        problems, totals = pending.result(120)
        result.problems += problems
        result.connections += totals["connections"]
        result.bytes += totals["bytes"]
        process.close()
    server.run(_wait_until_idle)


def _compare(result: Result) -> None:
    before, after = result.before, result.after
    for field in dataclasses.fields(before):
        name, was, now = field.name, getattr(before, field.name), getattr(after, field.name)
        if now > was + SLACK.get(name, 0):
            result.problems.append(f"{name} of the server grew from {was} to {now}")


def main(arguments: Any) -> int:
    """Run on each path that was asked for; the exit code is 1 when there was a problem."""
    from ..helpers.paths import preferring, why_not

    failed = False
    for path in arguments.path:
        if path == "plain":
            result = soak(PairMaker("socket"), arguments.minutes * 60, arguments.connections, arguments.seed)
        else:
            reason = why_not(path)
            if reason:
                print(f"{path}: skipped: {reason}")
                continue
            with preferring(path):
                maker = PairMaker("fastsock.socket", transport=path)
                result = soak(maker, arguments.minutes * 60, arguments.connections, arguments.seed)
        print(f"{path}: {result}", flush=True)
        failed = failed or bool(result.problems)
    return int(failed)
