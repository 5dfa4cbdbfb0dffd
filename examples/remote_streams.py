"""A generator of another process: its arrays travel as they are read, and it stands still while nobody reads.

python examples/remote_streams.py
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np

from fastsock import rmi


@rmi.expose
class Field:
    """A field that changes with time."""

    def __init__(self) -> None:
        self.made = 0

    def frames(self) -> Iterator[Any]:
        frame = np.zeros((512, 512))
        while True:
            frame = frame + 1.0
            self.made += 1
            yield frame

    def count(self) -> int:
        return self.made


def serve(ready: Event, done: Event) -> None:
    with rmi.Daemon() as daemon:
        daemon.register(Field(), "example-field")
        daemon.start()
        ready.set()
        done.wait()


def main() -> None:
    ready, done = multiprocessing.Event(), multiprocessing.Event()
    server = multiprocessing.Process(target=serve, args=(ready, done))
    server.start()
    ready.wait()
    with rmi.closing(rmi.connect("rmi:example-field", Field)) as field:
        for number, frame in enumerate(field.frames()):
            print(f"frame {number}: mean {frame.mean():.0f}")
            if number == 4:
                break  # the generator there is closed
        print(f"{field.count()} frames were made: a few ahead of those that were read, and no more")
    done.set()
    server.join()


if __name__ == "__main__":
    main()
