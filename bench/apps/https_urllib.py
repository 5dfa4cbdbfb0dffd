"""http.server over TLS with one thread a connection, fetched by urllib: a new connection for each request."""

from __future__ import annotations

import http.server
import urllib.request

import https
import program
from http_urllib import BODIES, Handler


def serve() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        # the handshake belongs to the connection's own thread
        server.socket = https.of_server().wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        program.announce(server.server_port)
        server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with https.certificates() as context, program.Server() as server:

        def fetch(path: str) -> None:
            with urllib.request.urlopen(f"https://127.0.0.1:{server.port}{path}", context=context) as response:
                assert len(response.read()) == len(BODIES[path])

        program.report(
            small=program.rate(lambda: fetch("/small"), options.seconds),
            large=program.rate(lambda: fetch("/large"), options.seconds),
        )


if __name__ == "__main__":
    main()
