"""Random conversations over a connection, each byte checked."""

from __future__ import annotations

import random
import threading
from typing import Any

AT_ONCE = 20000  # bytes that an echo has room for while nobody reads what it sends


def talk(sock: Any, seed: int, rounds: int, largest: int) -> None:
    """Sends random blocks to an echo and reads as many bytes back."""
    rng = random.Random(seed)
    for _ in range(rounds):
        block = rng.randbytes(rng.randrange(1, rng.choice((10, 1000, largest))))
        thread = threading.Thread(target=sock.sendall, args=(block,)) if len(block) > AT_ONCE else None
        if thread is None:
            sock.sendall(block)
        else:
            thread.start()
        got = bytearray()
        while len(got) < len(block):
            got += sock.recv(rng.randrange(1, 200000))
        assert got == block
        if thread is not None:
            thread.join()
