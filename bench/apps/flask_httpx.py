"""Flask's development server, fetched by httpx. That server speaks HTTP/1.0: a new connection for each request."""

from __future__ import annotations

import logging

import flask
import httpx
import program
from werkzeug.serving import make_server

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


def serve() -> None:
    application = flask.Flask(__name__)
    for path, body in BODIES.items():
        application.add_url_rule(path, path, lambda body=body: body)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # what `flask run` starts
    server = make_server("127.0.0.1", 0, application, threaded=True)
    program.announce(server.server_port)
    server.serve_forever()


def main() -> None:
    options = program.arguments()
    if options.serve:
        return serve()
    with (
        program.Server() as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client,
    ):

        def fetch(path: str) -> None:
            assert len(client.get(path).content) == len(BODIES[path])

        program.report(
            small=program.rate(lambda: fetch("/small"), options.seconds),
            large=program.rate(lambda: fetch("/large"), options.seconds),
        )


if __name__ == "__main__":
    main()
