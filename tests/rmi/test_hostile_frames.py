"""Any bytes in place of frames and hellos: that connection may end, no other notices, no thread meets an error."""

from __future__ import annotations

import random

import pytest

from fastsock.rmi import hello
from fastsock.system.proof import HelloError

from . import fuzz_frames
from .conftest import KEY


@pytest.mark.parametrize("seed", range(5))
def test_frames_that_were_changed(seed):
    assert fuzz_frames.run(random.Random(seed), 40) == []


@pytest.mark.parametrize("seed", range(200))
def test_hellos_that_were_changed(seed):
    """Both halves take any bytes in any pieces, raise HelloError and nothing else, and never believe them."""
    generator = random.Random(seed)
    connecting, accepting = hello.Connector(KEY.encode()), hello.Acceptor(KEY.encode())
    challenge = accepting.feed(connecting.start())
    for end, valid in ((hello.Acceptor(KEY.encode()), connecting.start()), (connecting, challenge)):
        changed = bytearray(valid)
        changed[generator.randrange(8, len(changed))] ^= 1 + generator.randrange(255)
        try:
            end.feed(changed)
            while not end.done:
                end.feed(generator.randbytes(end.needed))
        except HelloError:
            pass
        assert not end.done
