"""What was sent before a stream closes arrives, whatever the other end sends meanwhile."""

from __future__ import annotations

import asyncio

from fastsock import socket
from fastsock.dask.framing import pack
from fastsock.dask.stream import FrameStream
from tests.helpers.paths import preferring

LONG = 2 << 20


def test_what_was_sent_before_a_close_arrives():
    """On TCP, where a close with something unread is answered by a reset."""
    with preferring("tcp"), socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    message, size = pack([bytes(LONG)])

    async def run():
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * LONG)
        near.setblocking(False)
        stream = FrameStream(near, asyncio.get_running_loop(), lambda count: memoryview(bytearray(count)))
        for _ in range(3):  # nobody reads the second one
            far.sendall(b"".join(bytes(each) for each in pack([b"unread" * 10_000])[0]))
        await asyncio.wait_for(stream.read(), 60)
        stream.write([bytes(LONG)])
        await asyncio.wait_for(stream.close(), 60)

    with far:
        far.settimeout(60)
        asyncio.run(run())
        got = b""
        while block := far.recv(1 << 16):
            got += block
    assert len(got) == size and got == b"".join(bytes(each) for each in message)
