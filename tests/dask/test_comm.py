"""fastsock:// comms between two processes, on every path: messages, arrays, the end, errors."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import os
import signal
import subprocess
import sys

import numpy
import pytest

pytest.importorskip("distributed")

import dask
from distributed.comm import CommClosedError, connect, get_local_address_for, listen, resolve_address
from distributed.comm.registry import get_backend
from distributed.protocol import Serialized, to_serialize

from fastsock.testing import FarProcess

from ..helpers.paths import carriers_of

SERVER = """
import asyncio, sys
from distributed.comm import CommClosedError, listen
from distributed.protocol import to_serialize

async def handle(comm):
    try:
        while True:
            message = await comm.read()
            if message["op"] == "close":
                await comm.close()
            elif message["op"] == "abort":
                comm.abort()
            else:
                await comm.write({"op": "echo", "x": to_serialize(message.get("x")), "path": comm.socket.transport})
    except CommClosedError as error:
        print(error, flush=True)

async def main():
    async with listen(sys.argv[1], handle) as listener:
        print(listener.contact_address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


class Server:
    """A process that echoes messages; `address` is where."""

    def __init__(self, at="fastsock://127.0.0.1"):
        command = [sys.executable, "-c", SERVER, at]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.line()

    def line(self):
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        with self.process:
            self.process.kill()


@pytest.fixture
def server(path):
    with Server() as made:
        yield made


def test_arrays_come_back_as_they_were(server, path):
    async def main():
        comm = await connect(server.address)
        for size in (0, 1, 1000, 70_000, 1 << 20, 20 << 20):
            sent = numpy.arange(size, dtype=numpy.uint16)
            await comm.write({"op": "echo", "x": to_serialize(sent)})
            answer = await comm.read()
            assert {comm.socket.transport, answer["path"]} <= set(carriers_of(path))
            numpy.testing.assert_array_equal(answer["x"], sent)
            if size:
                answer["x"][0] = 1  # it is the receiver's own
        # write() does not wait for the reader: two ends that both write first must not wait for each other
        sent = [numpy.full(3 << 20, n, dtype=numpy.uint8) for n in range(10)]
        for array in sent:
            await comm.write({"op": "echo", "x": to_serialize(array)})
        for array in sent:
            numpy.testing.assert_array_equal((await comm.read())["x"], array)
        await comm.close()

    run(main())


def test_close_sends_what_waits(path):
    """This end closes while most of the message waits in it. The other one gets all of it."""

    async def main():
        got = asyncio.get_running_loop().create_future()

        async def handle(comm):
            got.set_result(len((await comm.read())["x"]))
            comm.abort()

        async with listen("fastsock://127.0.0.1", handle) as listener:
            comm = await connect(listener.contact_address)
            await comm.write({"x": to_serialize(numpy.ones(30 << 20, dtype=numpy.uint8))})
            await comm.close()
            assert await got == 30 << 20

    run(main())


def test_the_other_end_leaves(server):
    async def main():
        for how in ("close", "abort"):
            comm = await connect(server.address)
            await comm.write({"op": how})
            with pytest.raises(CommClosedError, match=f"remote={server.address}"):
                await comm.read()
            assert comm.closed()
            with pytest.raises(CommClosedError):
                await comm.write({"op": "echo"})
        # who does not read hears of it too: dask's pool of connections asks closed() before it uses one again
        comm = await connect(server.address)
        await comm.write({"op": "close"})
        while not comm.closed():
            await asyncio.sleep(0)
        comm.abort()
        # killed
        comm = await connect(server.address)
        reading = asyncio.ensure_future(comm.read())
        await asyncio.sleep(0)
        server.process.send_signal(signal.SIGKILL)
        with pytest.raises(CommClosedError):
            await reading

    run(main())


def test_this_end_leaves(server):
    async def main():
        comm = await connect(server.address)
        reading = asyncio.ensure_future(comm.read())
        await asyncio.sleep(0)
        await comm.close()
        with pytest.raises(CommClosedError, match="this end closed"):
            await reading
        with pytest.raises(CommClosedError):
            await comm.read()
        # a cancelled read: where the next message begins is not known any more
        comm = await connect(server.address)
        reading = asyncio.ensure_future(comm.read())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert comm.closed()

    run(main())


def test_a_comm_that_nobody_closed(server, caplog):
    async def main():
        comm = await connect(server.address)
        descriptor = comm.socket.fileno()
        del comm
        gc.collect()
        await asyncio.sleep(0)
        with pytest.raises(OSError):
            os.fstat(descriptor)

    run(main())
    assert "Closing dangling comm" in caplog.text


def test_nobody_listens():
    async def main():
        connector = get_backend("fastsock").get_connector()
        with pytest.raises(CommClosedError, match=r"cannot connect to fastsock://\S+:1: ConnectionRefusedError"):
            await connector.connect("127.0.0.1:1")
        with pytest.raises(OSError, match=r"fastsock://127\.0\.0\.1:1"):  # dask tries again until its time is over
            await connect("fastsock://127.0.0.1:1", timeout=0.05)

    run(main())


def test_the_other_end_speaks_tcp(path):
    """The error says what to do. Which end notices first is chance."""

    async def main():
        async def handle(comm):
            comm.abort()

        async with listen("tcp://127.0.0.1", handle) as listener:
            address = listener.contact_address.replace("tcp://", "fastsock://")
            with pytest.raises(CommClosedError, match=r"use the same scheme|closed the connection|reset"):
                await connect(address)

    run(main())


def test_encryption_is_refused():
    async def main():
        with pytest.raises(RuntimeError, match="encryption"):
            await connect("fastsock://127.0.0.1:1", require_encryption=True)
        with pytest.raises(RuntimeError, match="encryption"):
            listen("fastsock://127.0.0.1", None, require_encryption=True)

    run(main())


def test_a_wildcard_listens_on_both_families_at_one_port():
    async def main():
        async with listen("fastsock://", lambda comm: comm.close()) as listener:
            port = listener.listen_address.rpartition(":")[2]
            assert listener.listen_address == f"fastsock://0.0.0.0:{port}"
            assert resolve_address(f"fastsock://localhost:{port}").endswith(f":{port}")
            assert get_local_address_for("fastsock://127.0.0.1:1") == "fastsock://127.0.0.1"
            for host in ("127.0.0.1", "[::1]"):
                with contextlib.suppress(CommClosedError):  # the handler may be the first to close
                    comm = await connect(f"fastsock://{host}:{port}")
                    comm.abort()

    run(main())


def test_connections_share_a_loop_without_disturbing_others(server):
    async def main():
        async def one(number):
            comm = await connect(server.address)
            for turn in range(20):
                await comm.write({"op": "echo", "x": to_serialize((number, turn))})
                assert tuple((await comm.read())["x"]) == (number, turn)
            await comm.close()

        await asyncio.gather(*(one(number) for number in range(20)))
        comm = await connect(server.address, deserialize=False)
        await comm.write({"op": "echo", "x": to_serialize(numpy.ones(1000))})
        assert isinstance((await comm.read())["x"], Serialized)
        await comm.close()

    run(main())


def _send_on_uvloop(here):
    import uvloop

    async def main():
        async def handle(comm):
            await comm.write({"x": to_serialize((await comm.read())["x"])})
            await comm.close()

        async with listen("fastsock://127.0.0.1", handle) as listener:
            for size in (1, 1 << 22):
                comm = await connect(listener.contact_address)
                await comm.write({"x": to_serialize(numpy.ones(size))})
                assert (await comm.read())["x"].sum() == size
                await comm.close()

    uvloop.run(asyncio.wait_for(main(), 60))


@pytest.mark.skipif(not importlib.util.find_spec("uvloop"), reason="uvloop is not installed")
def test_on_uvloop(path):
    """Its loops watch descriptors by themselves. Once imported it closes numbers at each fork: so elsewhere."""
    with FarProcess(fresh=True) as far:
        far.begin(_send_on_uvloop).result(90)


CLUSTER = """
import sys
from distributed import Client, LocalCluster

def doubled(array):
    return 2 * array

if __name__ == "__main__":
    import numpy
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="fastsock") as cluster:
        with Client(cluster) as client:
            addresses = [cluster.scheduler_address, *client.scheduler_info()["workers"]]
            assert all(address.startswith("fastsock://") for address in addresses), addresses
            arrays = client.map(doubled, [numpy.full(1 << 17, n) for n in range(8)])
            assert client.submit(lambda parts: sum(map(sum, parts)), arrays).result() == (1 << 17) * 56
            assert client.run(lambda dask_worker: dask_worker.nanny.partition("://")[0]).popitem()[1] == "fastsock"
    print("done")
"""


def test_a_local_cluster(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(CLUSTER)
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0 and "done" in ended.stdout, ended.stderr


def test_the_default_scheme_alone():
    """What DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME=fastsock sets, for programs that name hosts and ports only."""

    async def main():
        from distributed import Client, Scheduler, Worker

        quiet = {"distributed.comm.default-scheme": "fastsock", "distributed.scheduler.http.routes": []}
        with dask.config.set({**quiet, "distributed.worker.http.routes": []}):
            async with (
                Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler,
                Worker(scheduler.address.partition("://")[2], host="127.0.0.1", dashboard=False) as worker,
                Client(scheduler.address.partition("://")[2], asynchronous=True) as client,
            ):
                assert scheduler.address.startswith("fastsock://") and worker.address.startswith("fastsock://")
                assert await client.submit(sum, [1, 2]) == 3

    run(main())
