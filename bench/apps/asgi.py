"""The smallest ASGI application, and uvicorn to serve it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import program
import uvicorn

BODIES = {"/small": b"s" * program.SMALL, "/large": b"l" * program.LARGE}


async def application(scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    body = BODIES[scope["path"]]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def serve(**settings: Any) -> None:
    """Until it is ended; announces its port."""
    config = uvicorn.Config(
        application, port=0, loop="asyncio", http="h11", lifespan="off", log_level="error", access_log=False, **settings
    )
    server = uvicorn.Server(config)
    listening = config.bind_socket()
    program.announce(listening.getsockname()[1])
    await server.serve([listening])
