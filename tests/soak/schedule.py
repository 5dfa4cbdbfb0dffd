"""A random schedule of calls on one connection, made from a seed.

A schedule is a list of steps, plain data: whoever plays it leaves out what does not fit the state of the connection,
so any step can be dropped. Each schedule uses a few of the ways only (swarm testing): one that has everything in it
leaves shared memory at once, and never comes to what is rare.
"""

from __future__ import annotations

import random
from typing import Any

Step = dict[str, Any]

SENDING = ("send", "sendall", "sendmsg", "sendto", "write", "writev", "sendfile", "os.sendfile", "makefile", "dontwait",
           "more", "thread", "child", "loop", "dup", "fromfd", "fdopen")  # fmt: skip
RECEIVING = ("recv", "recv_into", "recvfrom", "recvfrom_into", "recvmsg", "recvmsg_into", "read", "readv", "makefile",
             "waitall", "dontwait", "peek first", "thread", "child", "loop", "dup", "fromfd", "fdopen")  # fmt: skip
# each of these may take the descriptor for good: no more than one in most schedules
LEAVING = ("fromfd", "fdopen")
TLS_SENDING = ("send", "sendall", "write")
TLS_RECEIVING = ("recv", "recv_into", "read")
REWRAPPING = ("dup", "detach", "fromfd", "os.dup", "rights", "pickled", "same number")
WAITING = ("poll", "select", "epoll", "selector", "edge")
TAKING = ("detach", "detach", "same number", "os.dup", "rights")
CLOSING = ("close", "close", "detached", "reset", "by number", "dropped")
PROBES = ("empty", "recv 0", "send nothing", "error", "names", "poll", "select", "epoll", "poll out", "refused",
          "options", "state", "arguments", "expire", "peek")  # fmt: skip
SIZES = (1, 2, 7, 64, 100, 1000, 4095, 4096, 9000, 16_385)
LARGE = (1, 1000, 65_536, 70_001, 200_000, 600_000)
TIMEOUTS = (None, None, 0, 0, 30)
CALLS_BEFORE = (0, 2, 4, 8, 20, 40)

# name: how often, beside the others
KINDS = {
    "send": 8,
    "receive": 10,
    "blocked": 4,
    "exchange": 2,
    "transfer": 2,
    "fill": 1,
    "probe": 8,
    "watch": 2,
    "seen": 4,
    "timeout": 3,
    "rewrap": 2,
    "shutdown": 1,
    "close": 1,
    "tls": 1,
    "plain again": 1,
    "fork": 1,
    "streams": 1,
}


def _some(chooser: random.Random, of: tuple[str, ...], most: int) -> list[str]:
    return chooser.sample(sorted(set(of)), chooser.randint(1, most))


def generate(seed: int) -> dict[str, Any]:
    """The schedule of a seed: who connects, whether both ends are threads of one process, and the steps.

    early: bytes that are sent before the server accepts, by who connects without blocking; None for a blocking connect.
    calls: how often each end sends a byte and receives one before the first step, so that a connection gains memory.
    """
    chooser = random.Random(seed)
    sending = _some(chooser, SENDING, 4)
    receiving = _some(chooser, RECEIVING, 4)
    if chooser.random() < 0.7:
        sending = [way for way in sending if way not in LEAVING] or ["send"]
        receiving = [way for way in receiving if way not in LEAVING] or ["recv"]
    kinds = {"send", "receive", "probe", *_some(chooser, tuple(KINDS), 8)}
    weights = [KINDS[kind] for kind in sorted(kinds)]
    swarm = {
        "sending": sending,
        "receiving": receiving,
        "waiting": _some(chooser, WAITING, 2),
        "rewrapping": _some(chooser, REWRAPPING, 2),
        "probes": _some(chooser, PROBES, 6),
        "large": chooser.random() < 0.4,
    }
    steps = [_step(chooser, chooser.choices(sorted(kinds), weights)[0], swarm) for _ in range(chooser.randint(4, 24))]
    if seed % 2:
        steps.insert(chooser.randint(0, len(steps)), taken_descriptor(chooser))
    steps.append({"do": "finish", "end": chooser.randrange(2), "how": [chooser.choice(CLOSING) for _ in range(2)]})
    return {
        "seed": seed,
        "connects": chooser.randrange(2),
        "threads": chooser.random() < 0.25,
        "early": chooser.choice((0, *SIZES)) if chooser.random() < 0.2 else None,
        "steps": steps,
        "calls": chooser.choice(CALLS_BEFORE),
    }


def taken_descriptor(chooser: random.Random) -> Step:
    """One end's raw number is taken, and must carry the bytes alone. In every other schedule."""
    return {"do": "rewrap", "end": chooser.randrange(2), "way": chooser.choice(TAKING)}


def _step(chooser: random.Random, kind: str, swarm: dict[str, Any]) -> Step:
    step: Step = {"do": kind, "end": chooser.randrange(2)}
    if kind in ("send", "receive", "blocked", "exchange", "transfer"):
        step["size"] = chooser.choice(SIZES) if chooser.random() < 0.5 else chooser.randint(1, 20_000)
        step["chunk"] = chooser.choice((*SIZES, 65_536, 1 << 20))
        step["send"] = chooser.choice(swarm["sending"])
        step["receive"] = chooser.choice(swarm["receiving"])
        step["tls"] = [chooser.choice(TLS_SENDING), chooser.choice(TLS_RECEIVING)]
        step["wait"] = chooser.choice(swarm["waiting"])
    if kind in ("exchange", "transfer"):
        step["size"] = chooser.choice(LARGE) if swarm["large"] else chooser.choice(SIZES)
        step["back"] = chooser.choice(LARGE) if swarm["large"] else chooser.choice(SIZES)
    elif kind == "fill":
        step["wait"] = chooser.choice(swarm["waiting"])
    elif kind == "probe":
        step["what"] = chooser.choice(swarm["probes"])
    elif kind == "watch":
        step["edge"] = chooser.random() < 0.6
    elif kind == "timeout":
        step["value"] = chooser.choice(TIMEOUTS)
    elif kind == "rewrap":
        step["way"] = chooser.choice(swarm["rewrapping"])
    elif kind == "shutdown":
        step["how"] = chooser.choice((0, 1, 1, 1, 2))
    elif kind == "close":
        step["how"] = chooser.choice(CLOSING)
    elif kind == "streams":
        step["sizes"] = [chooser.choice(SIZES), chooser.choice(SIZES)]
        step["both"] = chooser.random() < 0.5
        step["eof"] = chooser.random() < 0.5
    return step
