"""asyncio on a fast connection: streams, protocols, the low-level calls, half-close, cancellation."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile

from fastsock.testing.outcomes import receive, receive_all
from fastsock.testing.patterns import Pattern

MIB = 1 << 20


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 40))


def _echo_all(sock):
    while block := sock.recv(1 << 16):
        sock.sendall(block)
    sock.shutdown(socket.SHUT_WR)


def _echo_by_streams(sock):
    async def echo():
        reader, writer = await asyncio.open_connection(sock=sock)
        while block := await reader.read(1 << 16):
            writer.write(block)
            await writer.drain()
        writer.write_eof()
        writer.close()
        await writer.wait_closed()

    run(echo())


async def _converse(sock, size):
    reader, writer = await asyncio.open_connection(sock=sock)
    pattern = Pattern(1)

    async def send():
        for start in range(0, size, 100_001):
            writer.write(pattern.at(start, min(100_001, size - start)))
            await writer.drain()
        writer.write_eof()

    sending = asyncio.ensure_future(send())
    received = await reader.readexactly(size)
    await sending
    pattern.verify(0, received)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


def test_streams_with_a_blocking_peer(installed_pair):
    echoing = installed_pair.far.begin_run(_echo_all)
    run(_converse(installed_pair.near, 4 * MIB))
    echoing.result()


def test_streams_on_both_ends(installed_pair):
    echoing = installed_pair.far.begin_run(_echo_by_streams)
    run(_converse(installed_pair.near, 4 * MIB))
    echoing.result()


def test_low_level_calls(installed_pair):
    near = installed_pair.near
    near.setblocking(False)

    async def converse():
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(near, b"hello")
        assert await loop.sock_recv(near, 5) == b"hello"
        size, buffer, received = 3 * MIB, bytearray(70_000), 0
        sending = asyncio.ensure_future(loop.sock_sendall(near, Pattern(2).at(0, size)))
        while received < size:
            count = await loop.sock_recv_into(near, buffer)
            Pattern(2).verify(received, buffer[:count])
            received += count
        await sending

    echoing = installed_pair.far.begin_run(_echo_all)
    run(converse())
    near.shutdown(socket.SHUT_WR)
    echoing.result()


def test_many_short_messages(installed_pair):
    echoing = installed_pair.far.begin_run(_echo_by_streams)

    async def converse():
        reader, writer = await asyncio.open_connection(sock=installed_pair.near)
        for number in range(500):
            message = b"%d\n" % number
            writer.write(message)
            assert await reader.readline() == message
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    run(converse())
    echoing.result()


def test_sendfile(installed_pair):
    size = 3 * MIB + 11

    async def send():
        loop = asyncio.get_running_loop()
        _, writer = await asyncio.open_connection(sock=installed_pair.near)
        with tempfile.TemporaryFile() as file:
            file.write(Pattern(3).at(0, size))
            file.seek(0)
            assert await loop.sendfile(writer.transport, file) == size
        writer.close()
        await writer.wait_closed()

    receiving = installed_pair.far.begin_run(receive_all)
    run(send())
    data = receiving.result()
    assert len(data) == size
    Pattern(3).verify(0, data)


def test_reader_callbacks_come_and_go(installed_pair):
    """add_reader and remove_reader by descriptor number."""
    near, far = installed_pair.near, installed_pair.far
    near.setblocking(False)

    async def converse():
        loop = asyncio.get_running_loop()
        for _ in range(20):
            arrived = loop.create_future()
            loop.add_reader(near.fileno(), arrived.set_result, None)
            sending = loop.run_in_executor(None, far.sendall, b"data")
            await arrived
            assert loop.remove_reader(near.fileno())
            await sending
            assert near.recv(10) == b"data"

    run(converse())


def test_cancelled_receive_loses_nothing(installed_pair):
    near, far = installed_pair.near, installed_pair.far
    near.setblocking(False)

    async def converse():
        loop = asyncio.get_running_loop()
        receiving = asyncio.ensure_future(loop.sock_recv(near, 10))
        await asyncio.sleep(0)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
        far.sendall(b"kept")
        assert await loop.sock_recv(near, 10) == b"kept"

    run(converse())


def test_server_and_clients_in_one_loop(installed):
    """Client and server in one thread: the loop must not wait for itself."""

    async def serve_and_connect():
        async def handle(reader, writer):
            writer.write(await reader.read())
            await writer.drain()
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()

        async def client(number):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(Pattern(number).at(0, 50_000))
            writer.write_eof()
            assert await reader.read() == Pattern(number).at(0, 50_000)
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(*(client(number) for number in range(20)))
        server.close()
        await server.wait_closed()

    run(serve_and_connect())


def _serve(here, maker, count):
    here.took = []

    async def serve():
        finished = asyncio.get_running_loop().create_future()

        async def handle(reader, writer):
            here.took.append(getattr(writer.get_extra_info("socket"), "transport", None))
            while block := await reader.read(1 << 16):
                writer.write(block)
                await writer.drain()
            writer.close()
            await writer.wait_closed()
            if len(here.took) == count:
                finished.set_result(None)

        server = await asyncio.start_server(handle, sock=here.listener)
        await finished
        server.close()

    run(serve())


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


def test_accepting_server(installed_maker):
    """asyncio's own accept(): every connection of a blocking client is served."""
    with installed_maker.pair() as pair:
        address = pair.far.process.run(_listen, installed_maker.away)
        serving = pair.far.process.begin(_serve, installed_maker.away, 5)
        pair.far.until_blocked()
        for number in range(5):
            with installed_maker.connect(address) as sock:
                installed_maker.check(sock)
                sock.sendall(Pattern(number).at(0, 20_000))
                Pattern(number).verify(0, receive(sock, 20_000))
        serving.result()


def test_peer_dies(installed_pair):
    async def converse():
        reader, writer = await asyncio.open_connection(sock=installed_pair.near)
        installed_pair.far.sendall(b"last words")
        installed_pair.far.process.kill()
        assert await reader.read() == b"last words"
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            # As plain TCP may answer too, when the loop wrote to the dead peer.
            return

    run(converse())


def test_descriptors_are_given_back(installed_maker):
    """Connections made and closed by a loop leave no descriptor behind."""

    def count():
        return len(os.listdir("/proc/self/fd"))

    with installed_maker.pair() as pair:
        address = pair.far.process.run(_listen, installed_maker.away)
        serving = pair.far.process.begin(_serve, installed_maker.away, 12)

        async def connect(times):
            for _ in range(times):
                reader, writer = await asyncio.open_connection(*address)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
                writer.close()
                await writer.wait_closed()

        run(connect(1))  # what a process keeps for all its connections is there from now on
        before = count()
        run(connect(11))
        serving.result()
        assert count() <= before + 1  # a process may keep one stream that has found nobody, for the next search
