"""Connections of two processes that met before: native code takes them, until something is not as it was."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

import fastsock
from fastsock import config, core, socket
from fastsock.testing import FarProcess

from ..helpers.paths import preferring

HERE = ("127.0.0.1", 0)
MEETINGS = 6  # after these, each end keeps a segment that is free when the next connection begins
OWN_CALLS = {"offer_to", "answer", "connect_back"}  # the way that the class's own calls take
HAS_CORE = core.available and importlib.util.find_spec("fastsock.connection._repeated") is not None

pytestmark = pytest.mark.skipif(not HAS_CORE, reason="without the core no memory is reserved")


@pytest.fixture(autouse=True, params=("shm", "unix"))
def path(request):
    with preferring(request.param):
        config.configure(short_lived="path", meeting_ms=5000)
        yield request.param


class Slow(socket._Meeting):
    """A class of the program's, with a call of its own."""

    def recv(self, bufsize, flags=0):
        return b"own:" + super().recv(bufsize, flags)


def _listen(here, path):
    config.configure(transports=f"{path},tcp", short_lived="path", meeting_ms=5000)
    here.listener = socket.create_server(HERE, backlog=100)
    return here.listener.getsockname()


def _answer(here):
    """Accepts, answers one message, and waits for the end. Returns the path, and the names of Python calls."""
    with Calls() as calls:
        sock, _ = here.listener.accept()
        with sock:
            sock.sendall(sock.recv(100))
            transport = sock.transport
            assert sock.recv(1) == b""
    return transport, calls.names


class Calls:
    """Notes the names of the Python functions that this thread calls."""

    def __enter__(self):
        self.names = set()
        sys.setprofile(lambda frame, event, _: event == "call" and self.names.add(frame.f_code.co_name))
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def _ask(address, kind=socket._Meeting, options=()):
    with Calls() as calls, kind() as sock:
        for option in options:
            sock.setsockopt(*option)
        sock.connect(address)
        sock.sendall(b"a message")
        answer = sock.recv(100)
        transport = sock.transport
        assert sock.getpeername() == address
        assert fastsock.explain(sock).peer_pid is not None or transport == "tcp"
    return answer, transport, calls.names


@pytest.fixture
def server(path):
    with FarProcess() as process:
        process.address = process.run(_listen, path)
        for _ in range(MEETINGS):
            _exchange(process)
        yield process


def _exchange(process, **how):
    """One connection. Returns what each end saw."""
    answering = process.begin(_answer)
    asked = _ask(process.address, **how)
    return asked, answering.result()


def test_no_call_of_the_class_is_needed_for_a_meeting(server, path):
    native_here = native_there = 0
    for _ in range(40):
        (answer, transport, here), (far_transport, there) = _exchange(server)
        assert (answer, transport, far_transport) == (b"a message", path, path)
        native_here += not OWN_CALLS & here
        native_there += not OWN_CALLS & there
    # where one end is stopped at a bad moment, the other end's own call goes on
    assert native_here > 20
    assert native_there > 20


def test_other_settings_hold_for_the_next_connection(server, path):
    config.configure(transports="tcp")
    assert _exchange(server)[0][1] == "tcp"
    config.configure(transports=f"{path},tcp")
    assert _exchange(server)[0][1] == path


def test_class_of_the_program_is_asked_first(server, path):
    answer, transport, _ = _exchange(server, kind=Slow)[0]
    assert (answer, transport) == (b"own:a message", path)


def test_options_that_were_set_before_hold(server, path):
    nodelay = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer, transport, _ = _exchange(server, options=[nodelay])[0]
    assert (answer, transport) == (b"a message", path)


def test_listener_that_is_gone_refuses(server):
    server.run(_close)
    with pytest.raises(ConnectionRefusedError):
        _ask(server.address)


def _close(here):
    here.listener.close()


def test_connection_that_nobody_used(server):
    for _ in range(20):
        accepting = server.begin(_accept_and_read)
        socket.create_connection(server.address).close()
        assert accepting.result() == b""


def _accept_and_read(here):
    with here.listener.accept()[0] as sock:
        return sock.recv(1)


def _accept_late(here):
    """Returns the path, what it read, and the names of Python calls."""
    with Calls() as calls, here.listener.accept()[0] as sock:
        transport, data = sock.transport, sock.recv(1)
    return transport, data, calls.names


def test_connection_that_is_closed_before_it_is_accepted(server):
    """The client calls its meeting off. Neither end needs a call of the class for that."""
    for _ in range(20):
        with Calls() as calls:
            socket.create_connection(server.address).close()
        transport, data, there = server.run(_accept_late)
        assert (transport, data) == ("tcp", b"")
        assert not OWN_CALLS & (calls.names | there)


def test_nobody_waits_for_the_other_end(server, path):
    """accept() returns though the client does nothing, and what the server sent is there at the client's first use."""
    accepting = server.begin(_accept_and_send)
    with socket.create_connection(server.address) as sock:
        assert accepting.result() == path
        assert sock.recv(100) == b"early"
        assert sock.transport == path


def _accept_and_send(here):
    here.sock, _ = here.listener.accept()
    here.sock.sendall(b"early")
    return here.sock.transport


def test_first_use_in_a_forked_child(server, path):
    answering = server.begin(_answer)
    with socket.create_connection(server.address) as sock:
        child = os.fork()
        if child == 0:
            sock.sendall(b"from the child")
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert sock.recv(100) == b"from the child"
    assert answering.result()[0] == path


def test_descriptors_are_all_given_back(server):
    accepting = server.begin(_accept_and_read)
    socket.create_connection(server.address).close()
    accepting.result()
    here, there = _descriptors(), server.run(_descriptors)
    for _ in range(20):
        _exchange(server)
        accepting = server.begin(_accept_and_read)
        socket.create_connection(server.address).close()
        accepting.result()
    # a probe socket and the process that a segment belongs to may be kept or not
    assert _descriptors() - here < 3
    assert server.run(_descriptors) - there < 3


def _descriptors(here=None):
    return len(os.listdir("/proc/self/fd"))
