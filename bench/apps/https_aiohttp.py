"""aiohttp over TLS: its server and its client, connections kept; and a new connection for each small request."""

from __future__ import annotations

import asyncio
import ssl

import aiohttp
import https
import program
from aiohttp import web

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


async def handle(request: web.Request) -> web.Response:
    return web.Response(body=BODIES[request.path])


async def serve() -> None:
    application = web.Application()
    application.router.add_get("/{name}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=https.of_server()).start()
    program.announce(runner.addresses[0][1])
    await asyncio.Event().wait()


async def measure(port: int, seconds: float, context: ssl.SSLContext) -> None:
    async def fetch(session: aiohttp.ClientSession, path: str) -> None:
        async with session.get(f"https://127.0.0.1:{port}{path}", ssl=context) as response:
            assert len(await response.read()) == len(BODIES[path])

    async with (
        aiohttp.ClientSession() as kept,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as each_anew,
    ):
        program.report(
            small=await program.rate_async(lambda: fetch(kept, "/small"), seconds),
            large=await program.rate_async(lambda: fetch(kept, "/large"), seconds),
            **{"small, new connections": await program.rate_async(lambda: fetch(each_anew, "/small"), seconds)},
        )


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(serve())
    with https.certificates() as context, program.Server() as server:
        asyncio.run(measure(server.port, options.seconds, context))


if __name__ == "__main__":
    main()
