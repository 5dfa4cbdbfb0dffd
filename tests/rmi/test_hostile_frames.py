"""Any bytes in place of frames and hellos: that connection may end, no other notices, no thread meets an error."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock import rmi
from fastsock.rmi.wire import chains, frames, hello
from fastsock.system.proof import HelloError

from . import fuzz_frames, objects
from .conftest import KEY


@pytest.mark.parametrize("seed", range(5))
def test_frames_that_were_changed(seed):
    assert fuzz_frames.run(random.Random(seed), 40) == []


@pytest.mark.parametrize(
    ("flags", "values"),
    [
        (frames.DEADLINE, (float("nan"), ())),
        (frames.DEADLINE, (1, ())),
        (frames.BEHALF, (1 << 32, ())),
        (frames.CHAIN, ((), ())),
        (frames.CHAIN, ((1, "a", 2), ())),
        (frames.CHAIN, ((1 << 63, "a"), ())),
        (frames.CHAIN, ((1, "a") * (chains.MOST + 1), ())),
        (frames.CHAIN, ((1, "a" * (chains.MOST_TEXT + 1)), ())),
        (frames.CHAIN, (None, ())),
    ],
)
def test_what_stands_before_the_arguments_is_bounded(flags, values):
    with rmi.Daemon(key=KEY) as daemon:
        daemon.register(objects.Store(), "store", local=False)
        daemon.start()
        with fuzz_frames.proved(daemon.address) as sock:
            for kind, flag, number, target, method, body in (
                fuzz_frames.valid_frames()[0],
                (frames.CALL, flags, 2, 1, 0, fuzz_frames.packed(*values)),
            ):
                sock.sendall(frames.HEADER.pack(len(body), kind, flag, 0, number, target, method) + body)
            fuzz_frames.until_it_ends(sock)


@settings(max_examples=200)
@given(where=st.integers(0, 1 << 16), change=st.integers(1, 255), seed=st.integers(0, 1 << 32))
def test_hellos_that_were_changed(where, change, seed):
    """Both halves take any bytes in any pieces, raise HelloError and nothing else, and never believe them."""
    generator = random.Random(seed)
    connecting, accepting = hello.Connector(KEY.encode()), hello.Acceptor(KEY.encode())
    challenge = accepting.feed(connecting.start())
    for end, valid in ((hello.Acceptor(KEY.encode()), connecting.start()), (connecting, challenge)):
        changed = bytearray(valid)
        changed[8 + where % (len(changed) - 8)] ^= change
        try:
            end.feed(changed)
            while not end.done:
                end.feed(generator.randbytes(end.needed))
        except HelloError:
            pass
        assert not end.done
