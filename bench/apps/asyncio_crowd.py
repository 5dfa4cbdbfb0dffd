"""asyncio: many connections made at once; then one that asks while many others are open and silent."""

from __future__ import annotations

import asyncio
import json
import resource
import time

import program

AT_ONCE = 2500  # connections
SILENT = 1000


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0, backlog=2 * AT_ONCE)
    program.announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


class Client:
    async def open(self, port: int) -> Client:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self) -> None:
        self.writer.write(b"x")
        assert await self.reader.readexactly(1) == b"x"

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def once(port: int) -> None:
    client = await Client().open(port)
    await client.ask()
    await client.close()


async def made_at_once(port: int, seconds: float) -> float:
    """Connections a second: each is made, carries a byte there and back, and is closed."""
    count, elapsed, start = 0, 0.0, time.perf_counter()
    while elapsed < seconds:
        await asyncio.gather(*(once(port) for _ in range(AT_ONCE)))
        count += AT_ONCE
        elapsed = time.perf_counter() - start
    return count / elapsed


async def among_silent(port: int, seconds: float) -> float:
    """Requests a second of one connection, while SILENT others are open."""
    clients = [await Client().open(port) for _ in range(SILENT)]
    for client in clients:
        await client.ask()
    found = await program.rate_async(clients[0].ask, seconds)
    await asyncio.gather(*(client.close() for client in clients))
    return found


async def measure(port: int, seconds: float) -> None:
    made = await made_at_once(port, seconds)
    asked = await among_silent(port, seconds)
    print(json.dumps({"made at once": made, "one among silent ones": asked}), flush=True)


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options = program.arguments()
    if options.serve:
        return asyncio.run(serve())
    with program.Server() as server:
        asyncio.run(measure(server.port, options.seconds))


if __name__ == "__main__":
    main()
