"""What was sent arrives, though its end closes, or its process ends, while the other end still sends to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fastsock import rmi
from fastsock.rmi.client import connecting
from fastsock.testing.process import until_stopped

from .conftest import until

LINES = 12
FLOOD = 512 << 20  # far more than all buffers hold
LONG = 15_000  # a line. Together they fit in a ring, and are more than TCP sends to whoever reads nothing

CLIENT = f"""
import atexit, socket, sys
from fastsock import rmi
from tests.rmi.objects import Store

def send():
    for i in range({LINES}):
        store.log(f"{{i}} " + "x" * {LONG})
    if "closes" in how:
        rmi.close(store)
    print("sent", flush=True)

name, how = sys.argv[1:]
if "default timeout" in how:
    socket.setdefaulttimeout(5)
if how == "ends, and sends then":
    atexit.register(send)
store = rmi.connect("rmi:" + name, Store)
rows = store.arrays(100, 1 << 16)
print("asked", flush=True)
input()
if how != "ends, and sends then":
    send()
"""


def numbers(store):
    return [int(line.partition(" ")[0]) for line in store.logged()]


def say(client, text=""):
    client.stdin.write(text + "\n")
    client.stdin.flush()


def test_one_way_calls_before_a_close_all_run(served, store):
    client = served.connect()
    rows = client.arrays(100, 1 << 16)  # more comes than anybody takes
    until(lambda: store.streams()[1] > 0)
    served.far.kill(signal.SIGSTOP)
    until_stopped(served.far.pid)
    for i in range(LINES):
        client.log(f"{i} " + "x" * LONG)
    rmi.close(client)  # does not wait for an end that reads nothing
    served.far.kill(signal.SIGCONT)
    until(lambda: len(store.logged()) == LINES)
    assert numbers(store) == list(range(LINES))
    del rows


@contextmanager
def sent_to_who_is_stopped(served, store, how):
    """A client that has sent its lines to a stopped daemon, and goes on to its end."""
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, served.name, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout.readline() == "asked\n"
        until(lambda: store.streams()[1] > 0)
        served.far.kill(signal.SIGSTOP)
        until_stopped(served.far.pid)
        say(client)
        assert client.stdout.readline() == "sent\n"
        client.stdin.close()
        yield client


@pytest.mark.parametrize("how", ["closes", "closes with a default timeout", "ends", "ends, and sends then"])
def test_one_way_calls_before_the_end_of_a_process_all_run(served, store, how):
    with sent_to_who_is_stopped(served, store, how) as client:
        until_ended_or_asleep(client)
        served.far.kill(signal.SIGCONT)
        assert client.wait(30) == 0
    until(lambda: len(store.logged()) == LINES)
    assert numbers(store) == list(range(LINES))


def test_an_end_that_takes_nothing_does_not_hold_a_process_for_ever(served, store):
    with sent_to_who_is_stopped(served, store, "ends") as client:
        assert client.wait(30) == 0
        served.far.kill(signal.SIGCONT)


def until_ended_or_asleep(process):
    """An end that does not wait for the other one is over then."""
    until(lambda: os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) or is_asleep(process.pid))


def is_asleep(pid):
    with open(f"/proc/{pid}/wchan") as file:
        return file.read() in ("hrtimer_nanosleep", "do_nanosleep")


def test_an_answer_before_a_close_arrives(served, store):
    """The daemon closes while the client sends to it. It reads meanwhile, so the client may never be stopped."""
    client = served.connect()
    answer = rmi.future(client.same)(bytes(3 << 20))
    until(lambda: most_sent(store) > 3 << 20)
    closing = served.far.begin(close)
    sent = 0
    with pytest.raises(rmi.LostPeer):
        while sent < FLOOD:
            client.log("x" * LONG)
            sent += LONG
    assert len(answer.result(30)) == 3 << 20
    closing.result()


def most_sent(store):
    """Bytes that the daemon has sent, or is sending, by one connection."""
    told = connecting.status_of(store._rmi_target.connection.session)
    return max(each["bytes_sent"] for each in told["connections"])


def close(here):
    here.daemon.close()


def test_a_program_ends_with_a_stream_that_nobody_reads(served, store):
    """Collected at the end of the interpreter it finds no thread any more."""
    program = CLIENT.partition("print(")[0]
    assert subprocess.run([sys.executable, "-c", program, served.name, ""], timeout=30).returncode == 0
