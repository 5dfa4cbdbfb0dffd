"""What is learned of listeners: connections too short for a meeting stay on TCP, and only those."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import fastsock
from fastsock import config
from fastsock.meeting import history
from fastsock.testing import FarProcess, PairMaker
from fastsock.testing.outcomes import receive, receive_all

from ..helpers.paths import why_not

HERE = ("127.0.0.1", 1)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Time stands still unless a test moves it."""
    clock = Clock()
    monkeypatch.setattr(history, "genuine", SimpleNamespace(monotonic=clock))
    history.forget()
    return clock


SHORT = {"bytes_sent": 10, "bytes_received": 100, "waits": 1, "spins": 1}


def _end(times, seconds=0.0005, **counts):
    for _ in range(times):
        history.ended(HERE, seconds, {**SHORT, **counts})


def _taken(occasions):
    return sum(not history.has_short_connections(HERE) for _ in range(occasions))


def test_a_few_short_ones_prove_nothing():
    _end(history.ENOUGH_SHORT - 1)
    assert _taken(100) == 100


def test_many_short_ones_are_tried_ever_more_rarely():
    _end(history.ENOUGH_SHORT)
    gaps = []
    for _ in range(12):
        gap = 0
        while history.has_short_connections(HERE):
            gap += 1
        gaps.append(gap)
        _end(1)
    assert gaps == [1, 3, 7, 15, 31, 63, 127, 255, 511, 1000, 1000, 1000]


@pytest.mark.parametrize(
    "worth", [{"seconds": 0.01}, {"bytes_received": 1 << 20}, {"waits": 20}, {"spins": 20}], ids=str
)
def test_one_that_was_worth_it_ends_that(worth):
    _end(50)
    _end(1, **worth)
    assert _taken(100) == 100


def test_connections_now_and_then_are_not_judged(clock):
    for _ in range(50):
        clock.now += 2 * history.SOON_SECONDS
        _end(1)
        assert _taken(1) == 1


def test_a_pause_ends_that(clock):
    _end(50)
    assert _taken(10) == 0
    clock.now += 2 * history.SOON_SECONDS
    assert _taken(100) == 100


def test_other_listeners_are_not_judged():
    _end(50)
    assert not history.has_short_connections(("127.0.0.1", 2))


def _serve(here, count):
    for _ in range(count):
        sock, _ = here.listener.accept()
        with sock:
            sock.sendall(receive_all(sock))


def _listen(here, maker):
    here.listener = maker.listener()
    return here.listener.getsockname()


@pytest.fixture
def as_delivered():
    """The setting as users have it."""
    yield lambda path: config.configure(transports=f"{path},tcp", short_lived="tcp", meeting_ms=500)
    config.reload()


@pytest.mark.parametrize("path", ["shm", "unix"])
def test_program_with_a_connection_for_each_request(path, as_delivered, monkeypatch):
    """Its answers are the same whichever path they take, and the reason can be seen."""
    if why_not(path):
        pytest.skip(why_not(path))
    as_delivered(path)
    for name in ("SHORT_SECONDS", "SOON_SECONDS"):  # on this machine, however busy, these are short, and soon
        monkeypatch.setattr(history, name, 60.0)
    maker, count = PairMaker("fastsock.socket"), 60
    with FarProcess() as server:
        address = server.run(_listen, maker)
        serving = server.begin(_serve, count)
        reasons = []
        for number in range(count):
            with maker.connect(address) as sock:
                sock.sendall(b"%d" % number)
                sock.shutdown(1)
                assert receive(sock, len(str(number))) == b"%d" % number
                reasons.append(fastsock.explain(sock).reason)
        serving.result()
    assert reasons[: history.ENOUGH_SHORT] == ["joined"] * history.ENOUGH_SHORT
    assert reasons.count("short_lived_before") > count // 2
    assert reasons[history.ENOUGH_SHORT + 1] == "joined"
