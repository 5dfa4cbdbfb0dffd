"""aiohttp: its server and its client, connections kept."""

from __future__ import annotations

import asyncio

import aiohttp
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
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    program.announce(runner.addresses[0][1])
    await asyncio.Event().wait()


async def measure(port: int, seconds: float) -> None:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:

        async def fetch(path: str) -> None:
            async with session.get(path) as response:
                assert len(await response.read()) == len(BODIES[path])

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
