"""Buffers as arguments and results of remote calls, and for bulks of active messages."""

from __future__ import annotations

import pytest

from fastsock import active, buffers, core, rmi
from fastsock.active.arrivals import Pool

pytestmark = pytest.mark.skipif(not core.available, reason=core.why_not)


@rmi.expose
class Doubler:
    def double(self, buffer: buffers.RegisteredBuffer) -> buffers.RegisteredBuffer:
        result = buffers.RegisteredBuffer(buffer.nbytes)
        result.view("f8")[:] = 2 * buffer.view("f8")
        return result


@pytest.mark.parametrize("size", [1, 100, 100_000])
def test_remote_calls_take_and_return_buffers(size):
    with rmi.Daemon() as daemon:
        uri = daemon.register(Doubler(), "doubler")
        daemon.start()
        with rmi.connect(uri, Doubler) as doubler, buffers.RegisteredBuffer(8 * size) as buffer:
            view = buffer.view("f8")
            view[:] = 3.0
            result = doubler.double(buffer)
            assert type(result) is buffers.RegisteredBuffer
            assert (result.view("f8") == 6.0).all() and (view == 3.0).all()
            again = doubler.double(result)
            assert again.view("f8")[-1] == 12.0
            del view


def test_a_call_takes_no_buffer_that_another_process_has(shared):
    from . import far

    shared.far.process.run(far.expect)
    with rmi.Daemon() as daemon:
        uri = daemon.register(Doubler(), "doubler")
        daemon.start()
        with rmi.connect(uri, Doubler) as doubler:
            buffer = buffers.RegisteredBuffer(80)
            buffers.send_buffer(shared.near, buffer)
            with pytest.raises(buffers.ReferencedError):
                doubler.double(buffer)
            shared.far.process.run(far.take)
            shared.far.process.run(far.release)
            assert doubler.double(buffer).nbytes == 80


def test_bulks_come_from_a_buffer_into_buffers():
    bundle = active.Bundle()
    there = bundle.endpoint(tag=3, arrivals=Pool(2, 100_000))
    got = []
    there.handle(1, lambda token: got.append(int(token.data.sum())))
    there.register("buffers-layers")
    here = active.Bundle()
    asking = here.endpoint()
    asking.map(0, "buffers-layers", tag=3)
    with buffers.RegisteredBuffer(90_000) as buffer:
        for i in range(20):
            view = buffer.view("u1")
            view[:] = i
            del view
            transfer = asking.begin_bulk(0, 1, buffer)
            while len(got) == i or not transfer.sent:
                here.poll(0)
                bundle.poll(0)
        while buffer.exports:
            here.poll(0)
            bundle.poll(0)
            del transfer
            transfer = None
    assert got == [90_000 * i for i in range(20)]
    assert there.arrivals.is_used
    asking.close()
    there.close()
