"""ibvdev on the guest's device: the conformance suite of devices, and the proof that the device carried it."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from dataclasses import replace

import pytest

from fastsock import buffers
from fastsock.testing import name, ranks
from fastsock.xxdev.errors import Code, XxdevError

from .guest import Guest, enter_host, only_in_full, only_in_lab

pytestmark = only_in_lab

# Who moves a long message: the sender's device writes it, or the receiver's reads it; and the count that shows it.
RENDEZVOUS = pytest.mark.parametrize(("rendezvous", "moved"), [("write", "placed"), ("read", "fetched")])
LONG = 1_000_000  # bytes of a message that the device takes from where they lie


@pytest.fixture(autouse=True)
def sent():
    """Packets that each device has sent since the test began, as a function. Prints them at the end."""
    guest = Guest()
    if not all(map(guest.counts, guest.devices())):
        pytest.skip("soft iWARP connects by the connection manager alone, and ibvdev by itself")
    if guest.net == "wire":
        pytest.skip("the ranks of a test are on one guest")
    before = {device: guest.sent_packets(device) for device in guest.devices()}

    def since() -> dict[str, int]:
        return {device: guest.sent_packets(device) - packets for device, packets in before.items()}

    yield since
    print("packets sent:", since())


def _enter(rank: int) -> None:
    """Even ranks and the job's server are on h1, odd ranks on h2."""
    enter_host(1 + max(rank, 0) % 2)


def _maker(rendezvous: str, *more: tuple[str, str]) -> ranks.RankMaker:
    guest = Guest()
    environment = (("FASTSOCK_MPJ_RDMA_RENDEZVOUS", rendezvous), *more)
    if guest.net == "pair":
        return ranks.RankMaker("ibvdev", environment, enter=_enter, server=guest.address)
    return ranks.RankMaker("ibvdev", environment)


def _exchange(device):
    """Each of two ranks sends the other 1000 bytes and a million; what its queue pair carried."""
    other = 1 - device.id()
    for length in (1000, 1_000_000):
        sending = device.isend(bytes(length), other, 1)
        assert device.recv(None, other, 1).length == length
        sending.iwait()
    return device.explain(other)


@pytest.mark.parametrize("eager", ["send", "write"])
def test_the_device_carries_the_messages(sent, eager):
    for carried in _maker("write", ("FASTSOCK_MPJ_RDMA_EAGER", eager)).run(2, _exchange):
        print(carried)
        assert carried["transport"] == "verbs"
        assert carried["device"] in Guest().devices()
        assert carried["segments"] > 0
        assert carried["received"] > 0
        assert carried["written"] == (carried["segments"] + carried["credit_segments"] if eager == "write" else 0)
    assert all(packets > 1000 for packets in sent().values())


def _exchange_many(device, rounds):
    """Each of two ranks sends the other many messages of all short lengths, ahead of the other's receives."""
    other = 1 - device.id()
    for number in range(rounds):
        messages = [bytes([number + each & 255]) * (each * 397 % 20_000) for each in range(40)]
        sends = [device.engine.isend(message, other, 5, 99) for message in messages]
        for message in messages:
            received = bytearray(20_000)
            envelope = device.engine.recv(received, other, 5, 99)
            assert envelope.length == len(message)
            assert received[: envelope.length] == message
        for each in sends:
            each.wait_or_cancel()
    return device.explain(other)


def _wants_to_write(rank):
    if rank == 1:
        os.environ["FASTSOCK_MPJ_RDMA_EAGER"] = "write"


@only_in_full
@pytest.mark.parametrize("eager", ["send", "write", "one end alone wants to write"])
def test_many_short_messages(sent, eager):
    alone = eager.startswith("one")
    maker = _maker("write", ("FASTSOCK_MPJ_RDMA_EAGER", "send" if alone else eager))
    if alone and maker.enter:
        pytest.skip("the ranks of this guest enter a host each")
    if alone:
        maker = replace(maker, enter=_wants_to_write)
    for carried in maker.run(2, _exchange_many, 12):
        print(carried)
        assert (carried["written"] > 64) == (eager == "write")


def _exchange_long(device):
    """Both ranks send at once 3 MB and five bytes, from one buffer into another; what the queue pair carried."""
    other = 1 - device.id()
    data = bytes(number * 7 & 255 for number in range(4099)) * 732 + b"12345"
    received = bytearray(len(data))
    sending = device.engine.isend(data, other, 5, 99)
    device.engine.recv(received, other, 5, 99)
    sending.wait_or_cancel()
    assert received == data
    return len(data), device.explain(other)


@RENDEZVOUS
def test_the_device_brings_a_long_message_to_where_it_belongs(sent, rendezvous, moved):
    for length, carried in _maker(rendezvous).run(2, _exchange_long):
        print(carried)
        assert carried[moved] == length
        assert carried["segments"] < 20


def _put_and_look_away(here):
    """Sends a long message, as far as to what its device writes by itself, and makes no call then."""
    engine = here.device.engine
    here.data = bytes([1]) * LONG
    here.sending = engine.isend(here.data, 0, 5, 99)
    while (here.device.explain(0) or {"placed": 0})["placed"] < LONG:
        engine.iprobe(0, 6, 99)


def _receive_and_finish(here):
    received = bytearray(LONG)
    here.device.engine.recv(received, 1, 5, 99)
    ranks.finish(here)
    return received == bytes([1]) * LONG


def _wait(here):
    here.sending.wait()
    ranks.finish(here)


def test_a_rank_may_finish_before_a_sender_has_heard_that_its_message_is_there(sent):
    with _maker("write").ranks(2) as both:
        receiving = both.begin(0, _receive_and_finish)
        both.run(1, _put_and_look_away)
        assert receiving.result()
        both.run(1, _wait)


def _exchange_mapped(device, rounds):
    """Sends from and receives into memory that is mapped for each message, at an address that was in use before."""
    other = 1 - device.id()
    addresses = set()
    for number in range(rounds):
        with mmap.mmap(-1, LONG) as outgoing, mmap.mmap(-1, LONG) as incoming:
            for each in (outgoing, incoming):
                view = ctypes.c_char.from_buffer(each)
                addresses.add(ctypes.addressof(view))
                del view  # else it could not be unmapped
            outgoing[:] = bytes([number + device.id()]) * LONG
            sending = device.engine.isend(outgoing, other, 5, 99)
            device.engine.recv(incoming, other, 5, 99)
            sending.wait_or_cancel()
            assert incoming[:] == bytes([number + other]) * LONG
    return len(addresses), device.explain(other)


@only_in_full
@RENDEZVOUS
def test_memory_that_is_mapped_anew(sent, rendezvous, moved):
    rounds = 6
    for addresses, carried in _maker(rendezvous).run(2, _exchange_mapped, rounds):
        print(addresses, carried)
        assert addresses < 2 * rounds
        assert carried[moved] == rounds * LONG
        assert carried["refused"] == 0


def _exchange_again(device, rounds):
    other = 1 - device.id()
    outgoing, incoming = bytes([device.id()]) * LONG, bytearray(LONG)
    for _ in range(rounds):
        sending = device.engine.isend(outgoing, other, 5, 99)
        device.engine.recv(incoming, other, 5, 99)
        sending.wait_or_cancel()
        assert incoming == bytes([other]) * LONG
    return device.explain(other)


@only_in_full
@RENDEZVOUS
@pytest.mark.parametrize("keeps", ["0", "1"])
def test_memory_stays_known(sent, keeps, rendezvous, moved):
    rounds = 5
    kept = []
    for carried in _maker(rendezvous, ("FASTSOCK_MPJ_RDMA_KEEPS_MEMORY", keeps)).run(2, _exchange_again, rounds):
        print(carried)
        assert carried[moved] == rounds * LONG
        assert (carried["registered"] > 0) == (keeps == "1")
        kept.append(carried["known_already"])
    assert kept == [2 * (rounds - 1) if keeps == "1" else 0] * 2


def _send_registered(device, rounds):
    """Sends from a registered buffer, and from one that is not; what the device knew, before, between and behind."""
    other = 1 - device.id()
    incoming = bytearray(LONG)
    known = [device.explain(other)]

    def exchange(outgoing):
        for _ in range(rounds):
            sending = device.engine.isend(outgoing, other, 5, 99)
            device.engine.recv(incoming, other, 5, 99)
            sending.wait_or_cancel()
        known.append(device.explain(other))

    plain = bytes([device.id()]) * LONG  # it lives to the end: memory that is freed is registered no longer
    exchange(plain)
    with buffers.RegisteredBuffer(LONG) as buffer:
        buffer.view("u1")[:] = device.id() + 7
        buffer.register(device)
        known.append(device.explain(other))
        exchange(buffer.view("u1", readonly=True))
        assert incoming == bytes([other + 7]) * LONG
        buffer.deregister()
        known.append(device.explain(other))
    del plain
    return known


def test_a_registered_buffer_is_registered_once(sent):
    rounds = 4
    for known in _maker("write").run(2, _send_registered, rounds):
        _, before, pinned, behind, unpinned = known
        print(known)
        assert pinned["registered"] - before["registered"] >= LONG
        assert behind["registered"] == pinned["registered"]
        assert behind["known_already"] - before["known_already"] >= rounds
        assert unpinned["registered"] == before["registered"]


class _Alarm(Exception):
    pass


def _ring(number, frame):
    raise _Alarm


def _send_interrupted(device, rounds):
    """Rank 0 is interrupted while it sends, and at once has its memory for something else; how often it was."""
    length = 150_000  # the rounds are many, and the guest is slow
    data = bytearray(length)
    received = bytearray(length)
    if device.id() == 0:
        signal.signal(signal.SIGALRM, _ring)
        interrupted = 0
        for number in range(rounds):
            data[:] = bytes([number]) * length
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.001 * (number % 40 + 1))
                device.engine.send(data, 1, 5, 99)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except _Alarm:
                interrupted += 1
            data[:] = b"\xff" * length
            device.engine.send(bytes([number]), 1, 6, 99)
        return interrupted
    number = 0
    while number < rounds:
        try:
            envelope = device.engine.recv(received, 0, -1, 99)
        except XxdevError as error:
            assert error.code == Code.CANCELLED, error
            continue
        assert received[0] == number
        if envelope.tag == 5:
            assert received == bytes([number]) * length
        else:
            number += 1
    return device.explain(0)


@only_in_full
@RENDEZVOUS
def test_an_interrupted_send_gives_its_memory_back(sent, rendezvous, moved):
    interrupted, carried = _maker(rendezvous).run(2, _send_interrupted, 60)
    print(interrupted, carried)
    assert interrupted


@only_in_full
@pytest.mark.parametrize(("rendezvous", "eager"), [("write", "send"), ("read", "write")])
@pytest.mark.parametrize("check", ranks.device_checks(), ids=name)
def test_device(check, rendezvous, eager):
    check(_maker(rendezvous, ("FASTSOCK_MPJ_RDMA_EAGER", eager)))
