"""A bundle that several threads use at once: no reply is lost, and who waits for one that another took goes on."""

from __future__ import annotations

import threading

import pytest

from fastsock import active

from .conftest import fresh_name
from .far import TAG, begin, end

THREADS = 4


class Shared:
    """An endpoint of a shared bundle; replies go to whoever asked, by their first word."""

    def __init__(self, near) -> None:
        self.bundle = active.Bundle(shared=True)
        self.endpoint = self.bundle.endpoint(segment=1 << 20)
        self.got: list[list[tuple[int, ...]]] = [[] for _ in range(THREADS)]
        self.errors: list[BaseException] = []
        self.endpoint.handle(9, self.take)
        self.endpoint.map(0, near.name, TAG)

    def take(self, token, who, *words):
        self.got[who].append(words)

    def run(self, work) -> None:
        def guarded(who: int) -> None:
            try:
                work(who)
            except BaseException as error:
                self.errors.append(error)

        threads = [threading.Thread(target=guarded, args=(who,), daemon=True) for who in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert self.errors == []
        assert not any(thread.is_alive() for thread in threads)


@pytest.fixture
def shared(near):
    made = Shared(near)
    yield made
    made.bundle.close()


def test_each_thread_hears_of_its_replies(shared):
    """Thousands of times a thread waits, without a limit, for a reply that any of them may take."""

    def work(who: int) -> None:
        for i in range(1000):
            shared.endpoint.request(0, 1, who, i)
            while len(shared.got[who]) <= i:
                shared.bundle.poll(None)

    shared.run(work)
    assert shared.got == [[(i,) for i in range(1000)]] * THREADS


def test_more_requests_than_credits(shared):
    """Each thread waits for credit while others take what gives it back."""

    def work(who: int) -> None:
        for i in range(1000):
            shared.endpoint.request(0, 1, who, i, data=bytes(i % 50))
        while len(shared.got[who]) < 1000:
            shared.bundle.poll(None)

    shared.run(work)
    assert shared.got == [[(i,) for i in range(1000)]] * THREADS


def test_a_handler_changes_while_others_poll(shared):
    """A thread that runs the one that was there before has it as long as it runs."""

    def work(who: int) -> None:
        if who == 0:
            while min(map(len, shared.got[1:])) < 2000:
                shared.endpoint.handle(9, lambda token, asking, *words: shared.got[asking].append(words))
            return
        for i in range(2000):
            shared.endpoint.request(0, 1, who, i)
            while len(shared.got[who]) <= i:
                shared.bundle.poll(None)

    shared.run(work)
    assert shared.got[1:] == [[(i,) for i in range(2000)]] * (THREADS - 1)


def test_bulks_stay_whole_among_short_requests(shared):
    """A bulk is longer than its ring: what other threads send must not come in between."""

    def work(who: int) -> None:
        for i in range(20):
            if who % 2:
                shared.endpoint.request_bulk(0, 4, bytes([who]) * 300_000, -1, who, i)
            else:
                shared.endpoint.request(0, 1, who, i)
            while len(shared.got[who]) <= i:
                shared.bundle.poll(None)

    shared.run(work)
    assert shared.got == [[(i,) for i in range(20)]] * THREADS


def test_entries_come_and_go_while_others_wait(shared, near):
    name = fresh_name()
    near.far.run(begin, name)

    def work(who: int) -> None:
        for i in range(30):
            if who == 0:
                shared.endpoint.map(1, name, TAG)
                shared.endpoint.request(1, 1, who, i)
            else:
                shared.endpoint.request(0, 1, who, i)
            while len(shared.got[who]) <= i:
                shared.bundle.poll(None)
            if who == 0:
                shared.endpoint.unmap(1)

    shared.run(work)
    assert shared.got == [[(i,) for i in range(30)]] * THREADS


def test_a_wait_ends_in_time(shared):
    assert shared.bundle.poll(0.01) == 0
    assert shared.bundle.wait(0.01) == 0
    assert shared.bundle.wait(0.01, active.CAN_SEND) == active.CAN_SEND


def test_an_answering_bundle_may_be_shared(near):
    """Two threads poll the far bundle, which runs one handler at a time."""
    name = fresh_name()
    near.far.run(begin_shared, name)
    near.endpoint.map(1, name, TAG)
    for i in range(2000):
        near.endpoint.request(1, 1, i)
    near.until(2000)
    assert near.got == [(i,) for i in range(2000)]


def begin_shared(here, name):
    from .far import echo, serve

    bundle = active.Bundle(shared=True)
    endpoint = bundle.endpoint(tag=TAG)
    endpoint.handle(1, echo(here))
    endpoint.register(name)
    here.others = [threading.Thread(target=serve, args=(here, bundle), daemon=True) for _ in range(2)]
    for thread in here.others:
        thread.start()


def test_an_endpoint_moves_to_another_shared_bundle(shared):
    """Its entry goes along: requests that were under way before are answered there."""
    shared.endpoint.request(0, 1, 0, 1)
    other = active.Bundle(shared=True)
    try:
        shared.endpoint.move(other)
        assert shared.bundle.connections == [] and shared.bundle.poll() == 0
        while not shared.got[0]:
            other.poll(None)

        def work(who: int) -> None:
            have = len(shared.got[who])
            for i in range(100):
                shared.endpoint.request(0, 1, who, i)
                while len(shared.got[who]) <= have + i:
                    other.poll(None)

        shared.run(work)
        assert [len(each) for each in shared.got] == [101, *[100] * (THREADS - 1)]
    finally:
        other.close()


def test_an_endpoint_moves_while_others_use_it(shared):
    """To and fro while threads ask over it and wait in both bundles: no reply is lost, repeated or out of order."""
    bundles = [shared.bundle, active.Bundle(shared=True)]
    left = [THREADS - 1]
    lock = threading.Lock()

    def work(who: int) -> None:
        if who == 0:
            turn = 0
            while left[0]:
                turn += 1
                shared.endpoint.move(bundles[turn % 2])
                shared.endpoint.bundle.poll(1e-4)
            assert turn > 10
            return
        for i in range(500):
            while True:
                try:
                    shared.endpoint.request(0, 1, who, i, data=bytes(i % 50))
                    break
                except active.NotReady:  # it has moved while this thread waited for credit
                    continue
            while i % 7 == 0 and len(shared.got[who]) <= i:
                shared.endpoint.bundle.poll(None)
        while len(shared.got[who]) < 500:
            shared.endpoint.bundle.poll(None)
        with lock:
            left[0] -= 1

    try:
        shared.run(work)
        assert shared.got[1:] == [[(i,) for i in range(500)]] * (THREADS - 1)
    finally:
        shared.endpoint.move(bundles[0])
        bundles[1].close()


def test_the_peer_of_a_shared_bundle_is_killed(near, shared):
    """Each thread that waits for a reply goes on, and each request comes back once."""
    returned: list[active.Returned] = []
    shared.endpoint.on_error(returned.append)
    asked = threading.Barrier(THREADS + 1)

    def work(who: int) -> None:
        shared.endpoint.request(0, 6, who)  # its handler does not reply
        asked.wait(60)
        while shared.endpoint.entries[0].lost is None or shared.endpoint.entries[0] in shared.bundle.connections:
            shared.bundle.poll(1.0)
        with pytest.raises(active.LostPeer):
            shared.endpoint.request(0, 1, who)

    near.far.run(end)  # from now on it takes nothing

    def kill() -> None:
        asked.wait(60)
        near.far.kill()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    shared.run(work)
    killer.join(60)
    assert sorted(each.words for each in returned) == [(who,) for who in range(THREADS)]
    assert shared.bundle.poll() == 0
