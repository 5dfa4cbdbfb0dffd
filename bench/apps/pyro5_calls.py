"""Pyro5: a remote object, called through its proxy; marshal carries the bytes."""

from __future__ import annotations

import program
import Pyro5.api

Pyro5.config.SERIALIZER = "marshal"  # type: ignore[attr-defined]


@Pyro5.api.expose
class Store:
    def add(self, a: int, b: int) -> int:
        return a + b

    def echo(self, data: bytes) -> bytes:
        return data


def serve() -> None:
    with Pyro5.api.Daemon(host="127.0.0.1") as daemon:
        daemon.register(Store, "store")
        program.announce(int(daemon.locationStr.rpartition(":")[2]))
        daemon.requestLoop()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    data = b"l" * program.LARGE
    with program.Server() as server, Pyro5.api.Proxy(f"PYRO:store@127.0.0.1:{server.port}") as store:
        assert store.add(1, 2) == 3 and bytes(store.echo(data)) == data
        program.report(
            small=program.rate(lambda: store.add(1, 2), options.seconds),
            large=program.rate(lambda: store.echo(data), options.seconds),
        )


if __name__ == "__main__":
    main()
