"""multiprocessing.managers over TCP: an object in a server process, called through its proxy."""

from __future__ import annotations

import os
from multiprocessing.managers import BaseManager

import program


class Store:
    def add(self, a: int, b: int) -> int:
        return a + b

    def echo(self, data: bytes) -> bytes:
        return data


class Manager(BaseManager):
    """Serves a Store."""


Manager.register("Store", Store)


def pin(cores: list[int] | None) -> None:
    if cores:
        os.sched_setaffinity(0, {cores[1]})


def main() -> None:
    options = program.arguments()
    manager = Manager(address=("127.0.0.1", 0), authkey=b"bench")
    manager.start(pin, (options.cores,))
    with manager:
        store = manager.Store()
        data = b"l" * program.LARGE
        assert store.add(1, 2) == 3 and store.echo(data) == data
        program.report(
            small=program.rate(lambda: store.add(1, 2), options.seconds),
            large=program.rate(lambda: store.echo(data), options.seconds),
        )


if __name__ == "__main__":
    main()
