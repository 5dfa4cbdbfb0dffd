"""A signal that comes as a wait goes to sleep ends no system call. The wait hears it all the same.

So it is with one that another thread gets: only the main thread runs handlers, and nothing interrupts its sleep.
"""

from __future__ import annotations

import platform
import signal
import threading
from pathlib import Path

import pytest

from ..helpers.paths import maker_of

POLLS = {"x86_64": {"7", "271"}, "aarch64": {"73"}}.get(platform.machine(), set())
"""The numbers of poll() and ppoll()."""
ROUNDS = 3  # where the machine is too busy to bring the signal soon enough


class Alarm(Exception):
    """What the signal handler raises."""


def _handler(*_):
    raise Alarm


def _rung(heard, told):
    """Rings while the main thread sleeps in a poll. Whether that is heard before the call ends by itself."""
    call = Path(f"/proc/self/task/{threading.main_thread().native_id}/syscall")
    while call.read_text().split()[0] not in POLLS:
        if heard.is_set():
            return
    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    told.append(heard.wait(3))


@pytest.mark.skipif(not POLLS, reason="the numbers of this machine's system calls are not known")
@pytest.mark.parametrize("kind", ["shm", "tcp"])
def test_a_signal_that_ends_no_sleep_is_heard(kind):
    told = []
    before = signal.signal(signal.SIGUSR1, _handler)
    try:
        with maker_of(kind).pair() as pair:
            pair.near.settimeout(6)
            while len(told) < ROUNDS and True not in told:
                heard = threading.Event()
                ringing = threading.Thread(target=_rung, args=(heard, told))
                ringing.start()
                with pytest.raises(Alarm):
                    pair.near.recv(1)
                heard.set()
                ringing.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told[-1]
