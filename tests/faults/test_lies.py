"""A peer that writes whatever it likes into the shared memory, or that left the ring: no interpreter stands still.

A call may fail, return or wait on. What it may never do is keep the interpreter's lock or its thread to itself: the
other threads go on, a signal's handler runs in it, and a timeout ends it. FASTSOCK_SOAK=1 tells thousands of lies.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import struct
import threading
import time

import pytest

from fastsock.testing import FarProcess
from fastsock.testing.outcomes import describe, fill

from .processes import LONG, Progress, accept, connect, listen, settle

TICKS, IN_CALL, HANDLED, LIES, STOP = range(5)
ENOUGH_TICKS = 5
ROUNDS = 2000 if LONG else 25
HEADER = 4096  # more than the shared words of a connection take


class Enough(Exception):
    """Raised by the signal's handler, to end a call that waits."""


def _tick_for_ever(progress):
    while True:
        progress.set(TICKS, progress.get(TICKS) + 1)
        time.sleep(0.001)  # a beat, which others count: synchronises nothing


def _prepare(here):
    def handle(number, frame):
        here.progress.set(HANDLED, here.progress.get(HANDLED) + 1)
        if here.progress.get(IN_CALL):
            here.progress.set(IN_CALL, 0)
            raise Enough

    signal.signal(signal.SIGUSR1, handle)
    threading.Thread(target=_tick_for_ever, args=(here.progress,), daemon=True).start()


def _make_call(here, what, timeout):
    """One call; what came of it."""
    sock = here.sock
    try:
        if what == "send":
            fill(sock)
        sock.settimeout(timeout)
        here.progress.set(IN_CALL, 1)
        CALLS[what](sock)
        here.progress.set(IN_CALL, 0)
        return "returned"
    except Enough:
        return "interrupted"
    except OSError as error:
        with contextlib.suppress(Enough):
            here.progress.set(IN_CALL, 0)
        return describe(error)


CALLS = {
    "recv": lambda sock: sock.recv(100_000),
    "recv_into": lambda sock: sock.recv_into(bytearray(300_000)),
    "waitall": lambda sock: sock.recv(100_000, socket.MSG_WAITALL),
    "peek": lambda sock: sock.recv(100, socket.MSG_PEEK),
    "send": lambda sock: sock.send(bytes(100)),
    "sendall": lambda sock: sock.sendall(bytes(1 << 20)),
    "sendmsg": lambda sock: sock.sendmsg([bytes(100), bytes(100_000)]),
}


def _until(condition, pending):
    """Whether the condition came true; False where the call that is pending ended before it."""
    give_up = time.monotonic() + 30
    while not condition():
        if pending.done():
            return False
        assert time.monotonic() < give_up, "the interpreter stands still: no thread runs, no signal is heard"
        time.sleep(0.0005)  # between two looks at shared memory, which has no event
    return True


def _is_alive_in(victim, progress, calling, timeout):
    """While the call waits other threads tick; then a signal, or the timeout, ends it."""
    _until(lambda: progress.get(IN_CALL), calling)
    ticks, handled = progress.get(TICKS), progress.get(HANDLED)
    if _until(lambda: progress.get(TICKS) > ticks + ENOUGH_TICKS, calling) and timeout is None:
        # again and again: one that comes right before a sleep does not end it, on plain TCP neither
        _until(lambda: victim.kill(signal.SIGUSR1) or progress.get(HANDLED) > handled, calling)
    return calling.result()


def _run_on(here, which):
    """Two ends on two cores look longer before they wait."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[which % len(cores)]})


def _detach(here):
    here.number = here.sock.detach()
    del here.sock


def _answer(here):
    os.write(here.number, b"answer")


@pytest.mark.parametrize("timeout", [None, 0.05], ids=["blocking", "with a timeout"])
@pytest.mark.parametrize("shut", [False, True], ids=["open", "half closed"])
def test_the_other_end_detached(near, shut, timeout):
    """A receiver goes on over the raw descriptor, and is no less alive for it."""
    progress = Progress(5)
    with FarProcess() as other, FarProcess(progress=progress) as victim:
        other.run(_run_on, 0)
        victim.run(_run_on, 1)
        address = other.run(listen, near)
        accepting = other.begin(accept, near)
        victim.run(connect, near, address)
        accepting.result()
        victim.run(_prepare)
        exchanging = victim.begin(_exchange_a_word)
        other.run(_exchange_a_word)
        exchanging.result()
        if shut:
            victim.run(_shut_writing)
        other.run(_detach)
        calling = victim.begin(_make_call, "recv", timeout)
        assert _is_alive_in(victim, progress, calling, timeout) == ("TimeoutError" if timeout else "interrupted")
        other.run(_answer)
        assert victim.run(_receive_answer) == b"answer"


def _exchange_a_word(here):
    here.sock.sendall(b"word")
    assert here.sock.recv(4, socket.MSG_WAITALL) == b"word"


def _shut_writing(here):
    here.sock.shutdown(socket.SHUT_WR)


def _receive_answer(here):
    here.sock.settimeout(None)
    return here.sock.recv(100)


def _lie(here, seed):
    """Write lies into a few words of the shared memory, over and over, until told to stop."""
    chooser, progress = random.Random(seed), here.progress
    with open("/proc/self/maps") as file:
        start = min(int(line.partition("-")[0], 16) for line in file if "memfd:fastsock" in line)
    words = [start + 4 * chooser.randrange(64, HEADER // 4) for _ in range(chooser.choice((1, 2, 40, 200)))]
    memory = os.open("/proc/self/mem", os.O_RDWR)
    try:
        while not progress.get(STOP):
            for word in words:
                before = struct.unpack("I", os.pread(memory, 4, word))[0]
                value = chooser.choice((before + 1, before - 1, before ^ 1, 0, 1, 4096, chooser.getrandbits(32)))
                os.pwrite(memory, struct.pack("I", value & 0xFFFFFFFF), word)
            progress.set(LIES, progress.get(LIES) + len(words))
            if chooser.random() < 0.2:
                here.sock.send(b"x", socket.MSG_DONTWAIT)
    except OSError:  # its own lies are believed here too
        pass
    finally:
        os.close(memory)


def test_lies_stop_no_thread(near):
    """Whatever words the other end turns over, for as long as it likes."""
    if near.transport != "shm":
        pytest.skip("no shared memory")
    chooser = random.Random(ROUNDS)
    progress = Progress(5)
    with FarProcess(progress=progress) as liar, FarProcess(progress=progress) as victim:
        victim.run(_prepare)
        liar.run(_run_on, 0)
        victim.run(_run_on, 1)
        address = liar.run(listen, near)
        for seed in range(ROUNDS):
            accepting = liar.begin(accept, near)
            victim.run(connect, near, address)
            accepting.result()
            settling = liar.begin(settle, near)
            victim.run(settle, near)
            settling.result()
            timeout = chooser.choice((None, None, 0.02))
            progress.set(STOP, 0)
            lying = liar.begin(_lie, seed)
            calling = victim.begin(_make_call, chooser.choice(list(CALLS)), timeout)
            _is_alive_in(victim, progress, calling, timeout)
            progress.set(STOP, 1)
            lying.result()
            for process in (victim, liar):
                process.run(_close)
        assert progress.get(LIES) > ROUNDS


def _close(here):
    here.sock.close()
