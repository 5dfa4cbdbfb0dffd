"""asyncio streams (open_connection, start_server), plain and with fastsock installed."""

from __future__ import annotations

import time
from typing import Any

from ..process import Unusable
from .peer import Buffers, Peer, warm_up
from .stream_sockets import require_path, settle


class AsyncioStreams(Peer):
    baseline = "asyncio tcp"

    def __init__(self, name: str, path: str | None = None) -> None:
        self.name, self.path = name, path
        self.buffers = Buffers()
        if path:
            self.environment = {"FASTSOCK_TRANSPORTS": "tcp" if path == "tcp" else f"{path},tcp"}

    def _begin(self) -> None:
        if self.path:
            try:
                import fastsock
            except ImportError as error:
                raise Unusable(f"fastsock cannot be imported: {error} (pip install -e .)") from error
            fastsock.install()
        import asyncio  # after install, as under the launcher

        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def listen(self) -> Any:
        import asyncio

        self._begin()
        self.arrived = self.loop.create_future()

        def arrived(reader: Any, writer: Any) -> None:
            self.arrived.set_result((reader, writer))

        self.server = self.loop.run_until_complete(asyncio.start_server(arrived, "127.0.0.1", 0))
        return self.server.sockets[0].getsockname()

    def accept(self) -> None:
        self.reader, self.writer = self.loop.run_until_complete(self.arrived)
        if self.path:
            settle(self.writer.get_extra_info("socket")._sock, self.path)

    def connect(self, address: Any) -> None:
        self._begin()
        import asyncio

        self.reader, self.writer = self.loop.run_until_complete(asyncio.open_connection(*address))
        if self.path:
            made = self.writer.get_extra_info("socket")._sock
            settle(made, self.path)
            require_path(made, self.path)

    def ping(self, size: int, count: int) -> float:
        out = self.buffers.of(size)[0]

        async def main() -> float:
            await self._exchange(out, warm_up(size, count))
            start = time.perf_counter()
            await self._exchange(out, count)
            return time.perf_counter() - start

        return self.loop.run_until_complete(main())

    def pong(self, size: int, count: int) -> None:
        out = self.buffers.of(size)[0]

        async def main() -> None:
            for _ in range(warm_up(size, count) + count):
                await self.reader.readexactly(size)
                self.writer.write(out)
            await self._flush()

        self.loop.run_until_complete(main())

    def send(self, size: int, count: int) -> float:
        out = self.buffers.of(size)[0]

        async def main() -> float:
            await self._push(out, warm_up(size, count))
            start = time.perf_counter()
            await self._push(out, count)
            return time.perf_counter() - start

        return self.loop.run_until_complete(main())

    def receive(self, size: int, count: int) -> None:
        async def main() -> None:
            for messages in (warm_up(size, count), count):
                for _ in range(messages):
                    await self.reader.readexactly(size)
                self.writer.write(b"k")
            await self._flush()

        self.loop.run_until_complete(main())

    async def _exchange(self, out: memoryview, count: int) -> None:
        for _ in range(count):
            self.writer.write(out)
            await self.reader.readexactly(len(out))

    async def _push(self, out: memoryview, count: int) -> None:
        for _ in range(count):
            self.writer.write(out)
            await self.writer.drain()
        await self.reader.readexactly(1)

    async def _flush(self) -> None:
        # The loop stops with the call: nothing may be left in the transport's own buffer.
        import asyncio

        while self.writer.transport.get_write_buffer_size():
            await asyncio.sleep(0)
