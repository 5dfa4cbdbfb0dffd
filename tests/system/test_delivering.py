"""What a close leaves to be delivered: for how long this process minds it, and what becomes of it then."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

from fastsock.system import delivering
from fastsock.testing.process import FarProcess

DEADLINE = 30.0


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def deliver_to_who_reads_nothing(here):
    delivering.LONGEST = 1.0
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        near = socket.socket()
        near.connect(listener.getsockname())
        far, _ = listener.accept()
    with far:
        before = descriptors() - 1  # without the near end
        near.setblocking(False)
        sent = 0
        with suppress(BlockingIOError):
            while True:
                sent += near.send(bytes(1 << 16))
        delivering.deliver_at_exit(near)
        delivering.deliver(near)
        near.close()
        assert descriptors() == before + 1  # kept: closed now, a byte from the far end would reset it
        (minder,) = [each for each in threading.enumerate() if each.name == "fastsock delivering"]
        minder.join(DEADLINE)
        assert descriptors() == before
        far.settimeout(DEADLINE)
        got = 0
        while block := far.recv(1 << 16):
            got += len(block)
    assert got == sent


def test_an_end_that_reads_nothing_costs_a_descriptor_for_so_long_and_gets_everything_later():
    """In a process of its own: here other tests may have left something that is still to be delivered."""
    with FarProcess(fresh=True) as far:
        far.run(deliver_to_who_reads_nothing)
