"""Faults of ibvdev: every rank hears of it, no rank hangs, and no byte is wrong.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_ibvdev_faults.py`. The device is made anew after each test
that breaks it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess

import pytest

from fastsock.testing import ranks
from fastsock.testing.process import FarProcess

from .guest import Guest, only_in_full, only_in_lab
from .test_rdma_faults import _drop_the_right_to_lock, _link, _mend

pytestmark = [only_in_lab, only_in_full]

PATIENCE = 60.0
FOR_EVER = 1 << 30
LENGTHS = (10, 3000, 150_000, 300_000)  # two of one segment, and two long messages
FEW = "1M"


@pytest.fixture(autouse=True)
def guest():
    guest = Guest()
    if guest.net != "veth" or not all(map(guest.counts, guest.devices())):
        pytest.skip("needs SoftRoCE on a veth: tests/lab/run without a topology")
    device = guest.devices()[0]
    before = guest.sent_packets(device)
    yield guest
    if device in guest.devices():
        print("\npackets sent:", guest.sent_packets(device) - before)


def _data(length, number):
    return bytes((number + step) & 255 for step in range(256)) * (length // 256 + 1)


def _exchange(engine, other, number):
    """One message each way at once. Raises AssertionError for a wrong byte."""
    length = LENGTHS[number % len(LENGTHS)]
    data = _data(length, number)[:length]
    received = bytearray(length)
    sending = engine.isend(data, other, number % 100, 9)
    engine.recv(received, other, number % 100, 9)
    sending.wait_or_cancel()
    assert received == data, f"a wrong byte in message {number}"


def _go(here, rounds):
    """How many rounds passed, and the error that ended them, if any."""
    from fastsock.xxdev import XxdevError

    number = 0
    try:
        while number < rounds:
            _exchange(here.device.engine, 1 - here.rank, number)
            number += 1
    except XxdevError as error:
        here.device.job.close()
        return number, int(error.code), str(error)
    return number, 0, ""


def _kill(ranks):
    ranks.processes[1].kill(signal.SIGKILL)


def _cut_link(ranks):
    subprocess.run(["ip", "link", "set", _link().split()[-1], "down"], check=True, timeout=PATIENCE)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("fault", [_kill, _cut_link])
def test_every_rank_hears_of_it(guest, fault):
    from fastsock.xxdev import Code

    device, network_device = guest.devices()[0], _link().split()[-1]
    try:
        with ranks.RankMaker("ibvdev").ranks(2) as pair:
            assert all(passed == 4 for passed, _, _ in pair.all(_go, 4))
            pending = [pair.begin(rank, _go, FOR_EVER) for rank in range(2)]
            start = guest.sent_packets(device)
            while guest.sent_packets(device) < start + 3000:
                os.sched_yield()
            fault(pair)
            told = [one.result(PATIENCE) for one in pending[: 1 if fault is _kill else 2]]
            print(f"\n{fault.__name__}: {told}")
    finally:
        _mend(guest, device, network_device)
    for _, code, text in told:
        assert code == Code.PEER_FAILED and "rank" in text


def _limited(here):
    """In a process that has no device yet: ranks that may lock 64 KiB, and what their messages end with."""
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 16, 1 << 16))
    _drop_the_right_to_lock()
    with ranks.RankMaker("ibvdev").ranks(2) as pair:
        return pair.all(_go, 1)


@pytest.mark.timeout(240)
def test_out_of_locked_memory(guest):
    with FarProcess() as clean:
        told = clean.begin(_limited).result(2 * PATIENCE)
    print(f"\n{told}")
    assert all(passed == 0 and code for passed, code, _ in told)
    assert any("ulimit -l" in text for _, _, text in told)


COUNT, SIZE = 2000, 1500


def _flood(device):
    """3 MB of short messages to a rank that does not look: they wait for credits, and all arrive."""
    engine, me = device.engine, device.id()
    if me == 0:
        sending = [engine.isend(_data(SIZE, number)[:SIZE], 1, 3, 9) for number in range(COUNT)]
        device.isend(b"all begun", 1, 4).iwait()
        for one in sending:
            one.wait_or_cancel()
    else:
        received = bytearray(SIZE)
        for number in range(COUNT):
            engine.recv(received, 0, 3, 9)
            assert received == _data(SIZE, number)[:SIZE]
        device.recv(None, 0, 4)
    return device.explain(1 - me)


@pytest.mark.timeout(240)
def test_credits_run_out_and_come_back(guest):
    carried = ranks.RankMaker("ibvdev").run(2, _flood)
    print(f"\n{carried}")
    assert carried[0]["stalls"] > 0 and carried[0]["segments"] > 64


def _long(device, rounds):
    other = 1 - device.id()
    for number in range(rounds):
        length = 3_000_000
        data, received = _data(length, number)[:length], bytearray(length)
        sending = device.engine.isend(data, other, 5, 9)
        device.engine.recv(received, other, 5, 9)
        sending.wait_or_cancel()
        assert received == data
    return device.explain(other)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("bound", ["1G", "7M", FEW])
def test_registered_memory_is_bounded(guest, bound):
    """Beyond the bound what stayed registered goes, and then a message is copied."""
    maker = ranks.RankMaker("ibvdev", (("FASTSOCK_MPJ_RDMA_MEMORY", bound),))
    for carried in maker.run(2, _long, 3):
        print(f"\n{carried}")
        if bound == FEW:
            assert carried["placed"] == 0 and carried["refused"] >= 3 and carried["most_registered"] <= 1 << 20
        else:
            assert carried["placed"] == 9_000_000 and carried["refused"] == 0
            assert 3_000_000 <= carried["most_registered"] <= (7 << 20 if bound == "7M" else 1 << 30)
        assert carried["registered"] <= carried["most_registered"]


def _again_at_the_same_address(device):
    """Two long messages from one address, and into one, where other memory lies the second time."""
    import ctypes
    import mmap

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    length, other = 1 << 20, 1 - device.id()
    flags, writable = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
    fixed = 0x10
    ours = libc.mmap(None, 2 * length, writable, flags, -1, 0)
    for number in range(3):
        if number:
            assert libc.munmap(ours, 2 * length) == 0
            assert libc.mmap(ours, 2 * length, writable, flags | fixed, -1, 0) == ours
        source = (ctypes.c_char * length).from_address(ours)
        target = (ctypes.c_char * length).from_address(ours + length)
        source.raw = _data(length, number)[:length]
        sending = device.engine.isend(source, other, 5, 9)
        device.engine.recv(target, other, 5, 9)
        sending.wait_or_cancel()
        assert target.raw == _data(length, number)[:length], f"bytes of before in message {number}"
    return device.explain(other)


@pytest.mark.timeout(240)
def test_memory_that_is_mapped_again_carries_the_new_bytes(guest):
    for carried in ranks.RankMaker("ibvdev").run(2, _again_at_the_same_address):
        assert carried["placed"] == 3 << 20
