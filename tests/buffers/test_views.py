"""A buffer in one process: one type at a time, exact counts, the end, what is not possible."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import threading
import weakref

import numpy
import pytest

from fastsock import buffers, core

pytestmark = pytest.mark.skipif(not core.available, reason=core.why_not)


@pytest.fixture
def buffer():
    with buffers.RegisteredBuffer(64) as made:
        yield made


def test_a_view_is_the_memory(buffer):
    buffer.view("f8", (2, 4))[1, 3] = 2.5
    assert buffer.view("f8").tolist() == [0.0] * 7 + [2.5]
    assert buffer.view("u2", 4, offset=56).shape == (4,)
    assert bytes(buffer)[:56] == bytes(56)
    assert buffer.view(numpy.dtype([("a", "u4"), ("b", "f4")])).shape == (8,)


def test_one_type_at_a_time(buffer):
    view = buffer.view("f8")
    again = buffer.view("<f8")
    for other in ("i8", "u1", "f4"):
        with pytest.raises(buffers.TypedError, match="float64"):
            buffer.view(other)
    with pytest.raises(buffers.TypedError):
        memoryview(buffer)
    del view
    with pytest.raises(buffers.TypedError):
        buffer.view("i8")
    del again
    with memoryview(buffer) as raw, pytest.raises(buffers.TypedError, match="bytes"):
        assert raw.nbytes == 64 and buffer.view("i8") is not None
    assert buffer.view("i8").dtype == "i8"


@pytest.mark.parametrize(
    "derive",
    [
        lambda view: view[2:4],
        lambda view: view.reshape(2, 4).T[1:],
        lambda view: memoryview(view)[1:],
        lambda view: view.view("u8"),
        lambda view: numpy.frombuffer(view, "u1"),
        lambda view: numpy.broadcast_to(view, (3, 8)),
        lambda view: iter(view),
    ],
)
def test_a_view_of_a_view_counts(buffer, derive):
    derived = derive(buffer.view("f8"))
    gc.collect()
    with pytest.raises(buffers.ReferencedError):
        buffer.release()
    del derived
    gc.collect()
    assert buffer.exports == 0
    buffer.release()


def test_every_view_and_none_else_is_counted(buffer):
    views = []
    for count in range(1, 40):
        views.append(buffer.view("f8")[count % 8 :])
        assert buffer.exports == count
    for count in range(38, -1, -1):
        views.pop()
        assert buffer.exports == count
    for _ in range(1000):
        with pytest.raises(ValueError):
            buffer.view("f8", (9,))
        with pytest.raises(buffers.TypedError), memoryview(buffer):
            buffer.view("f8")
    assert buffer.exports == 0 and buffer.writable_exports == 0


@pytest.mark.parametrize(
    "arguments", [("f8", (9,)), ("f8", None, 4), ("u1", (1,), 64), ("u1", (2,), -1), ("f8", (2, -1)), ("V0",)]
)
def test_an_array_that_does_not_fit(buffer, arguments):
    with pytest.raises((ValueError, TypeError)):
        buffer.view(*arguments)
    assert buffer.exports == 0


def test_objects_have_no_meaning_there(buffer):
    with pytest.raises(TypeError):
        buffer.view("O")


def test_read_only_views(buffer):
    view = buffer.view("u1", readonly=True)
    with pytest.raises(ValueError):
        view[0] = 1
    with pytest.raises(ValueError):
        view.flags.writeable = True


def test_release_twice_and_use_afterwards(buffer):
    buffer.release()
    buffer.release()
    for use in (lambda: buffer.view("u1"), lambda: memoryview(buffer)):
        with pytest.raises(ValueError, match="released"):
            use()


def test_unref_calls_when_the_last_view_is_gone(buffer):
    called = []
    buffer.unref(called.append)
    assert called == [buffer]
    first, second = buffer.view("f8"), buffer.view("f8")
    buffer.unref(called.append)
    del first
    assert called == [buffer]
    del second
    assert called == [buffer, buffer]


def test_unref_may_release_and_hand_on(buffer):
    view = buffer.view("f8")
    buffer.unref(lambda each: each.release())
    del view
    with pytest.raises(ValueError, match="released"):
        buffer.view("f8")


def test_memory_that_cannot_shrink():
    buffer = buffers.RegisteredBuffer(5000)
    number = buffer.get_memory().fileno()
    for size in (0, 4096, 10000):
        with pytest.raises(PermissionError):
            os.ftruncate(number, size)
    buffer.release()
    with pytest.raises(OSError):
        os.fstat(number)


def test_sizes_that_there_are_not():
    for size in (0, -1):
        with pytest.raises(ValueError):
            buffers.RegisteredBuffer(size)
    for size in (1 << 46, 1 << 60, 1 << 62, 1 << 70):
        with pytest.raises(MemoryError, match=str(size)):
            buffers.RegisteredBuffer(size)


def test_an_address_space_that_is_full():
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), hard))
    try:
        with pytest.raises(MemoryError):
            buffers.RegisteredBuffer(4 << 30)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_no_descriptor_is_free():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    filling = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (filling[0] + 20, hard))
    try:
        with pytest.raises(OSError, match="open files"):
            while True:
                filling.append(os.dup(filling[0]))
        with pytest.raises(OSError, match="open files"):
            buffers.RegisteredBuffer(64)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for number in filling:
            os.close(number)


def test_it_cannot_be_pickled(buffer):
    with pytest.raises(TypeError, match="send_buffer"):
        pickle.dumps(buffer)


def test_a_forked_child_has_no_buffers_of_its_parent(buffer):
    view = buffer.view("u1")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            buffer.view("u1")
        except buffers.ReferencedError as error:
            said = str(error).encode()
        buffer.release()
        os.write(write, said)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as told:
        assert "forked" in told.read()
    view[0] = 7
    assert view[0] == 7


def test_threads_count_exactly(buffer):
    def look():
        for _ in range(3000):
            view = buffer.view("f8")
            part = view[1:]
            del view, part

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert buffer.exports == 0
    buffer.release()


def test_a_dropped_buffer_leaves_nothing():
    gc.collect()  # of what other tests left
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        buffers.RegisteredBuffer(1 << 16).view("u1")[0] = 1
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("path", ["shm", "tcp", "sdp", "rdma", "rsockets", "iodev", "ibvdev", "nonsense", None])
def test_paths_that_register_nothing_say_why(buffer, path):
    with pytest.raises(buffers.RegistrationError, match=str(path)) as refused:
        buffer.register(path)
    assert len(str(refused.value)) > 20
    with pytest.raises(buffers.RegistrationError, match="not registered"):
        buffer.deregister()


class _Device:
    """Stands for an open ibvdev device: what it is asked to know."""

    def __init__(self):
        self.known = []

    def pin(self, address, nbytes):
        self.known.append((address, nbytes))

    def unpin(self, address, nbytes):
        self.known.remove((address, nbytes))


def test_it_is_registered_until_it_is_deregistered_or_released(buffer):
    device = _Device()
    buffer.register(device)
    assert device.known == [(buffer.view("u1").ctypes.data, 64)]
    with pytest.raises(buffers.RegistrationError, match="deregister"):
        buffer.register(device)
    buffer.deregister()
    assert device.known == []
    buffer.register(device)
    buffer.release()
    assert device.known == []


@pytest.mark.parametrize("kind", [None, numpy.dtype("f8")])
@pytest.mark.parametrize("first", ["buffer", "view", "export", "callback"])
def test_a_buffer_in_a_circle_with_its_views(kind, first):
    """Whichever of them a collection of garbage clears first. Nobody is called whom it takes too."""
    told = []
    parts = {"callback": lambda buffer: told.append(first)}
    parts["buffer"] = made = buffers.RegisteredBuffer(64)
    parts["export"] = core.TypedExport(made, kind, False)
    made.view_of_it = parts["view"] = memoryview(parts["export"])
    made.unref(parts["callback"])
    weak, held = weakref.ref(made), parts[first]
    made.parts = parts
    del parts, made
    gc.collect()  # what is found only through others is looked at behind them from now on
    del held
    gc.collect()
    assert weak() is None and told == []


def test_a_buffer_that_a_finalizer_brings_back_is_as_it_was():
    back = []

    class Keeps:
        def __init__(self, buffer):
            self.buffer, self.itself = buffer, self

        def __del__(self):
            back.append(self.buffer)

    made = buffers.RegisteredBuffer(8)
    made.view("u1")[:] = 7
    Keeps(made)
    del made
    gc.collect()
    (buffer,) = back
    assert buffer.view("u1").tolist() == [7] * 8
    buffer.release()
