"""uvicorn on asyncio, fetched by httpx over kept connections."""

from __future__ import annotations

import asyncio

import asgi
import httpx
import program


async def measure(port: int, seconds: float) -> None:
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:

        async def fetch(path: str) -> None:
            assert len((await client.get(path)).content) == len(asgi.BODIES[path])

        program.report(
            small=await program.rate_async(lambda: fetch("/small"), seconds),
            large=await program.rate_async(lambda: fetch("/large"), seconds),
        )


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(asgi.serve())
    with program.Server() as server:
        asyncio.run(measure(server.port, options.seconds))


if __name__ == "__main__":
    main()
