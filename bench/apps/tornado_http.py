"""tornado: its HTTP server and its own client."""

from __future__ import annotations

import asyncio

import program
import tornado.httpserver
import tornado.netutil
import tornado.web
from tornado.httpclient import AsyncHTTPClient

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


class Handler(tornado.web.RequestHandler):
    def get(self) -> None:
        self.write(BODIES[self.request.path])

    def compute_etag(self) -> None:
        """Do not hash the body for each request."""


async def serve() -> None:
    application = tornado.web.Application([("/.*", Handler)], log_function=lambda handler: None)
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(application).add_sockets(sockets)
    program.announce(sockets[0].getsockname()[1])
    await asyncio.Event().wait()


async def measure(port: int, seconds: float) -> None:
    client = AsyncHTTPClient()

    async def fetch(path: str) -> None:
        response = await client.fetch(f"http://127.0.0.1:{port}{path}")
        assert len(response.body) == len(BODIES[path])

    program.report(
        small=await program.rate_async(lambda: fetch("/small"), seconds),
        large=await program.rate_async(lambda: fetch("/large"), seconds),
    )


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(serve())
    with program.Server() as server:
        asyncio.run(measure(server.port, options.seconds))


if __name__ == "__main__":
    main()
