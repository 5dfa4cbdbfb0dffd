"""Nobody gets past a hello but a rank of the same job, whatever it sends, and what it recorded."""

from __future__ import annotations

import hmac
import random
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsock.system import proof
from fastsock.xxdev import hello

SECRET = bytes(range(32))
ROLES = ("data", "control")


def acceptor(**changes):
    return hello.Acceptor(parties(**changes))


def parties(*, roles=ROLES, **changes):
    party = hello.Party(**({"secret": SECRET, "job": "job", "rank": 0, "size": 4} | changes))
    return dict.fromkeys(roles, party)


def connector(**changes):
    values = {"secret": SECRET, "job": "job", "rank": 1, "peer": 0, "role": "data"}
    return hello.Connector(**(values | changes))


def converse(connecting, accepting):
    """Both ends to their end; what each sent, in order."""
    sent = [connecting.start()]
    while not (connecting.done and accepting.done):
        sent.append(accepting.feed(sent[-1]))
        sent.append(connecting.feed(sent[-1]))
    return sent


def test_the_same_job_meets():
    connecting, accepting = connector(), acceptor()
    converse(connecting, accepting)
    assert (accepting.caller.rank, accepting.caller.role) == (1, "data")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"secret": bytes(32)}, "secret"),
        ({"job": "other"}, "secret"),
        ({"role": "root"}, "role"),
        ({"peer": 2}, "looks for rank 2"),
        ({"rank": 4}, "rank 4 of 4"),
        ({"rank": -1}, "rank -1 of 4"),
    ],
)
def test_another_is_refused_and_told(changes, reason):
    connecting, accepting = connector(**changes), acceptor()
    with pytest.raises(hello.HelloError, match=reason) as refused:
        converse(connecting, accepting)
    assert accepting.caller is None
    with pytest.raises(hello.HelloError, match="refused"):
        connecting.feed(refused.value.reply)


def test_a_server_without_the_secret_is_refused():
    connecting = connector()
    connecting.feed(b"FSCHALL1" + bytes(32))
    with pytest.raises(hello.HelloError, match="did not prove"):
        connecting.feed(b"FSWELCO1" + bytes(32))
    assert not connecting.done


def test_a_proof_sent_back_is_no_welcome():
    connecting, accepting = connector(), acceptor()
    proof = connecting.feed(accepting.feed(connecting.start()))
    with pytest.raises(hello.HelloError, match="did not prove"):
        connecting.feed(b"FSWELCO1" + proof)


def test_a_replay_is_refused():
    recorded = converse(connector(), acceptor())
    accepting = acceptor()
    accepting.feed(recorded[0])
    with pytest.raises(hello.HelloError, match="secret"):
        accepting.feed(recorded[2])
    connecting = connector()
    connecting.start()
    connecting.feed(recorded[1])
    with pytest.raises(hello.HelloError, match="did not prove"):
        connecting.feed(recorded[3])


@given(st.integers(0, 3), st.integers(0, 200), st.integers(1, 255))
def test_one_changed_byte_anywhere_is_refused(step, place, change):
    connecting, accepting = connector(), acceptor()
    ends = (accepting, connecting)
    data = connecting.start()
    with pytest.raises(hello.HelloError):
        for each in range(4):
            if each == step:
                changed = bytearray(data)
                changed[place % len(changed)] ^= change
                data = bytes(changed)
            data = ends[each % 2].feed(data)
        assert not (connecting.done and accepting.done)
        raise hello.HelloError("not welcomed")


@given(st.binary(max_size=600))
def test_random_bytes_never_pass_nor_break_anything_else(data):
    for end in (acceptor(), connector()):
        end.start() if isinstance(end, hello.Connector) else None
        try:
            while data and end.needed:
                end.feed(data[: end.needed])
                data = data[end.needed :] if end.needed else b""
        except hello.HelloError:
            pass
        assert not end.done
        assert end.needed <= 64


def test_bytes_beyond_a_step_are_refused():
    with pytest.raises(hello.HelloError, match="more bytes"):
        acceptor().feed(connector().start() + b"x")


def test_in_pieces():
    connecting, accepting = connector(), acceptor()
    data, turn = connecting.start(), 0
    ends = (accepting, connecting)
    while not (connecting.done and accepting.done):
        data = b"".join(ends[turn].feed(data[place : place + 1]) for place in range(len(data)))
        turn = 1 - turn


def test_mac_is_hmac():
    for length in (0, 1, 64, 65, 200):
        key, message = random.randbytes(length), random.randbytes(3 * length)
        assert proof.hmac_sha256(key, message) == hmac.digest(key, message, "sha256")


def pair():
    one, other = socket.socketpair()
    return one, other


def test_over_sockets():
    one, other = pair()
    callers = []
    with one, other:
        one.settimeout(5)

        def accepts():
            callers.append(hello.accept(other, parties()))

        thread = threading.Thread(target=accepts)
        thread.start()
        hello.connect(one, secret=SECRET, job="job", rank=3, peer=0, role="data")
        thread.join()
        assert one.gettimeout() == 5
        one.sendall(b"data")
        assert other.recv(100) == b"data"  # not a byte of what follows was taken
    assert callers[0].rank == 3


def test_silence_is_bounded():
    one, other = pair()
    with one, other, pytest.raises(TimeoutError):
        hello.accept(other, parties(), timeout=0.05)


def test_an_end_is_told():
    one, other = pair()
    one.close()
    with other, pytest.raises(hello.HelloError, match="closed the connection"):
        hello.accept(other, parties())
