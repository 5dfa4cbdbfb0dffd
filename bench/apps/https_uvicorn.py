"""uvicorn on asyncio over TLS, fetched by httpx: connections kept; and a new connection for each small request."""

from __future__ import annotations

import asyncio
import ssl

import asgi
import https
import httpx
import program


async def measure(port: int, seconds: float, context: ssl.SSLContext) -> None:
    address = f"https://127.0.0.1:{port}"

    async def fetch(client: httpx.AsyncClient, path: str) -> None:
        assert len((await client.get(path)).content) == len(asgi.BODIES[path])

    none_kept = httpx.Limits(max_keepalive_connections=0)
    async with (
        httpx.AsyncClient(base_url=address, verify=context, trust_env=False) as kept,
        httpx.AsyncClient(base_url=address, verify=context, trust_env=False, limits=none_kept) as each_anew,
    ):
        program.report(
            small=await program.rate_async(lambda: fetch(kept, "/small"), seconds),
            large=await program.rate_async(lambda: fetch(kept, "/large"), seconds),
            **{"small, new connections": await program.rate_async(lambda: fetch(each_anew, "/small"), seconds)},
        )


def main() -> None:
    options = program.arguments()
    if options.serve:
        return asyncio.run(asgi.serve(ssl_certfile=https.certificate_file(), ssl_keyfile=https.key_file()))
    with https.certificates() as context, program.Server() as server:
        asyncio.run(measure(server.port, options.seconds, context))


if __name__ == "__main__":
    main()
