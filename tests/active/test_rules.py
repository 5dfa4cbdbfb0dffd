"""What a handler may not do is refused, with the reason."""

from __future__ import annotations

import pytest

from fastsock import active

from .far import look, reply_late


@pytest.mark.parametrize(
    ("rule", "said"),
    (
        (0, "a request handler may reply once and do nothing else"),
        (1, "must not poll"),
        (2, "must not wait"),
        (4, "no credit for a bulk"),
        (5, "a request handler may reply once and do nothing else"),
        (6, "a request handler may reply once and do nothing else"),
    ),
)
def test_of_a_request_handler(near, rule, said):
    near.call(7, rule)
    assert said in near.data[-1].decode()


def test_one_reply(near):
    assert near.call(7, 3) == (1,)
    assert near.call(1, 4) == (4,)  # behind the handler, which goes on after its reply
    assert "may reply once" in near.far.run(look, "seen")[0]


def test_no_reply_after_the_handler(near):
    near.endpoint.request(0, 6)
    assert near.call(1) == ()
    near.call(7, 1)
    assert "may reply once" in near.far.run(reply_late)
    assert near.call(1, 4) == (4,)


def test_a_reply_handler_sends_nothing(near):
    raised = []

    def handler(token, *words):
        for send in (
            lambda: token.reply(9),
            lambda: token.reply_bulk(9, b""),
            lambda: near.endpoint.request(0, 1),
            lambda: near.endpoint.begin_bulk(0, 3, b"x"),
            near.bundle.poll,
        ):
            with pytest.raises(active.HandlerRule) as caught:
                send()
            raised.append(str(caught.value))

    near.endpoint.handle(9, handler)
    near.endpoint.request(0, 1)
    assert near.bundle.poll(30) == 1
    assert len(raised) == 5 and "a reply handler may send nothing" in raised[2]
    near.endpoint.handle(9, near.take)
    assert near.call(1, 4) == (4,)
