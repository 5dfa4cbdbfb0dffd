"""http.server with one thread a connection, fetched by urllib: a new connection for each request."""

from __future__ import annotations

import http.server
import urllib.request

import program

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = BODIES[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Print nothing."""


def serve() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        program.announce(server.server_port)
        server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with program.Server() as server:

        def fetch(path: str) -> None:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}") as response:
                assert len(response.read()) == len(BODIES[path])

        program.report(
            small=program.rate(lambda: fetch("/small"), options.seconds),
            large=program.rate(lambda: fetch("/large"), options.seconds),
        )


if __name__ == "__main__":
    main()
