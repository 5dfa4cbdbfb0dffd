"""Who may map an endpoint, and how it is found."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time

import pytest

from fastsock import active, config
from fastsock.meeting import user_names
from fastsock.testing.process import until_stopped

from .conftest import fresh_name
from .far import TAG, end


def test_only_the_right_tag(near):
    with pytest.raises(active.Refused, match=r"the tag of .* is another"):
        near.map(1, tag=TAG + 1)
    assert near.call(1, 1) == (1,)


def test_only_registered_names(near):
    with pytest.raises(active.Refused, match="nobody on this host has the name"):
        near.endpoint.map(1, near.name + "x", TAG)
    near.far.run(unregister, near.name)
    with pytest.raises(active.Refused, match="nobody on this host has the name"):
        near.map(1)
    assert near.call(1, 1) == (1,)  # what is mapped stays


def test_what_is_mapped_stays_when_the_name_goes_at_once(near):
    """The far end's thread of the hello may be behind: it must not look for the name again."""
    for index in range(1, 41):
        name = f"{near.name}-{index}"
        near.far.run(register, name)
        near.endpoint.map(index, name, TAG)
        near.far.run(unregister, name)
        near.endpoint.request(index, 1, index)
        near.until(index)
        assert near.got[-1:] == [(index,)], f"it came back: {near.returned}"


def test_an_endpoint_that_closes_while_it_is_mapped_ends_the_connection(near):
    near.far.run(closes_when_asked, near.name + "-closing")
    near.endpoint.map(1, near.name + "-closing", TAG)
    near.endpoint.request(1, 1, 7)
    near.until()
    assert [each.reason for each in near.returned] == [active.Reason.LOST]


def closes_when_asked(here, name):
    """An endpoint that has granted its terms, and is gone when the connection comes."""
    here.another = active.Bundle()
    endpoint = here.another.endpoint(tag=TAG)

    def terms(wanted, granted=endpoint.terms):
        found = granted(wanted)
        endpoint.close()
        return found

    endpoint.terms = terms
    endpoint.register(name)


def register(here, name):
    here.endpoint.register(name)


def unregister(here, name):
    here.endpoint.unregister(name)


def test_by_machine_and_name(near):
    host, port = near.far.run(address)
    near.endpoint.map(1, active.Name(f"{host}:{port}", near.name), TAG)
    near.endpoint.request(1, 1, 6)
    near.until()
    assert near.got == [(6,)]
    with pytest.raises(active.Refused, match="no endpoint has the name"):
        near.endpoint.map(2, active.Name(f"{host}:{port}", "another"), TAG)
    with pytest.raises(ValueError, match="write host:port"):
        near.endpoint.map(2, active.Name("host", "another"), TAG)


@pytest.mark.parametrize("by", ["name", "address"])
def test_a_stopped_process_is_waited_for_no_longer_than_told(near, by):
    host, port = near.far.run(address)
    name = near.name if by == "name" else active.Name(f"{host}:{port}", near.name)
    config.configure(meeting_ms=10)  # as without tests; a path is waited for ten times as long, where it seems near
    near.far.kill(signal.SIGSTOP)
    until_stopped(near.far.pid)
    began = time.monotonic()
    try:
        with pytest.raises(TimeoutError, match=f"cannot map '{near.name}'.*stopped"):
            near.endpoint.map(1, name, TAG, timeout=0.3)
    finally:
        near.far.kill(signal.SIGCONT)
    assert time.monotonic() - began < 4.0  # a look that knows no time takes five seconds
    near.endpoint.map(1, name, TAG)


def test_nobody_listens_at_the_address(near):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectionRefusedError, match=f"cannot map '{near.name}' at 127.0.0.1:{port}"):
        near.endpoint.map(1, active.Name(f"127.0.0.1:{port}", near.name), TAG)


def address(here):
    return here.bundle.door.address


def test_another_key(near, monkeypatch):
    monkeypatch.setenv("FASTSOCK_RMI_KEY", "not the key of these tests")
    with pytest.raises(active.Refused, match="another key"):
        near.map(1)
    monkeypatch.setenv("FASTSOCK_RMI_KEY", "short")
    with pytest.raises(ConnectionError, match="16"):
        near.map(1)
    assert near.call(1, 1) == (1,)


def test_a_name_has_one_owner(near):
    with pytest.raises(active.Refused, match="another process has it"):
        near.endpoint.register(near.name)
    near.endpoint.register(near.name + "-2")
    with pytest.raises(active.Refused, match="already"):
        near.endpoint.register(near.name + "-2")
    assert {near.name, near.name + "-2"} <= set(user_names.names_here("active/1"))
    near.endpoint.unregister(near.name + "-2")
    assert near.name + "-2" not in user_names.names_here("active/1")


@pytest.mark.parametrize("name", ("", "/x", "a\nb", "x" * 71))
def test_what_is_no_name(name):
    with active.Bundle() as bundle, pytest.raises(ValueError, match="is no name"):
        bundle.endpoint().register(name)


def test_a_name_dies_with_its_process(near):
    near.far.kill()
    near.far.wait()
    assert near.name not in user_names.names_here("active/1")
    with pytest.raises(active.Refused):
        near.map(1)


def test_an_endpoint_of_the_same_process(path):
    name = fresh_name()
    got = []
    with active.Bundle() as bundle:
        one, two = bundle.endpoint(), bundle.endpoint()
        one.handle(1, lambda token, *words: token.reply(2, *words))
        two.handle(2, lambda token, *words: got.append(words))
        one.register(name)
        two.map(0, name)
        two.request(0, 1, 4, 5)
        while not got:
            bundle.poll(30)
    assert got == [(4, 5)]


def test_close_frees_descriptors(near):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        near.map(2)
        near.endpoint.unmap(2)
        near.bundle.poll()
    while len(os.listdir("/proc/self/fd")) > before + 1:  # over TCP once the other kernel has what was sent
        near.bundle.poll()
    near.far.run(end)


def test_a_door_at_another_address(near):
    door = active.Door(("127.0.0.1", 0), key="a key of sixteen bytes")
    bundle = active.Bundle(door)
    endpoint = bundle.endpoint()
    with pytest.raises(active.Refused, match="another key"):
        endpoint.map(0, near.name, TAG)
    bundle.close()
    door.close()


def test_a_program_that_only_polls_without_waiting_can_be_mapped(path):
    name, got = fresh_name(), []
    with active.Bundle() as bundle, active.Bundle() as asking:
        answering = bundle.endpoint()
        answering.handle(1, lambda token, *words: got.append(words))
        answering.register(name)
        endpoint = asking.endpoint()
        endpoint.map(0, name)
        endpoint.request(0, 1, 5)
        while endpoint.entries[0].under_way:
            bundle.poll()
            asking.poll()
    assert got == [(5,)]


def test_closing_again_or_behind_the_bundle_does_nothing():
    bundle = active.Bundle()
    endpoint = bundle.endpoint()
    endpoint.register(fresh_name())
    bundle.close()
    endpoint.close()
    endpoint.close()
    bundle.close()


def test_a_process_that_can_start_no_more_threads_is_mapped_all_the_same(near):
    near.far.run(no_more_threads)
    for index in range(1, 21):
        near.map(index)
        near.endpoint.request(index, 1, index)
        near.until(index)
        assert near.got[-1:] == [(index,)], f"it came back: {near.returned}"
    near.far.run(unregister, near.name)


def test_a_door_that_cannot_start_its_thread_refuses_and_may_be_asked_again(path):
    name, door = fresh_name(), active.Door()
    with active.Bundle(door) as bundle:
        endpoint = bundle.endpoint()
        before = threading.stack_size(NO_ROOM)
        try:
            with pytest.raises(active.Refused, match="no more threads"):
                endpoint.register(name)
        finally:
            threading.stack_size(before)
        endpoint.register(name)
        bundle.endpoint().map(0, name)
    door.close()


NO_ROOM = 1 << 46  # bytes of a stack that no process has room for


def no_more_threads(here):
    threading.stack_size(NO_ROOM)
