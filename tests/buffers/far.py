"""What the process at the other end does. `here` is its namespace."""

from __future__ import annotations

import os

from fastsock import buffers


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
