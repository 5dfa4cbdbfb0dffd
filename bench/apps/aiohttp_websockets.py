"""WebSockets by aiohttp: messages that come back, one connection."""

from __future__ import annotations

import asyncio

import aiohttp
import program
from aiohttp import web

MOST = 2 * program.LARGE


async def echo(request: web.Request) -> web.WebSocketResponse:
    answering = web.WebSocketResponse(max_msg_size=MOST, compress=False)
    await answering.prepare(request)
    async for message in answering:
        await answering.send_bytes(message.data)
    return answering


async def serve() -> None:
    application = web.Application()
    application.router.add_get("/", echo)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    program.announce(runner.addresses[0][1])
    await asyncio.Event().wait()


async def measure(port: int, seconds: float) -> None:
    small, large = b"s" * program.SMALL, b"l" * program.LARGE
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/", max_msg_size=MOST) as connection,
    ):

        async def call(body: bytes) -> None:
            await connection.send_bytes(body)
            assert len(await connection.receive_bytes()) == len(body)

        program.report(
            small=await program.rate_async(lambda: call(small), seconds),
            large=await program.rate_async(lambda: call(large), seconds),
        )


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(serve())
    with program.Server() as server:
        asyncio.run(measure(server.port, options.seconds))


if __name__ == "__main__":
    main()
