"""An object of another process, that calls back: who waits for its answer runs what it calls.

python examples/remote_callbacks.py
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.synchronize import Event

from fastsock import rmi


@rmi.expose
class Solver:
    """Halves an interval, and tells of each step."""

    def root(self, function: Callable[[float], float], low: float, high: float, told: Callable[[float], None]) -> float:
        while high - low > 1e-3:
            middle = (low + high) / 2
            told(middle)
            low, high = (low, middle) if function(middle) > 0 else (middle, high)
        return (low + high) / 2


def serve(ready: Event, done: Event) -> None:
    with rmi.Daemon() as daemon:
        daemon.register(Solver(), "example-solver")
        daemon.start()
        ready.set()
        done.wait()


def main() -> None:
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    server = multiprocessing.Process(target=serve, args=(ready, done))
    server.start()
    ready.wait()
    steps: list[float] = []
    with rmi.closing(rmi.connect("rmi:example-solver", Solver, timeout=10.0)) as solver:
        found = solver.root(rmi.callback(lambda x: x * x - 2), 0.0, 2.0, rmi.callback(steps.append))
    print(f"the root of 2 is about {found:.3f}, after {len(steps)} steps")
    done.set()
    server.join()


if __name__ == "__main__":
    main()
