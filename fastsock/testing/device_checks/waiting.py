"""Probes, peek, waiting for any of several, tests, cancelling."""

from __future__ import annotations

from ..ranks import on_ranks

ANY = -1


@on_ranks(2)
def check_iprobe_finds_and_leaves(device):
    if device.id() == 0:
        device.send(bytes(100), 1, 6, 3)
        device.recv(None, 1, 1)
        return
    assert device.iprobe(0, 7, 3) is None and device.iprobe(0, 6, 4) is None
    found = None
    while found is None:
        found = device.iprobe(ANY, ANY, 3)
    assert (found.source, found.tag, found.length, found.context) == (0, 6, 100, 3)
    assert device.iprobe(0, 6, 3) is not None, "a probe took the message"
    assert device.recv(None, 0, 6, 3).length == 100
    assert device.iprobe(ANY, ANY, 3) is None
    device.send(b"", 0, 1)


@on_ranks(2)
def check_probe_waits(device):
    if device.id() == 0:
        device.recv(None, 1, 1)
        device.send(bytes(300_000), 1, 5)
    else:
        device.send(b"", 0, 1)
        found = device.probe(ANY, 5)
        buffer = bytearray(found.length)
        assert device.recv(buffer, found.source, found.tag).length == 300_000


@on_ranks(2)
def check_probe_gives_the_first_message(device):
    if device.id() == 0:
        for tag in (4, 2, 4):
            device.send(tag, 1, tag)
        device.send(b"", 1, 9)
    else:
        device.recv(None, 0, 9)
        for tag in (4, 2, 4):
            assert device.probe(0, ANY).tag == tag
            assert device.recv(None, 0, ANY).value == tag


@on_ranks(2)
def check_iwaitany(device):
    from fastsock.xxdev import Request

    if device.id() == 0:
        for tag in (2, 0, 1):
            device.recv(None, 1, 9)
            device.send(tag, 1, tag)
        return
    requests = [device.irecv(None, 0, tag) for tag in range(3)]
    left = list(range(3))
    assert Request.iwaitany(requests, timeout=0) is None
    for expected in (2, 0, 1):
        device.send(b"", 0, 9)
        status = Request.iwaitany([requests[each] for each in left])
        tag = left.pop(status.index)
        assert status.value == tag == expected


@on_ranks(2)
def check_itest_makes_progress(device):
    if device.id() == 0:
        device.send(bytes(2_000_000), 1, 1)
    else:
        request = device.irecv(None, 0, 1)
        while (status := request.itest()) is None:
            pass
        assert status.length == 2_000_000


@on_ranks(2)
def check_wait_with_a_timeout(device):
    if device.id() == 0:
        request = device.irecv(None, 1, 1)
        assert request.iwait(timeout=0) is None and request.iwait(timeout=0.01) is None
        device.send(b"", 1, 2)
        assert request.iwait(timeout=30).value == "late"
    else:
        device.recv(None, 0, 2)
        device.send("late", 0, 1)


@on_ranks(2)
def check_peek_gives_the_latest_completed(device):
    if device.id() == 0:
        device.recv(None, 1, 9)
        device.send("a", 1, 1)
        device.recv(None, 1, 9)
        device.send("b", 1, 2)
        return
    first, second = device.irecv(None, 0, 1), device.irecv(None, 0, 2)
    seen = set()
    for _ in range(2):
        device.isend(b"", 0, 9)
        while True:
            request = device.peek()
            if request in (first, second):
                seen.add(request)
                break
    assert seen == {first, second}
    assert (first.iwait().value, second.iwait().value) == ("a", "b")


@on_ranks(2)
def check_cancelled_receive_takes_no_message(device):
    if device.id() == 0:
        device.recv(None, 1, 9)
        device.send("for the other", 1, 1)
        return
    request, kept = device.irecv(bytearray(100), 0, 1), device.irecv(None, 0, 1)
    assert request.cancel()
    assert request.iwait().cancelled
    device.send(b"", 0, 9)
    assert kept.iwait().value == "for the other"
    assert not kept.cancel() and not kept.iwait().cancelled


@on_ranks(2)
def check_cancelled_send_is_not_received(device):
    if device.id() == 0:
        request = device.issend(bytes(1_000_000), 1, 1)
        request.cancel()
        cancelled = request.iwait().cancelled
        device.send(cancelled, 1, 2)
        device.send("instead", 1, 1)
    else:
        cancelled = device.recv(None, 0, 2).value
        first = device.recv(None, 0, 1)
        if cancelled:
            assert first.value == "instead"
        else:
            assert first.length == 1_000_000 and device.recv(None, 0, 1).value == "instead"


@on_ranks(2)
def check_cancel_races(device):
    """Each message is either received or its request is cancelled, never both, never neither."""
    count = 300
    if device.id() == 0:
        for number in range(count):
            device.send(number, 1, 1)
        device.recv(None, 1, 2)
        return
    taken, cancelled = [], 0
    while len(taken) < count:
        request = device.irecv(None, 0, 1)
        device.iprobe(0, 1)  # cancelling need not make progress
        request.cancel()
        status = request.iwait()
        if status.cancelled:
            cancelled += 1
        else:
            taken.append(status.value)
    assert taken == list(range(count))
    device.send(b"", 0, 2)
