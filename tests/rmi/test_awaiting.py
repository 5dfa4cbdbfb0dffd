"""Waiting for a daemon: wait_for() of threads and of event loops."""

from __future__ import annotations

import asyncio
import os
import signal
import socket as standard
import threading

import pytest

from fastsock import rmi
from fastsock.meeting import arrivals, user_names
from fastsock.rmi.client import connecting
from fastsock.testing.process import FarProcess, until_stopped

from .conftest import begin_daemon, fresh_name, until
from .objects import Store
from .test_names import begin_here, begin_names

ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or (5000 if os.environ.get("FASTSOCK_SOAK") else 50))
FOR_EVER = 1000.0


def in_a_thread(name, timeout, **options):
    rmi.wait_for(name, timeout, **options)


def in_a_loop(name, timeout, **options):
    asyncio.run(rmi.aio.wait_for(name, timeout, **options))


@pytest.fixture(params=[in_a_thread, in_a_loop])
def wait_for(request):
    return request.param


@pytest.fixture
def told_only(monkeypatch):
    """Nobody looks by itself: who is not told waits for ever."""
    monkeypatch.setattr(arrivals, "LOOK_AGAIN", FOR_EVER)


def far_wait(here, wait, name, timeout=30.0):
    wait(name, timeout)
    return True


def until_in_the_room(name):
    until(lambda: name in user_names.names_here("room/rmi/1"))


def test_it_returns_when_a_daemon_serves_the_name(wait_for, told_only):
    name = fresh_name()
    with FarProcess() as first, FarProcess() as second:
        waiting = [far.begin(far_wait, wait_for, f"rmi:{name}") for far in (first, second)]
        until_in_the_room(name)
        with rmi.Daemon() as daemon:
            daemon.register(Store(), name)
            daemon.start()
            assert all(each.result() for each in waiting)


def test_it_returns_at_once_where_the_name_is_served(served, wait_for):
    wait_for(f"rmi:{served.name}", 30.0)
    wait_for(served.name, 30.0)


def test_a_daemon_that_is_not_started_does_not_serve(wait_for, told_only):
    name = fresh_name()
    with FarProcess() as far, rmi.Daemon() as daemon:
        daemon.register(Store(), name)
        waiting = far.begin(far_wait, wait_for, f"rmi:{name}")
        far.until_blocked()
        assert not waiting.done()
        daemon.start()
        assert waiting.result()


def test_who_waited_first_may_die(told_only):
    name = fresh_name()
    with FarProcess() as first, FarProcess() as second, FarProcess() as daemon:
        first.begin(far_wait, in_a_thread, f"rmi:{name}")
        until_in_the_room(name)
        waiting = second.begin(far_wait, in_a_thread, f"rmi:{name}")
        second.until_blocked()
        first.kill()
        first.wait()
        daemon.run(begin_daemon, name, {})
        assert waiting.result()


def test_who_waited_first_may_be_stopped():
    """The others look by themselves, from time to time."""
    name = fresh_name()
    with FarProcess() as first, FarProcess() as second, FarProcess() as daemon:
        opener = first.begin(far_wait, in_a_thread, f"rmi:{name}")
        until_in_the_room(name)
        first.kill(signal.SIGSTOP)
        until_stopped(first.pid)
        waiting = second.begin(far_wait, in_a_thread, f"rmi:{name}")
        second.until_blocked()
        daemon.run(begin_daemon, name, {})
        assert waiting.result()
        first.kill(signal.SIGCONT)
        assert opener.result()


def wait_often(here, names):
    for name in names:
        rmi.wait_for(name, 60.0)


def test_no_arrival_is_missed(told_only):
    """Both begin at the same time, in any order."""
    names = [fresh_name("race") for _ in range(ROUNDS)]
    with FarProcess() as first, FarProcess() as second, rmi.Daemon() as daemon:
        daemon.start()
        waiting = [far.begin(wait_often, names) for far in (first, second)]
        for name in names:
            daemon.register(Store(), name)
        for each in waiting:
            each.result(120)


def test_it_ends_in_time(wait_for):
    name = fresh_name()
    with pytest.raises(rmi.ConnectTimeout, match=f"rmi:{name}: no daemon served it within 0.05 s; at last: nobody"):
        wait_for(f"rmi:{name}", 0.05)
    assert name not in user_names.names_here("room/rmi/1")


def test_an_address_with_a_host(path, wait_for):
    name = fresh_name()
    with standard.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    address = f"rmi://127.0.0.1:{port}/{name}"
    with pytest.raises(rmi.ConnectTimeout, match="at last: nobody listens"):
        wait_for(address, 0.05)
    with FarProcess() as far, FarProcess() as daemon:
        waiting = far.begin(far_wait, wait_for, address)
        daemon.run(begin_daemon, name, {"address": ("127.0.0.1", port)})
        assert waiting.result()


def test_another_key_ends_the_wait(served, wait_for):
    host, port = served.address
    with pytest.raises(rmi.Refused):
        wait_for(f"rmi://{host}:{port}/{served.name}", 30.0, key="another key than that of the daemon")


def test_a_name_that_a_name_server_knows(monkeypatch, wait_for):
    name = fresh_name()
    with FarProcess() as server, FarProcess() as far, FarProcess() as daemon:
        address = server.run(begin_names)
        monkeypatch.setenv(connecting.NAMES_VARIABLE, address)
        with pytest.raises(rmi.ConnectTimeout, match=f"at last: .*{connecting.NAMES_VARIABLE}={address}"):
            wait_for(f"rmi:{name}", 2.0)  # a busy machine's name server answers in less
        for each in (far, daemon):
            each.run(set_names, address)
        waiting = far.begin(far_wait, wait_for, f"rmi:{name}")
        daemon.run(begin_here, name, {}, {})
        assert waiting.result()


def set_names(here, address):
    os.environ[connecting.NAMES_VARIABLE] = address


def test_a_cancelled_task_waits_no_more():
    name = fresh_name()

    async def cancelled():
        task = asyncio.create_task(rmi.aio.wait_for(f"rmi:{name}", FOR_EVER))
        await asyncio.to_thread(until_in_the_room, name)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())  # it joins the thread that waited
    assert name not in user_names.names_here("room/rmi/1")


def test_an_interrupt_ends_the_wait():
    name = fresh_name()

    def press():
        until_in_the_room(name)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        rmi.wait_for(f"rmi:{name}", FOR_EVER)
    pressing.join()
    assert name not in user_names.names_here("room/rmi/1")


@pytest.mark.parametrize(
    ("name", "timeout", "error"),
    [
        ("", 1, ValueError),
        ("a\nb", 1, ValueError),
        ("rmi://x", 1, rmi.BadAddress),
        ("x", None, TypeError),
        ("x", -1, ValueError),
    ],
)
def test_arguments_that_mean_nothing(wait_for, name, timeout, error):
    with pytest.raises(error):
        wait_for(name, timeout)
