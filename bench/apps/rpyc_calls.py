"""rpyc: calls of a method of a service, one connection, one thread."""

from __future__ import annotations

import program
import rpyc
from rpyc.utils.server import ThreadedServer


class Echo(rpyc.Service):  # type: ignore[misc]
    def exposed_echo(self, body: bytes) -> bytes:
        return body


def serve() -> None:
    server = ThreadedServer(Echo, hostname="127.0.0.1", port=0)
    program.announce(server.port)
    server.start()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with program.Server() as server:
        connection = rpyc.connect("127.0.0.1", server.port)
        small, large = b"s" * program.SMALL, b"l" * program.LARGE

        def call(body: bytes) -> None:
            assert len(connection.root.echo(body)) == len(body)

        program.report(
            small=program.rate(lambda: call(small), options.seconds),
            large=program.rate(lambda: call(large), options.seconds),
        )
        connection.close()


if __name__ == "__main__":
    main()
