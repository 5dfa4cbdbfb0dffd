"""How a daemon is run: in threads, in the calling thread, in an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from fastsock import rmi

from .conftest import fresh_name, no_more_threads, threads_again

pytestmark = pytest.mark.usefixtures("path")


@rmi.expose
class Loops:
    async def loop(self) -> int:
        return id(asyncio.get_running_loop())

    async def call_back(self, function) -> int:
        await asyncio.sleep(0)
        return await asyncio.get_running_loop().run_in_executor(None, function, 5)

    def thread(self) -> int:
        return threading.get_ident()


def test_serve_ends_when_another_thread_closes():
    name = fresh_name()
    with rmi.Daemon() as daemon:
        daemon.register(Loops(), name)
        serving = threading.Thread(target=daemon.serve)
        serving.start()
        with rmi.connect(f"rmi:{name}", Loops, timeout=30.0) as loops:
            assert loops.thread() != serving.ident
        daemon.close()
        serving.join(30)
        assert not serving.is_alive()
        with pytest.raises(RuntimeError, match="closed"):
            daemon.start()


def test_async_methods_run_in_the_loop_that_runs_the_daemon():
    name = fresh_name()

    async def run():
        with rmi.Daemon() as daemon:
            daemon.register(Loops(), name)
            running = asyncio.ensure_future(daemon.run())
            remote = await rmi.aio.connect(f"rmi:{name}", Loops, timeout=30.0)
            async with remote:
                assert await remote.loop() == id(asyncio.get_running_loop())
                assert await remote.call_back(rmi.callback(lambda value: value + 1)) == 6
            daemon.close()
            await running

    asyncio.run(run())


def test_a_method_that_is_still_running_does_not_hold_close_up():
    entered, gate = threading.Event(), threading.Event()

    def wait():
        entered.set()
        gate.wait(30)

    name = fresh_name()
    daemon = rmi.Daemon()
    daemon.register(wait, name)
    daemon.start()
    with rmi.connect(f"rmi:{name}") as proxy:
        waiting = rmi.future(proxy)()
        assert entered.wait(30)
        closing = threading.Thread(target=daemon.close)
        closing.start()
        with pytest.raises(rmi.LostPeer, match="can have run"):
            waiting.result(30)
        gate.set()
        closing.join(30)
        assert not closing.is_alive()


def test_a_daemon_that_can_start_no_more_threads_serves_with_those_it_has(served):
    store = served.connect(timeout=30.0)
    assert store.add(1, 1) == 2
    served.far.run(no_more_threads)
    others = [served.connect(timeout=30.0) for _ in range(12)]
    for number, each in enumerate(others * 3):
        assert each.add(number, 1) == number + 1


@pytest.mark.parametrize(
    "use",
    [lambda store: store.add_later(1, 2), lambda store: list(store.count_later(3))],
    ids=["a method", "a generator"],
)
def test_where_no_thread_can_be_started_for_the_event_loop_the_caller_is_told(served, use):
    store = served.connect(timeout=30.0)
    served.far.run(no_more_threads)
    for number in range(3):
        with pytest.raises(RuntimeError, match="thread"):
            use(store)
        assert store.add(number, 1) == number + 1
    served.far.run(threads_again)
    assert use(store) in (3, [0, 1, 2])
