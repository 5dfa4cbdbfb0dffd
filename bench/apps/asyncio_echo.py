"""asyncio streams: an echo server and a client that asks again as soon as it has its answer."""

from __future__ import annotations

import asyncio

import program

REQUEST = 1024  # bytes
CLIENTS = 8


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    program.announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def ask(port: int, size: int, seconds: float) -> float:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b"e" * size

    async def call() -> None:
        writer.write(data)
        assert len(await reader.readexactly(size)) == size

    found = await program.rate_async(call, seconds)
    writer.close()
    await writer.wait_closed()
    return found


async def ask_together(port: int, seconds: float) -> float:
    return sum(await asyncio.gather(*(ask(port, REQUEST, seconds) for _ in range(CLIENTS))))


async def measure(port: int, seconds: float) -> None:
    small = await ask(port, REQUEST, seconds)
    together = await ask_together(port, seconds)
    large = await ask(port, program.LARGE, seconds)
    # a large block makes the C library keep the memory into which asyncio receives, also on plain TCP
    behind = await ask_together(port, seconds)
    program.report(small, large, together=together, behind=behind)


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(serve())
    with program.Server() as server:
        asyncio.run(measure(server.port, options.seconds))


if __name__ == "__main__":
    main()
