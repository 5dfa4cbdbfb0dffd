"""gunicorn with a worker of threads, fetched by http.client over kept connections."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable

import program
from gunicorn.app.base import BaseApplication

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


def application(environ: dict[str, str], start_response: Callable[..., object]) -> Iterable[bytes]:
    body = BODIES[environ["PATH_INFO"]]
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


class Gunicorn(BaseApplication):  # type: ignore[misc]
    def load_config(self) -> None:
        settings = {
            "bind": "127.0.0.1:0",
            "worker_class": "gthread",
            "threads": 4,
            "keepalive": 60,
            "loglevel": "error",
        }
        settings["graceful_timeout"] = 1
        settings["when_ready"] = lambda server: program.announce(server.LISTENERS[0].sock.getsockname()[1])
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> object:
        return application


def main() -> None:
    options = program.arguments()
    if options.serve:
        return Gunicorn().run()
    with program.Server() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)

        def fetch(path: str) -> None:
            connection.request("GET", path)
            assert len(connection.getresponse().read()) == len(BODIES[path])

        program.report(
            small=program.rate(lambda: fetch("/small"), options.seconds),
            large=program.rate(lambda: fetch("/large"), options.seconds),
        )
        connection.close()


if __name__ == "__main__":
    main()
