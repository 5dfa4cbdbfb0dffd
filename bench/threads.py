"""Do threads scale? Each has a connection of its own, both ends: with the interpreter's lock and without it.

Needs a free-threaded Python for the second half. A turn is one process with the lock and one without, one after the
other; each measures one thread, then as many as asked for, over shared memory and over plain TCP, which shows what the
machine's cores have to give. A round sends so many bytes and receives them: no wait, so what is measured is the call.
Ratios are taken within a turn, and the median of them is told.
"""

from __future__ import annotations

import argparse
import json
import os
import socket as plain
import statistics
import subprocess
import sys
import sysconfig
import threading
import time
from typing import Any

SIZES = (1, 1024, 16384)
LOCKED, FREE = "with the lock", "without it"
SHM, PLAIN = "shm", "plain TCP"


def connection(path: str) -> tuple[Any, Any]:
    """Both ends of one that takes that path."""
    if path == PLAIN:
        with plain.create_server(("127.0.0.1", 0)) as listener:
            return plain.create_connection(listener.getsockname()), listener.accept()[0]
    import fastsock
    from fastsock import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[Any] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]))
        thread.start()
        near = socket.create_connection(listener.getsockname())
        thread.join()
        settling = threading.Thread(target=fastsock.attach, args=(accepted[0], 5))
        settling.start()
        fastsock.attach(near, 5)
        settling.join()
    if near.transport != "shm":
        sys.exit(f"the connection took {near.transport}, not shm: see fastsock doctor")
    return near, accepted[0]


def rounds_a_second(path: str, threads: int, size: int, seconds: float) -> float:
    """Of all threads together."""
    ends = [connection(path) for _ in range(threads)]
    start = threading.Barrier(threads + 1)
    running, counts = [True], [0] * threads

    def work(which: int) -> None:
        near, far = ends[which]
        data, room, done = b"x" * size, bytearray(size), 0
        send, recv_into = near.send, far.recv_into
        start.wait()
        while running:
            for _ in range(64):
                send(data)
                recv_into(room)
            done += 64
        counts[which] = done

    workers = [threading.Thread(target=work, args=(which,)) for which in range(threads)]
    for worker in workers:
        worker.start()
    start.wait()
    began = time.perf_counter()
    time.sleep(seconds)
    running.clear()
    for worker in workers:
        worker.join()
    elapsed = time.perf_counter() - began
    for near, far in ends:
        near.close()
        far.close()
    return sum(counts) / elapsed


def measure(many: int, seconds: float) -> dict[str, Any]:
    """In a process of its own: rounds a second of one thread and of many; and whether there was a lock."""
    found = {
        path: {str(size): [rounds_a_second(path, count, size, seconds) for count in (1, many)] for size in SIZES}
        for path in (SHM, PLAIN)
    }
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()  # asked last: a module may have brought it back
    return {"locked": locked, "paths": found}


def child(locked: bool, many: int, seconds: float) -> dict[str, Any]:
    options = [f"-Xgil={int(locked)}"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []
    command = [sys.executable, *options, __file__, "--measure", str(seconds), "--threads", str(many)]
    environment = {**os.environ, "FASTSOCK_TRANSPORTS": "shm,tcp"}
    found = json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)
    if found["locked"] != locked:
        sys.exit("a module brought the interpreter's lock back")
    return found["paths"]  # type: ignore[no-any-return]


def described(turns: list[dict[str, Any]], many: int) -> str:
    out = [
        f"{'bytes':>6}  {'path':9}  {'':13} {'one thread':>14} {many:>3} threads   times  one thread, beside the lock"
    ]
    for path in (SHM, PLAIN):
        for size in map(str, SIZES):
            for way in turns[0]:
                rates = [turn[way][path][size] for turn in turns]
                one, all_ = (statistics.median(rate[which] for rate in rates) for which in (0, 1))
                scaling = statistics.median(rate[1] / rate[0] for rate in rates)
                beside = statistics.median(turn[way][path][size][0] / turn[LOCKED][path][size][0] for turn in turns)
                line = f"{size:>6}  {path:9}  {way:13} {one:12.0f}/s {all_:9.0f}/s  {scaling:5.2f}  {beside:6.2f}"
                out.append(line)
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 8), help="default: %(default)s")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--measure", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(measure(options.threads, options.measure)))
        return
    ways = [LOCKED, *([FREE] if sysconfig.get_config_var("Py_GIL_DISABLED") else [])]
    seconds, count = (0.5, 3) if options.quick else (1.0, 7)
    turns = [{way: child(way == LOCKED, options.threads, seconds) for way in ways} for _ in range(count)]
    print(described(turns, options.threads))
    if FREE not in ways:
        print("this Python always has the lock: a free-threaded one shows the other half")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(turns, file)


if __name__ == "__main__":
    main()
