"""Requests and replies, over each path, between two processes."""

from __future__ import annotations

import sys

import pytest

from fastsock import active

from .conftest import fresh_name
from .far import end, look

WORDS = (
    (),
    (1,),
    (-1, 2**63 - 1, -(2**63)),
    tuple(range(16)),
    (-6, -5, 0, 256, 257),  # about the ints that the interpreter makes once
    tuple(sign * 2**bits + one for bits in (30, 60) for sign in (-1, 1) for one in (-1, 0, 1)),  # about its digits
)


@pytest.mark.parametrize("words", WORDS)
def test_words_come_back(near, words):
    assert near.call(1, *words) == words


class Index:
    """As numpy's integers, it is no int."""

    def __index__(self):
        return 2**40


class Int(int):
    pass


def test_what_is_a_word(near):
    """What Python takes for an index arrives as a plain int."""
    got = near.call(1, True, Int(-7), Index(), Int(2**62))
    assert got == (1, -7, 2**40, 2**62) and {type(word) for word in got} == {int}
    before = near.endpoint.entries[0].credits
    for wrong in (1.0, "1", None, 1j):
        with pytest.raises(TypeError):
            near.endpoint.request(0, 1, 5, wrong)
    for wrong in (2**63, -(2**63) - 1, 2**64 - 1, 2**200, Int(2**64)):
        with pytest.raises(OverflowError):
            near.endpoint.request(0, 1, 5, wrong)
    assert near.endpoint.entries[0].credits == before
    assert near.call(1, 5) == (5,)


def test_integers_of_numpy_are_words(near):
    numpy = pytest.importorskip("numpy")
    most, least = 2**63 - 1, -(2**63)
    given = (numpy.int8(-128), numpy.uint16(65535), numpy.int64(least), numpy.int64(most), numpy.uint64(most))
    got = near.call(1, *given)
    assert got == tuple(map(int, given)) and {type(word) for word in got} == {int}
    with pytest.raises(OverflowError):
        near.endpoint.request(0, 1, numpy.uint64(2**64 - 1))
    for wrong in (numpy.float64(1), numpy.zeros(2, int)):
        with pytest.raises(TypeError):
            near.endpoint.request(0, 1, wrong)
    assert near.call(1, 5) == (5,)


def test_a_word_that_ends_its_entry(near):
    class Ends:
        def __index__(self):
            near.endpoint.unmap(0)
            return 1

    for send in (
        lambda: near.endpoint.request(0, 1, 2, Ends()),
        lambda: near.endpoint.request_bulk(0, 3, b"data", Ends()),
        lambda: near.endpoint.get(0, 3, 0, 8, Ends()),
    ):
        with pytest.raises(active.NoEntry):
            send()
        near.map()
    assert near.call(1, 5) == (5,)


def test_a_word_that_replies(near):
    """The reply that it belongs to is the second one then."""

    class Replies:
        def __init__(self, token):
            self.token = token

        def __index__(self):
            self.token.reply(9, 1)
            return 2

    name = fresh_name()
    raised = []

    def handler(token):
        with pytest.raises(active.HandlerRule) as caught:
            token.reply(9, Replies(token))
        raised.append(str(caught.value))

    with active.Bundle() as bundle:
        endpoint = bundle.endpoint()
        endpoint.handle(1, handler)
        endpoint.register(name)
        near.endpoint.map(1, name)
        near.endpoint.request(1, 1)
        while not near.got:
            bundle.poll()
            near.bundle.poll()
        near.endpoint.unmap(1)
    assert near.got == [(1,)] and "answered already" in raised[0]


def test_small_ints_are_borrowed_and_come_back(near):
    """Of those that the interpreter makes once no reference is lost, nor one too many let go."""
    before = [sys.getrefcount(word) for word in range(-5, 257)]

    near.endpoint.handle(9, lambda token, *words: None)
    for _ in range(50):
        for first in range(-5, 257, 16):
            words = [*range(first, first + 16)]
            near.endpoint.request(0, 1, *words)
            near.bundle.poll(30)
            near.endpoint.request(0, 1, *words[1:], 2**40)
            near.bundle.poll(30)
            with pytest.raises(OverflowError):
                near.endpoint.request(0, 1, *words[1:], 2**63)
    del words
    after = [sys.getrefcount(word) for word in range(-5, 257)]
    assert max(abs(now - then) for now, then in zip(after, before, strict=True)) < 200


def test_words_behind_data_of_any_length(near):
    """Frames that come together begin anywhere in what was received."""
    for length in range(24):
        near.endpoint.request(0, 1, length, 2**50 + length, -length, data=bytes(length))
    near.until(24)
    assert near.got == [(length, 2**50 + length, -length) for length in range(24)]
    assert [data or b"" for data in near.data] == [bytes(length) for length in range(24)]


def test_arguments_by_name(near):
    request = near.endpoint.request
    request(handler=1, index=0)
    request(0, data=b"text", handler=1)
    request(0, 1, 5, data=None)
    near.until(3)
    assert near.got == [(), (), (5,)] and near.data == [None, b"text", None]
    for wrong, said in (
        (lambda: request(), "index"),
        (lambda: request(0), "handler"),
        (lambda: request(data=b""), "index"),
        (lambda: request(0, 1, handler=1), "multiple values for argument 'handler'"),
        (lambda: request(0, 1, words=5), "unexpected keyword argument 'words'"),
        (lambda: request("0", 1), "int"),
        (lambda: request(0, 1.5), "int"),
        (lambda: near.endpoint.request_bulk(0, 1.5, b""), "int"),
        (lambda: active.Token.reply(near, 1), "Token"),
    ):
        with pytest.raises(TypeError, match=said):
            wrong()
    assert near.call(1, 5) == (5,)


def test_the_signatures_are_told():
    import inspect

    assert str(inspect.signature(active.Endpoint.request)) == "(self, /, index, handler, *words, data=None)"
    assert str(inspect.signature(active.Token.reply)) == "(self, /, handler, *words, data=None)"
    assert "up to 16 words" in active.Endpoint.request.__doc__
    assert "Answers the request" in active.Token.reply.__doc__


@pytest.mark.parametrize("length", (0, 1, 500, active.MEDIUM))
def test_data_comes_back(near, length):
    data = bytes(i % 251 for i in range(length))
    assert near.call(1, 7, data=data) == (7,)
    assert (near.data[-1] or b"") == data


def test_what_is_too_much_is_refused_where_it_is_sent(near):
    with pytest.raises(ValueError, match="16 is the most"):
        near.endpoint.request(0, 1, *range(17))
    with pytest.raises(ValueError, match="8192"):
        near.endpoint.request(0, 1, data=bytes(active.MEDIUM + 1))
    with pytest.raises(OverflowError):
        near.endpoint.request(0, 1, 2**63)
    with pytest.raises(ValueError, match="65535"):
        near.endpoint.request(0, 65536)
    with pytest.raises(ValueError, match="65535"):
        near.endpoint.request(0, -1)
    with pytest.raises(active.NoEntry, match="entry 3"):
        near.endpoint.request(3, 1)
    assert near.endpoint.entries[0].credits == (32, 8)  # none was spent
    assert near.call(1, 5) == (5,)


def test_many_more_requests_than_credits_in_their_order(near):
    for i in range(1000):
        near.endpoint.request(0, 1, i)
        assert near.endpoint.entries[0].under_way <= 32
    near.until(1000)
    assert near.got == [(i,) for i in range(1000)]


def test_requests_without_a_reply_give_their_credit_back(near):
    for i in range(500):
        near.endpoint.request(0, 2, i)
    assert near.call(1, 1) == (1,)  # behind all of them
    assert near.far.run(look, "seen") == [(i,) for i in range(500)]
    while near.endpoint.entries[0].under_way:
        near.bundle.poll(30)
    assert near.endpoint.entries[0].credits == (32, 8)


def test_a_number_without_a_handler_comes_back(near):
    near.endpoint.request(0, 200, 4, 5, data=b"text")
    near.until()
    (message,) = near.returned
    assert message.reason == active.Reason.NO_HANDLER
    assert (message.entry, message.handler, message.words, message.data) == (0, 200, (4, 5), b"text")
    near.endpoint.request(0, 200, *range(-1, 15))
    near.until(2)
    assert near.returned[1].words == tuple(range(-1, 15)) and near.returned[1].data is None
    assert near.call(1, 5) == (5,)


def test_without_an_error_handler_poll_raises_what_comes_back(near):
    near.endpoint.on_error(None)
    near.endpoint.request(0, 200)
    with pytest.raises(active.Undeliverable, match="no handler has that number") as caught:
        near.until()
    assert caught.value.message.handler == 200


def test_a_handler_that_fails_tells_both_ends(near):
    near.endpoint.request(0, 5)
    near.until()
    assert near.returned[0].reason == active.Reason.RAISED
    assert near.call(1, 5) == (5,)
    assert near.far.run(look, "errors") == ["ValueError: this handler fails"]


def test_poll_without_messages(near):
    assert near.bundle.poll() == 0
    assert near.bundle.poll(0.01) == 0
    assert near.bundle.wait(0.01) == 0
    assert near.bundle.wait(0.01, active.CAN_SEND) == active.CAN_SEND


def test_wait_tells_of_a_message_and_runs_no_handler(near):
    near.endpoint.request(0, 1, 5)
    assert near.bundle.wait(30) == active.NOT_EMPTY
    assert near.got == []
    near.until()
    assert near.got == [(5,)]


def test_several_entries_of_one_table(near):
    near.map(3)
    near.map(1)
    for index in (0, 1, 3):
        for i in range(50):
            near.endpoint.request(index, 1, index, i)
    near.until(150)
    for index in (0, 1, 3):
        assert [words for words in near.got if words[0] == index] == [(index, i) for i in range(50)]
    near.endpoint.unmap(1)
    with pytest.raises(active.NoEntry):
        near.endpoint.request(1, 1)
    assert near.call(1, 8) == (8,)


def test_an_endpoint_moves_with_its_connections(near):
    near.endpoint.request(0, 1, 1)
    other = active.Bundle()
    near.endpoint.move(other)
    assert near.bundle.poll() == 0 and not near.bundle.connections
    near.bundle = other
    near.until()
    assert near.got == [(1,)]
    assert near.call(1, 2) == (2,)


def move_there(here):
    import threading

    from .far import serve

    end(here)
    before, here.bundle, here.over = here.bundle, active.Bundle(), False
    here.endpoint.move(here.bundle)
    assert not before.connections and not before.endpoints
    here.thread = threading.Thread(target=serve, args=(here, here.bundle), daemon=True)
    here.thread.start()


def test_an_endpoint_that_moves_is_still_found(near):
    near.far.run(move_there)
    assert near.call(1, 2) == (2,)
    near.map(1)
    near.endpoint.request(1, 1, 3)
    near.until(2)
    assert near.got == [(2,), (3,)]


def test_two_threads_do_not_poll_one_bundle(near):
    import threading

    raised = []

    def poll():
        try:
            near.bundle.poll()
        except active.NotReady as error:
            raised.append(error)

    @near.endpoint.on(8)
    def meanwhile(token):
        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()

    near.endpoint.handle(9, meanwhile)
    near.endpoint.request(0, 1)
    assert near.bundle.poll(30) == 1
    assert len(raised) == 1


@pytest.mark.parametrize("data", (5, "text", [1, 2]))
def test_data_must_be_bytes(near, data):
    """A number is no data, and no size either; nothing was sent, and no credit is gone."""
    before = near.endpoint.entries[0].credits
    with pytest.raises(TypeError, match="bytes-like"):
        near.endpoint.request(0, 1, data=data)
    with pytest.raises(TypeError, match="bytes-like"):
        near.endpoint.request_bulk(0, 3, data)
    assert near.endpoint.entries[0].credits == before
    assert near.call(1, 4) == (4,)
