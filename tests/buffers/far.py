"""What the process at the other end does. `here` is its namespace."""

from __future__ import annotations

import gc
import os

from fastsock import buffers, core


def number(here):
    return os.getpid()


def expect(here):
    buffers.expect(here.sock)


def take(here, key="buffer", dtype="u1"):
    """Receives a buffer, keeps it under that name, and tells what is in it."""
    received = buffers.recv_buffer(here.sock)
    setattr(here, key, received)
    return received.view(dtype, readonly=True).tolist()


def describe(here, key="buffer"):
    received = getattr(here, key)
    return received.nbytes, bool(received.view("u1").flags.writeable)


def write(here, value, key="buffer"):
    getattr(here, key).view("u1")[:] = value


def release(here, key="buffer"):
    getattr(here, key).release()


def drop(here, key="buffer"):
    delattr(here, key)


def lose_in_a_circle(here, first):
    """Nobody closes the connection. `first`: what the collector clears first, the socket or its channel, if any."""
    circle: list = [here.sock]
    circle.append(circle)
    here.sock = None
    channel = next((each for each in gc.get_referents(circle[0]) if isinstance(each, core.Channel)), None)
    if first == "channel":
        gc.collect()  # what is found only through others is looked at behind them from now on
    del circle, channel
    gc.collect()


class _Keeps:
    def __init__(self, here, buffer):
        self.here, self.buffer, self.itself = here, buffer, self

    def __del__(self):
        self.here.back = self.buffer


def bring_back(here):
    """A collection takes the buffer, and a finalizer stores it again; what a look at it raises."""
    _Keeps(here, here.buffer)
    del here.buffer
    gc.collect()
    try:
        here.back.view("u1")
    except ValueError as error:
        return str(error)
    return "it can be seen"


def send(here, values, **options):
    buffer = here.own = buffers.RegisteredBuffer(len(values))
    buffer.view("u1")[:] = values
    return buffers.send_buffer(here.sock, buffer, **options)


def send_and_end(here, values):
    send(here, values)
    os._exit(0)


def pass_on(here, key="buffer", **options):
    return buffers.send_buffer(here.sock, getattr(here, key), **options)


def hold_view(here, key="buffer"):
    here.view = getattr(here, key).view("u1")


def descriptors(here):
    return sorted(os.listdir("/proc/self/fd"))


def refusal(here, key="buffer"):
    try:
        getattr(here, key).release()
    except BufferError as error:
        return str(error)
    return None
