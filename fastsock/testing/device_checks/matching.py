"""Which receive gets which message: source, tag and context, wildcards, order."""

from __future__ import annotations

from ..ranks import on_ranks

ANY = -1


@on_ranks(2)
def check_order_of_one_pair(device):
    """Short and long messages, eager and not, are received in the order of their sends."""
    sizes = [1, 300_000, 10, 70_000, 0, 2_000_000, 5, 131_072, 131_073, 64]
    if device.id() == 0:
        sends = [device.isend(bytes(size), 1, 3) for size in sizes * 3]
        for each in sends:
            each.iwait()
    else:
        assert [device.recv(None, 0, 3).length for _ in sizes * 3] == sizes * 3


@on_ranks(2)
def check_receives_by_tag_in_any_order(device):
    if device.id() == 0:
        for tag in range(50):
            device.send(tag, 1, tag)
    else:
        for tag in reversed(range(50)):
            status = device.recv(None, 0, tag)
            assert (status.value, status.tag) == (tag, tag)


@on_ranks(2)
def check_contexts_are_apart(device):
    if device.id() == 0:
        for context in (0, 1, 2, 77, 2**31 - 1):
            device.send(context, 1, 5, context)
    else:
        for context in (2**31 - 1, 1, 77, 0, 2):
            assert device.iprobe(ANY, ANY, 3) is None
            status = device.recv(None, ANY, ANY, context)
            assert (status.value, status.context) == (context, context)


@on_ranks(4)
def check_any_source(device):
    if device.id() == 0:
        seen = {}
        for _ in range(30):
            status = device.recv(None, ANY, 1)
            assert status.value == (status.source, seen.get(status.source, 0)), "out of order within a pair"
            seen[status.source] = status.value[1] + 1
        assert seen == {1: 10, 2: 10, 3: 10}
    else:
        for number in range(10):
            device.send((device.id(), number), 0, 1)


@on_ranks(2)
def check_any_tag(device):
    if device.id() == 0:
        for tag in (9, 0, 2**31 - 1, 4):
            device.send(b"", 1, tag)
    else:
        assert [device.recv(None, 0, ANY).tag for _ in range(4)] == [9, 0, 2**31 - 1, 4]


@on_ranks(2)
def check_posted_receives_are_filled_in_order(device):
    if device.id() == 0:
        device.recv(None, 1, 2)
        for number in range(20):
            device.send(number, 1, 1)
    else:
        requests = [device.irecv(None, *((0, 1) if number % 2 else (ANY, ANY))) for number in range(20)]
        device.send(b"ready", 0, 2)
        assert [request.iwait().value for request in requests] == list(range(20))


@on_ranks(2)
def check_posted_wildcard_takes_what_a_later_one_wants(device):
    if device.id() == 0:
        device.recv(None, 1, 9)
        device.send("first", 1, 4)
        device.send("second", 1, 4)
    else:
        wild = device.irecv(None, ANY, ANY)
        exact = device.irecv(None, 0, 4)
        device.send(b"", 0, 9)
        assert (exact.iwait().value, wild.iwait().value) == ("second", "first")


@on_ranks(2)
def check_wildcard_skips_other_contexts(device):
    if device.id() == 0:
        device.send("other", 1, 1, 6)
        device.send("mine", 1, 1, 4)
    else:
        assert device.recv(None, ANY, ANY, 4).value == "mine"
        assert device.recv(None, ANY, ANY, 6).value == "other"


@on_ranks(2)
def check_wildcard_of_oneself(device):
    request = device.irecv(None, ANY, 8)
    device.send("me", device.id(), 8)
    status = request.iwait()
    assert (status.value, status.source) == ("me", device.id())


@on_ranks(2)
def check_many_unexpected_then_posted(device):
    """Thousands of messages that nobody waited for, taken out in another order."""
    count = 3000
    if device.id() == 0:
        for number in range(count):
            device.send(number, 1, number % 7)
        return
    for tag in (3, 6, 0, 5, 1, 4, 2):
        expected = list(range(tag, count, 7))
        assert [device.recv(None, 0, tag).value for _ in expected] == expected
