"""Faults: no memory, no descriptors."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource

import pytest

from fastsock.testing import FarProcess
from fastsock.testing.outcomes import outcome

from ..helpers.paths import carriers_of
from .processes import exchange, listen, serve_once


def _little_memory(here):
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    # Enough for Python to go on, too little for a ring each way.
    limit = pages * mmap.PAGESIZE + 1_500_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _no_files(here):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _tiny_dev_shm(here):
    """A /dev/shm of one page, in a mount namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    new_mounts, private, recursive = 0x00020000, 1 << 18, 1 << 14
    if libc.unshare(new_mounts) or libc.mount(b"none", b"/", None, private | recursive, None):
        return os.strerror(ctypes.get_errno())
    if libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=4k"):
        return os.strerror(ctypes.get_errno())
    return None


SCARCITIES = (_little_memory, _no_files, _tiny_dev_shm)


@pytest.mark.parametrize("poor", ["server", "client", "both"])
@pytest.mark.parametrize("scarcity", SCARCITIES, ids=lambda function: function.__name__.strip("_"))
def test_scarce_memory(near, scarcity, poor):
    """Where the memory cannot be had, another path carries the bytes."""
    with FarProcess() as server, FarProcess() as client:
        for process in [server] * (poor != "client") + [client] * (poor != "server"):
            reason = process.run(scarcity)
            if reason:
                pytest.skip(f"needs the right to mount: {reason}")
        address = server.run(listen, near)
        for _ in range(3):
            serving = server.begin(serve_once, near)
            took = client.run(exchange, near, address)
            assert serving.result() == took
            if near.transport:
                assert took in ("shm", "tcp")


def _limit_descriptors(here, spare):
    """Leave room for so many descriptors: what the next `spare` calls that open one will get."""
    number = os.open(os.devnull, os.O_RDONLY)
    os.close(number)
    while spare:
        number += 1
        spare -= not _is_open(number - 1)
    while _is_open(number):
        number += 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def _is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _exchange_with_spare(here, maker, address, spare):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, spare)
    try:
        return outcome(exchange, here, maker, address)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


def _serve_with_spare(here, maker, spare):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, spare)
    try:
        return outcome(serve_once, here, maker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


@pytest.mark.parametrize("spare", range(1, 9))
def test_scarce_descriptors_of_a_client(near, spare):
    """One descriptor is enough for plain TCP; so it is here."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        serving = server.begin(serve_once, near)
        took = client.run(_exchange_with_spare, near, address, spare)
        assert took in ("plain", "shm", "tcp"), took
        assert serving.result() == took
        # The limit gone, the path is taken as ever, and nothing was leaked.
        serving = server.begin(serve_once, near)
        assert client.run(exchange, near, address) in carriers_of(near)
        serving.result()


@pytest.mark.parametrize("spare", range(1, 9))
def test_scarce_descriptors_of_a_server(near, spare):
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        serving = server.begin(_serve_with_spare, near, spare)
        took = client.run(exchange, near, address)
        assert serving.result() == took, took
        # A listener that let an offer lapse may be remembered for a while.
        serving = server.begin(serve_once, near)
        assert client.run(exchange, near, address) in (*carriers_of(near), "tcp")
        serving.result()


@pytest.mark.parametrize("spare", range(1, 5))
def test_scarce_descriptors_of_a_server_that_was_met_before(near, spare):
    """What earlier connections let both ends agree on must not be counted on when the descriptors are gone."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        for _ in range(5):
            serving = server.begin(serve_once, near)
            took = client.run(exchange, near, address)
            assert serving.result() == took
        serving = server.begin(_serve_with_spare, near, spare)
        took = client.run(exchange, near, address)
        assert serving.result() == took, took


def test_server_that_closes_what_it_does_not_know(near):
    """A daemon closes every number but its own, those that fastsock holds among them."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        for round_number in range(8):
            if round_number == 5:
                server.run(_close_process_descriptors)
            serving = server.begin(serve_once, near)
            took = client.run(exchange, near, address)
            assert serving.result() == took


def _close_process_descriptors(here):
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "pidfd" in os.readlink(f"/proc/self/fd/{name}"):
                os.close(int(name))


def test_no_descriptor_at_all(near):
    """accept() and socket() fail as plain ones do, and the connection can be accepted later."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        exchanging = client.begin(exchange, near, address)
        answer = server.run(_serve_with_spare, near, 0)
        assert answer == "OSError EMFILE"
        serving = server.begin(serve_once, near)
        assert serving.result() == exchanging.result()


def test_listening_without_a_spare_descriptor(near):
    """The listener's own descriptor is the last one: it listens, plainly."""
    with FarProcess() as server, FarProcess() as client:
        address = server.run(_listen_as_the_last, near)
        serving = server.begin(serve_once, near)
        took = client.run(exchange, near, address)
        assert serving.result() == took


def _listen_as_the_last(here, maker):
    previous = resource.getrlimit(resource.RLIMIT_NOFILE)
    _limit_descriptors(here, 1)
    try:
        return listen(here, maker)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, previous)


def _limit_address_space(here, mebibytes):
    with open("/proc/self/statm") as file:
        limit = int(file.read().split()[0]) * mmap.PAGESIZE + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _hold_connections(here, maker, address, count):
    here.held = [maker.connect(address) for _ in range(count)]
    for sock in here.held:
        sock.sendall(b"x")
        assert sock.recv(1) == b"x"


def _allocate(here, mebibytes):
    return len(bytearray(mebibytes << 20)) >> 20


def _echo_one_byte_each(here, count):
    held = [here.listener.accept()[0] for _ in range(count)]
    for sock in held:
        sock.sendall(sock.recv(1))
    here.held = held


def test_an_address_space_limit_is_the_programs(near):
    """Many connections leave room for an allocation of its own; those beyond a share of the limit take another path."""
    count, limit, own = 50, 700, 300
    with FarProcess() as server, FarProcess() as client:
        address = server.run(listen, near)
        client.run(_limit_address_space, limit)
        serving = server.begin(_echo_one_byte_each, count)
        client.run(_hold_connections, near, address, count)
        serving.result()
        assert client.run(_allocate, own) == own
