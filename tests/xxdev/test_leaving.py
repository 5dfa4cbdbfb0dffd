"""A rank that finishes has delivered what it sent, whatever the others do meanwhile."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

import pytest

from fastsock.testing.ranks import finish

from .launchers import CLEAN, DEADLINE
from .makers import PROCESSES, device_on, ranks_on

ROUNDS = int(os.environ.get("FASTSOCK_TEST_ROUNDS") or 4)
BLOCK = 16 << 10
COUNT = 180  # together below the 4 MiB of credit, and more than a kernel takes unread


@pytest.fixture(params=PROCESSES)
def maker(request):
    """Ranks that are processes, on each path."""
    return ranks_on(request.param)


def _block(number):
    return number.to_bytes(4, "big") * (BLOCK // 4)


def _exchange(here, other):
    """A message in both directions: both are connected, and know how much the other takes."""
    receive = here.device.irecv(None, other, 1)
    here.device.send(b"", other, 1)
    receive.iwait()


def _send_all(here, other):
    here.sends = [here.device.isend(_block(number), other, 2) for number in range(COUNT)]


def _receive_all(here, other, disturbs):
    """The first bytes that reach a socket after its close are answered by a reset."""
    from fastsock.xxdev import XxdevError

    if disturbs:
        with contextlib.suppress(XxdevError):  # the other rank has left, and this one has heard of it
            here.device.send(b"on the way to a rank that leaves", other, 3)
    for number in range(COUNT):
        assert here.device.recv(None, other, 2).value == _block(number), number


@pytest.mark.parametrize("disturbs", (False, True), ids=("silent", "sends"))
def test_what_was_sent_before_the_end_arrives(maker, disturbs):
    for _ in range(ROUNDS):
        with maker.ranks(2) as ranks:
            pending = [ranks.begin(rank, _exchange, 1 - rank) for rank in (0, 1)]
            for each in pending:
                each.result()
            ranks.run(1, _send_all, 0)
            left = ranks.begin(1, finish)
            ranks.run(0, _receive_all, 1, disturbs)
            left.result()
            ranks.run(0, finish)


def test_what_was_sent_at_first_use_arrives(maker):
    with maker.ranks(2) as ranks:
        ranks.run(1, _send_all, 0)  # nothing of it has gone when the rank finishes: it is not even connected
        left = ranks.begin(1, finish)
        ranks.run(0, _receive_all, 1, False)
        left.result()
        ranks.run(0, finish)


def test_ranks_that_leave_at_once_do_not_wait_for_each_other(maker):
    """What neither receives waits in both directions."""
    for _ in range(ROUNDS):
        with maker.ranks(2) as ranks:
            for step in (_exchange, _send_all):
                pending = [ranks.begin(rank, step, 1 - rank) for rank in (0, 1)]
                for each in pending:
                    each.result()
            ranks.all(finish)


PROGRAM = """
from fastsock.xxdev import Device
device = Device.new_instance()
ranks = device.init()
other = 1 - device.id()
if device.id() == 1:
    sends = [device.isend(number.to_bytes(4, "big") * {length}, other, 2) for number in range({count})]
else:
    for number in range({count}):
        assert device.recv(None, other, 2).value == number.to_bytes(4, "big") * {length}, number
    print("all", flush=True)
"""


@pytest.mark.parametrize("path", PROCESSES)
def test_a_program_that_only_ends_has_delivered_what_it_sent(path, tmp_path):
    """Nothing of it has gone at the end of its last line: it is not even connected. It never calls finish()."""
    device, environment = device_on(path)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(length=BLOCK // 4, count=COUNT))
    for _ in range(ROUNDS):
        ended = subprocess.run(
            [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", str(program)],
            env=CLEAN | environment | {"FASTSOCK_MPJ_DEVICE": device},
            capture_output=True, text=True, timeout=DEADLINE, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "all\n", "")
