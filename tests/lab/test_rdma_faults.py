"""Faults of a connection over RDMA: an error or the whole data, never a hang, never a wrong byte.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_rdma_faults.py`. Each test breaks the device, the link, or the
other end, while both ends move data. The device of the guest is made anew afterwards.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time

import pytest

from fastsock import config, testing
from fastsock.testing.process import FarProcess

from ..helpers.paths import preferring
from .guest import Guest, only_in_full, only_in_lab

pytestmark = [only_in_lab, only_in_full]

PIECE = bytes(range(256)) * 256
ENOUGH = 4 << 20  # moved before the fault
PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _by_rdma(monkeypatch):
    guest = Guest()
    if guest.net != "veth":
        pytest.skip("needs the device on a veth: tests/lab/run without a topology")
    with preferring("rdma"):
        monkeypatch.setenv("FASTSOCK_MEETING_MS", "10000")  # the guest's processor is emulated
        config.reload()
        yield guest


def _run(*words):
    subprocess.run(words, check=True, timeout=PATIENCE)


def _network_device():
    return os.environ.get("LAB_NETDEV") or _link().split()[-1]


def _link():
    """As `rdma link` prints it: `link rxe0/1 state ACTIVE physical_state LINK_UP netdev v0`."""
    return subprocess.run(["rdma", "link"], check=True, capture_output=True, text=True).stdout.splitlines()[0].strip()


def _send_for_ever(sock):
    """The error that ends it."""
    try:
        while True:
            sock.sendall(PIECE)
    except OSError as error:
        return type(error).__name__


def _receive_to_the_end(sock, moved):
    """What ends it: an error's name, or "end". Raises AssertionError for a wrong byte."""
    received = 0
    try:
        while True:
            data = sock.recv(1 << 16)
            if not data:
                return "end", received
            start = received % 256
            expected = (PIECE[start:256] + PIECE)[: len(data)]
            assert data == expected, f"a wrong byte behind {received}"
            received += len(data)
            if received >= ENOUGH:
                moved.set()
    except OSError as error:
        return type(error).__name__, received


def _while_moving(here, guest, fault, sends):
    """In a process that has not used RDMA: breaks a connection under load, and returns how both ends heard of it."""
    maker = testing.PairMaker("fastsock.socket", transport="rdma", host=guest.address)
    with maker.pair() as pair:
        pair.near.settimeout(PATIENCE)
        moved, told = threading.Event(), []
        if sends:
            assert pair.far.run(_set_timeout) is None
            receiving = pair.far.begin_run(_receive_far)
            thread = threading.Thread(target=lambda: told.append(_send_for_ever(pair.near)))
            thread.start()
            while pair.near._fast_channel.statistics()["bytes_sent"] < ENOUGH:
                thread.join(0.01)
            fault(guest, pair)
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the sender hangs"
            with contextlib.suppress(testing.process.Died):
                told.append(receiving.result(PATIENCE)[0])
        else:
            pair.far.run(_set_timeout)
            sending = pair.far.begin_run(_send_for_ever)
            thread = threading.Thread(target=lambda: told.append(_receive_to_the_end(pair.near, moved)[0]))
            thread.start()
            assert moved.wait(PATIENCE)
            fault(guest, pair)
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the receiver hangs"
            with contextlib.suppress(testing.process.Died):
                told.append(sending.result(PATIENCE))
        return told


def _set_timeout(sock):
    sock.settimeout(PATIENCE)


def _receive_far(sock):
    return _receive_to_the_end(sock, threading.Event())


def _kill(guest, pair):
    pair.far.process.kill(signal.SIGKILL)


def _remove_device(guest, pair):
    """The kernel waits with it until nobody has the device open: so this does not wait for the command."""
    subprocess.Popen(["rdma", "link", "delete", guest.devices()[0]])


def _cut_link(guest, pair):
    _run("ip", "link", "set", _network_device(), "down")


FAULTS = {"killed": _kill, "device removed": _remove_device, "link down": _cut_link}


def _mend(guest, device, network_device):
    """The device as it was, once all that used it have ended."""
    _run("ip", "link", "set", network_device, "up")
    deadline = time.monotonic() + PATIENCE
    while _is_going(device) and time.monotonic() < deadline:
        os.sched_yield()
    if not guest.devices():
        _run("rdma", "link", "add", device, "type", "rxe", "netdev", network_device)
    while not _is_ready(guest, device) and time.monotonic() < deadline:
        os.sched_yield()


def _is_ready(guest, device):
    """Whether its port is active and has the address again."""
    with contextlib.suppress(LookupError, OSError):
        return guest.state(device) == "ACTIVE" and guest.gid(device) >= 0
    return False


def _is_going(device):
    """Whether a command to remove the device is still under way."""
    commands = subprocess.run(["pgrep", "-f", f"rdma link delete {device}"], capture_output=True, text=True).stdout
    return bool(commands.split())


def _with_little_locked_memory(here, guest):
    """The path's reason in a process that may lock 64 KiB, and what its connection moved."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))
    _drop_the_right_to_lock()
    from fastsock import explain, socket

    maker = testing.PairMaker("socket", host=guest.address, far_module="fastsock.socket")
    with FarProcess() as far, socket.create_server((guest.address, 0)) as listener:
        sending = far.begin(_connect_and_send, listener.getsockname())
        accepted = listener.accept()[0]
        data = b""
        while part := accepted.recv(1 << 16):
            data += part
        sending.result(PATIENCE)
        assert maker
        return str(explain(accepted).transport), len(data)


def _drop_the_right_to_lock():
    """CAP_IPC_LOCK, from the effective and the permitted set: root's limit would not count else."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    for word in (0, 1, 2):
        sets[word] &= ~(1 << 14)
    assert libc.capset(header, sets) == 0


def _connect_and_send(here, address):
    from fastsock import socket

    with socket.create_connection(address) as sock:
        sock.sendall(PIECE * 16)
        return sock.transport


def test_out_of_locked_memory_it_stays_on_tcp(_by_rdma):
    with FarProcess() as clean:
        transport, received = clean.begin(_with_little_locked_memory, _by_rdma).result(2 * PATIENCE)
    assert (transport, received) == ("tcp", 16 * len(PIECE))


# The last one: the guest's address needs more than the link to be met again.
CASES = [(fault, sends) for fault in FAULTS for sends in (True, False)][:-1]


@pytest.mark.parametrize(("fault", "sends"), CASES)
def test_both_ends_hear_of_it(_by_rdma, fault, sends):
    guest = _by_rdma
    link = _link()
    device, network_device = link.split()[1].partition("/")[0], link.split()[-1]
    try:
        with FarProcess() as clean:
            told = clean.begin(_while_moving, guest, FAULTS[fault], sends).result(3 * PATIENCE)
    finally:
        _mend(guest, device, network_device)
    print(f"\n{fault}: {told}")
    assert told and all(name in ("ConnectionResetError", "BrokenPipeError", "OSError", "TimeoutError") for name in told)
    assert "TimeoutError" not in told
