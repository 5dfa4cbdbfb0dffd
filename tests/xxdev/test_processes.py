"""Ranks as processes: signals while they wait, and children that they fork."""

from __future__ import annotations

import os
import signal

import pytest

from .makers import PROCESSES, ranks_on


@pytest.fixture(params=PROCESSES)
def maker(request):
    """Ranks that are processes, on each path."""
    return ranks_on(request.param)


def _send(here, value, to, tag):
    here.device.send(value, to, tag)


def _receive(here, source, tag):
    return here.device.recv(None, source, tag).value


def _receive_until_interrupted(here, source, tag):
    try:
        here.device.recv(None, source, tag)
    except KeyboardInterrupt:
        return "interrupted"


def _wait_until_interrupted(here, source, tag):
    here.request = here.device.irecv(None, source, tag)
    try:
        here.request.iwait()
    except KeyboardInterrupt:
        return "interrupted"


def _finish_waiting(here):
    return here.request.iwait().value


@pytest.mark.parametrize("connected", [False, True], ids=["never-connected", "connected"])
def test_ctrl_c_ends_a_wait_and_no_message_is_lost(maker, connected):
    with maker.ranks(2) as ranks:
        if connected:
            ranks.run(1, _send, "hello", 0, 1)
            assert ranks.run(0, _receive, 1, 1) == "hello"
        for what in (_receive_until_interrupted, _wait_until_interrupted):
            pending = ranks.begin(0, what, 1, 2)
            ranks.processes[0].until_asleep()
            ranks.processes[0].kill(signal.SIGINT)
            assert pending.result() == "interrupted"
        # the blocking receive is gone, the request is not
        ranks.run(1, _send, "first", 0, 2)
        assert ranks.run(0, _finish_waiting) == "first"
        ranks.run(1, _send, "second", 0, 2)
        assert ranks.run(0, _receive, 1, 2) == "second"


def _ticks(here, source, tag):
    seen = []
    signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
    value = here.device.recv(None, source, tag).value
    return value, len(seen)


def test_handlers_run_while_a_rank_waits(maker):
    with maker.ranks(2) as ranks:
        pending = ranks.begin(0, _ticks, 1, 1)
        for _ in range(3):
            ranks.processes[0].until_asleep()
            ranks.processes[0].kill(signal.SIGUSR1)
        ranks.processes[0].until_asleep()
        ranks.run(1, _send, "after", 0, 1)
        value, count = pending.result()
        assert value == "after" and count >= 1


def _fork_child(here):
    child = os.fork()
    if child:
        return child
    try:
        here.device.send(b"from a child", 0, 1)
        os._exit(1)
    except OSError:  # it is no rank
        signal.pause()
    finally:
        os._exit(0)


def _wait_for_death(here, peer):
    from fastsock.xxdev import XxdevError

    try:
        here.device.recv(None, peer, 9)
    except XxdevError as error:
        return int(error.code), error.peer


def test_a_ranks_child_does_not_keep_it_alive(maker):
    with maker.ranks(2) as ranks:
        ranks.run(1, _send, "hello", 0, 1)
        assert ranks.run(0, _receive, 1, 1) == "hello"
        child = ranks.run(1, _fork_child)
        # both go on as before
        ranks.run(1, _send, "again", 0, 1)
        assert ranks.run(0, _receive, 1, 1) == "again"
        pending = ranks.begin(0, _wait_for_death, 1)
        ranks.processes[0].until_asleep()
        ranks.processes[1].kill()
        try:
            assert pending.result() == (2, 1)
        finally:
            os.kill(child, signal.SIGKILL)
        ranks.processes[1].wait()


def _explain_after_finish(device):
    device.send(b"x", 1 - device.id(), 1)
    device.recv(None, 1 - device.id(), 1)
    before = device.explain(1 - device.id())
    descriptors = len(os.listdir("/proc/self/fd"))
    device.finish()
    return before is not None, len(os.listdir("/proc/self/fd")) < descriptors, device.explain(1 - device.id())


def test_finish_gives_the_descriptors_back(maker):
    assert maker.run(2, _explain_after_finish) == [(True, True, None)] * 2
