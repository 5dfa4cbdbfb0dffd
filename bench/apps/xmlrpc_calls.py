"""xmlrpc: calls over one kept connection; the large one carries its bytes as base64, as the protocol has it."""

from __future__ import annotations

import xmlrpc.client
import xmlrpc.server

import program


class Handler(xmlrpc.server.SimpleXMLRPCRequestHandler):
    protocol_version = "HTTP/1.1"  # keep the connection


def serve() -> None:
    with xmlrpc.server.SimpleXMLRPCServer(("127.0.0.1", 0), Handler, logRequests=False) as server:
        server.register_function(lambda a, b: a + b, "add")
        server.register_function(lambda data: len(data.data), "size")
        program.announce(server.server_address[1])
        server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    data = xmlrpc.client.Binary(b"l" * program.LARGE)
    with program.Server() as server, xmlrpc.client.ServerProxy(f"http://127.0.0.1:{server.port}") as proxy:
        assert proxy.add(1, 2) == 3 and proxy.size(data) == program.LARGE
        program.report(
            small=program.rate(lambda: proxy.add(1, 2), options.seconds),
            large=program.rate(lambda: proxy.size(data), options.seconds),
        )


if __name__ == "__main__":
    main()
