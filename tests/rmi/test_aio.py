"""Calls in an event loop: Pyro5 #4, grpc #39803."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading

import pytest

from fastsock import rmi
from fastsock.rmi import aio
from fastsock.rmi.client import connecting

from . import objects
from .conftest import until


def in_loop(served, scenario, **options):
    async def run():
        async with await aio.connect(f"rmi:{served.name}", objects.Store, **served.options, **options) as store:
            await asyncio.wait_for(scenario(store), 60)

    asyncio.run(run())


def test_calls_and_errors(served):
    async def scenario(store):
        assert await store.add(1, 2) == 3
        with pytest.raises(ValueError, match="no"):
            await store.refuse("no")
        await store.log("line")
        assert await store.logged() == ["line"]

    in_loop(served, scenario)


def test_a_call_tells_when_its_time_is_over(served):
    async def scenario(store):
        told = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(store.wait())
        waiting.add_done_callback(told.set_result)
        assert await told is waiting
        assert isinstance(waiting.exception(), rmi.CallTimeout)

    in_loop(served, scenario, timeout=1.0)


def test_the_number_of_a_connection_that_another_thread_closed_may_be_used_at_once(served):
    """The loop is in a callback meanwhile, which then opens sockets and watches them."""

    async def run():
        store = await aio.connect(f"rmi:{served.name}", objects.Store, **served.options)
        assert await store.add(1, 2) == 3
        loop = asyncio.get_running_loop()
        closer = threading.Thread(target=rmi.close, args=(store,))
        closer.start()
        closer.join()
        pairs = [socket.socketpair() for _ in range(8)]
        arrived = [asyncio.Event() for _ in pairs]
        for (one, other), event in zip(pairs, arrived, strict=True):
            loop.add_reader(one, event.set)
            other.send(b"x")
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in arrived)), 60)
        for one, other in pairs:
            loop.remove_reader(one)
            one.close()
            other.close()
        with pytest.raises(rmi.LostPeer):
            await store.add(1, 2)

    asyncio.run(run())


LONG = 24 << 20  # bytes: more than a ring or a kernel takes


@pytest.mark.parametrize("how", ["aclose", "another thread"])
def test_what_was_sent_before_a_close_arrives(served, store, how):
    """The answer to a one-way call waits for nothing, so most of it has found no room yet."""

    async def run():
        remote = await aio.connect(f"rmi:{served.name}", objects.Store, **served.options)
        for number in range(3):
            await remote.log(str(number) + "x" * LONG)
        if how == "aclose":
            await remote.aclose()
        else:
            await asyncio.to_thread(rmi.close, remote)

    asyncio.run(run())
    until(lambda: len(store.first_letters()) == 3)
    assert store.first_letters() == "012"


def test_a_loop_that_ends_closes_what_another_thread_closed(served, store):
    before = connections(store)

    async def run():
        return await aio.connect(f"rmi:{served.name}", objects.Store, **served.options)

    loop = asyncio.new_event_loop()
    remote = loop.run_until_complete(run())
    assert connections(store) == before + 1

    def close_and_stop():
        closer = threading.Thread(target=rmi.close, args=(remote,))
        closer.start()
        closer.join()
        loop.stop()  # before it comes to anything else

    loop.call_soon(close_and_stop)
    loop.run_forever()
    loop.close()
    until(lambda: connections(store) == before)


def test_a_cancelled_connect_leaves_no_connection(served, store):
    before = connections(store)

    async def run():
        for _ in range(20):
            task = asyncio.ensure_future(aio.connect(f"rmi:{served.name}", objects.Store, **served.options))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    gc.collect()
    gc.disable()
    try:
        asyncio.run(run())
        until(lambda: connections(store) == before)
    finally:
        gc.enable()


def test_a_call_whose_loop_is_closed_keeps_no_connection_open(served, store):
    before = connections(store)
    loop = asyncio.new_event_loop()

    async def begin():
        remote = await aio.connect(f"rmi:{served.name}", objects.Store, **served.options)
        return remote, asyncio.ensure_future(remote.wait_cancelled()), await remote.has_entered()

    remote, task, _ = loop.run_until_complete(begin())
    loop.close()
    rmi.close(remote)
    until(lambda: connections(store) == before)
    task._log_destroy_pending = False  # the program's own mistake


def connections(store):
    return len(connecting.status_of(store._rmi_target.connection.session)["connections"])


def test_many_in_flight(served):
    async def scenario(store):
        found = await asyncio.gather(*(store.add_later(each, 1) for each in range(300)))
        assert found == list(range(1, 301))

    in_loop(served, scenario)


def test_streams(served):
    async def scenario(store):
        assert [item async for item in store.count_to(1000)] == list(range(1000))
        with pytest.raises(ValueError, match="broken"):
            async for _ in store.breaks():
                pass

    in_loop(served, scenario)


def test_a_cancelled_task_cancels_its_call(served):
    async def scenario(store):
        task = asyncio.ensure_future(store.wait_cancelled())
        assert await store.has_entered()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await store.was_cancelled()

    in_loop(served, scenario)


def test_a_timeout(served):
    async def scenario(store):
        with pytest.raises(rmi.CallTimeout):
            await store.wait()
        assert await store.add(1, 2) == 3

    in_loop(served, scenario, timeout=0.2)


def test_a_large_argument_does_not_block_the_loop(served):
    """grpc #39803: the loop goes on while 64 MB are on their way to an end that takes nothing."""

    async def scenario(store):
        waiting = asyncio.ensure_future(store.same(b"x" * (64 << 20)))
        turns = 0
        while not waiting.done():
            await asyncio.sleep(0)
            turns += 1
        assert len(waiting.result()) == 64 << 20
        assert turns > 10

    in_loop(served, scenario)


def test_a_lost_daemon(served):
    async def scenario(store):
        task = asyncio.ensure_future(store.wait())
        assert await store.has_entered()
        served.far.kill()
        with pytest.raises(rmi.LostPeer, match="can have run"):
            await task

    in_loop(served, scenario)


def test_properties(served):
    async def scenario(store):
        assert await store.level == 3
        await aio.assign(store, "level", 8)
        assert await store.level == 8
        with pytest.raises(AttributeError, match=r"await aio.assign\(remote, 'level', value\)"):
            store.level = 5
        with pytest.raises(rmi.UnknownMethod, match="no property that can be set"):
            await aio.assign(store, "add", 5)
        with pytest.raises(AttributeError, match="no method or property by the name 'nothing'"):
            await store.nothing
        assert not hasattr(store, "_private")
        assert {"add", "level"} <= set(dir(store))

    in_loop(served, scenario)


def test_special_methods(served):
    async def scenario(store):
        assert await store(21) == 42
        assert await store["key"] == ["key"]
        assert [item async for item in store] == [1, 2, 3]
        assert await asyncio.gather(store(1), store["a"], store.level) == [2, ["a"], 3]
        # Python wants these at once
        assert await store.__len__() == 5
        assert await store.__contains__(3)
        for wrong in (lambda: len(store), lambda: 3 in store, lambda: list(store), lambda: [0][store.level]):
            with pytest.raises(TypeError):
                wrong()
        with pytest.raises(TypeError, match=r"write await remote\.add"):
            assert store.add(1, 2)

    in_loop(served, scenario)


def test_objects_that_come_by_reference(served):
    async def scenario(store):
        counters = [await store.counter() for _ in range(5)]
        assert await asyncio.gather(*(counter.increase() for counter in counters)) == [1] * 5
        await store.keep(counters[0])
        assert await store.is_kept(counters[0])
        assert await store.kept_one() == counters[0]
        assert hash(await store.kept_one()) == hash(counters[0]) and counters[0] != counters[1]
        with pytest.raises(TypeError):
            await counters[0]()
        await store.keep(None)
        del counters
        while await store.living():
            pass

    in_loop(served, scenario)
