"""Buffers as arguments and results of remote calls."""

from __future__ import annotations

import pytest

from fastsock import buffers, core, rmi

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
        daemon.register(Doubler(), "buffers-doubler")
        daemon.start()
        with rmi.connect("rmi:buffers-doubler", Doubler) as doubler, buffers.RegisteredBuffer(8 * size) as buffer:
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
        daemon.register(Doubler(), "buffers-doubler")
        daemon.start()
        with rmi.connect("rmi:buffers-doubler", Doubler) as doubler:
            buffer = buffers.RegisteredBuffer(80)
            buffers.send_buffer(shared.near, buffer)
            with pytest.raises(buffers.ReferencedError):
                doubler.double(buffer)
            shared.far.process.run(far.take)
            shared.far.process.run(far.release)
            assert doubler.double(buffer).nbytes == 80
