"""Answers that are kept for a moment still go: when a handler fails, and when the answering end closes."""

from __future__ import annotations

from fastsock import active

from .conftest import fresh_name
from .far import TAG, begin, end, look


def fails_at(here, number):
    """Handler 2 raises at the request with that word."""

    def handler(token, word):
        here.seen.append(word)
        if word == number:
            raise ValueError("this handler fails")

    here.endpoint.handle(2, handler)


def test_those_before_a_handler_that_fails(near):
    near.far.run(fails_at, 3)
    for word in range(4):
        near.endpoint.request(0, 2, word)
    while near.endpoint.entries[0].under_way:
        near.bundle.poll(30)
    assert [(message.reason, message.words) for message in near.returned] == [(active.Reason.RAISED, (3,))]


def close_now(here):
    here.endpoint.handle(2, lambda token, *words: here.seen.append(words))
    while len(here.seen) < 5:
        here.bundle.poll(30)
    here.bundle.close()


def test_those_of_an_end_that_closes(near):
    """It handles five requests and a reply, and closes: all of that is answered, only later requests come back."""
    name = fresh_name()
    near.far.run(begin, name, credits=64)
    near.far.run(end)
    near.endpoint.map(1, name, TAG)
    near.endpoint.request_bulk(1, 4, b"", -1)
    for word in range(5):
        near.endpoint.request(1, 2, word)
    near.far.run(close_now)
    near.until()
    entry = near.endpoint.entries[1]
    while entry.under_way and entry.lost is None:
        near.bundle.poll(30)
    assert near.far.run(look, "seen") == [(word,) for word in range(5)]
    assert near.returned == [] and len(near.got) == 1
