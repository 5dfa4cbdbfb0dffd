"""A foreign judge of ibvdev's wire: an unmodified MPI program, and a rank whose queue pair is pyverbs' own.

`pyverbs_pair.py` and `pyverbs_rank.py` are written from the pages that describe the wire, and share no code of verbs
with fastsock. Each message goes there and comes back turned.

`tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_pyverbs_rank.py`, also with `--pair`.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from ..helpers.programs import free_port
from ..helpers.scripts import ROOT
from .guest import IS_QUICK, Guest, only_in_full, only_in_lab

pytestmark = only_in_lab

FOLDER = Path(__file__).parent
SHORT = 100 if IS_QUICK else 300  # more than one end has buffers for
EDGE = 8192 - 16 - 8 - 32  # bytes of a message that fills one segment
LENGTHS = [0, 1, EDGE, EDGE + 1, 3 * EDGE, 100_000, 128 << 10, (128 << 10) + 1, 1_000_003, (2 << 20) + 5]
LONG = [length for length in LENGTHS if length > 128 << 10]
DEADLINE = 200
# Of pyverbs_rank.py
EAGER, KEY, READY_TO_SEND, READY_TO_RECEIVE, DATA, ACKNOWLEDGE, PLACE, PLACED, GOODBYE = map(
    str, (2, 3, 4, 5, 6, 7, 14, 15, 16)
)


@pytest.fixture(autouse=True)
def guest() -> Guest:
    guest = Guest()
    if not all(map(guest.counts, guest.devices())):
        pytest.skip("soft iWARP connects by the connection manager alone, and ibvdev by itself")
    if guest.net == "wire":
        pytest.skip("both ranks are on one guest")
    return guest


def start(guest: Guest, way: str, *options: str, **settings: str) -> list[tuple[int, str, str]]:
    """Status, output and errors: of the MPI program, then of the pyverbs rank."""
    shared = os.environ | settings | {"PYTHONPATH": str(ROOT)}
    shared |= {"FASTSOCK_MPJ_DEVICE": "ibvdev", "FASTSOCK_MPJ_SIZE": "2"}
    shared |= {"FASTSOCK_MPJ_ADDRESS": f"{guest.address}:{free_port()}", "FASTSOCK_MPJ_SECRET": secrets.token_hex(32)}
    device = guest.devices()[-1]  # of h2, where there are two hosts
    stays = "stays" if "--leaves" in options else "goes"
    words = [(FOLDER / "pyverbs_partner.py", stays, SHORT, *LENGTHS)]
    words.append((FOLDER / "pyverbs_rank.py", device, guest.gid(device), way, *options))
    ranks = [
        subprocess.Popen(
            [*host, sys.executable, *map(str, each)],
            env=shared | {"FASTSOCK_MPJ_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, (host, each) in enumerate(zip((guest.at_h1, guest.at_h2), words, strict=True))
    ]
    try:
        said = [rank.communicate(timeout=DEADLINE) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, *each) for rank, each in zip(ranks, said, strict=True)]


def run(guest: Guest, way: str, *options: str, **settings: str) -> dict:
    """What the pyverbs rank counted."""
    partner, judge = start(guest, way, *options, **settings)
    assert (partner[0], judge[0]) == (0, 0), (partner[2], judge[2])
    lines = partner[1].splitlines()
    assert lines[0] == "each byte came back"
    counts = json.loads(judge[1])
    print(counts, lines)
    kinds = counts["kinds"]
    assert kinds[EAGER] == SHORT + len(LENGTHS) - len(LONG) + 1
    assert kinds[READY_TO_SEND] == len(LONG)
    assert kinds.get(GOODBYE, 0) == int("--leaves" not in options)
    assert counts["segments"] > SHORT
    return counts | {"left": lines[1:]}


def test_the_senders_device_writes_what_is_long(guest: Guest) -> None:
    before = guest.sent_packets(guest.devices()[-1])
    counts = run(guest, "place")
    assert counts["kinds"][PLACED] == len(LONG)  # it wrote here
    assert counts["kinds"][PLACE] == len(LONG)  # it let its memory be written
    assert (counts["written"], counts["fetched"], counts["ring"]) == (sum(LONG), 0, False)
    assert guest.sent_packets(guest.devices()[-1]) - before > sum(LONG) // 4096


@only_in_full
def test_the_receivers_device_reads_what_is_long(guest: Guest) -> None:
    counts = run(guest, "read", FASTSOCK_MPJ_RDMA_RENDEZVOUS="read")
    assert counts["kinds"][KEY] == counts["kinds"][ACKNOWLEDGE] == len(LONG)
    assert (counts["written"], counts["fetched"]) == (0, sum(LONG))


@only_in_full
def test_what_is_long_goes_in_segments_where_memory_cannot_be_registered(guest: Guest) -> None:
    counts = run(guest, "data", FASTSOCK_MPJ_RDMA_MEMORY="4096")
    assert counts["kinds"][READY_TO_RECEIVE] == len(LONG)
    assert counts["kinds"][DATA] >= len(LONG)
    assert (counts["written"], counts["fetched"]) == (0, 0)
    assert counts["segments"] > sum(LONG) // 8192


@only_in_full
def test_segments_are_written_into_rings(guest: Guest) -> None:
    assert run(guest, "place", "--ring", FASTSOCK_MPJ_RDMA_EAGER="write")["ring"]


@only_in_full
@pytest.mark.parametrize(("options", "eager"), [((), "write"), (("--ring",), "send")])
def test_where_one_end_alone_has_a_ring_segments_are_sent(guest: Guest, options: tuple[str, ...], eager: str) -> None:
    assert not run(guest, "place", *options, FASTSOCK_MPJ_RDMA_EAGER=eager)["ring"]


@only_in_full
def test_a_rank_that_says_goodbye_has_finished(guest: Guest) -> None:
    (left,) = run(guest, "place", "--leaves")["left"]
    assert "rank 1" in left
    assert "has finished" in left


@only_in_full
def test_a_segment_of_another_rank_ends_the_connection(guest: Guest) -> None:
    (status, output, errors), _ = start(guest, "place", "--lies")
    print(errors)
    assert (status != 0, output) == (True, "")
    assert "rank 1" in errors
    assert "MPI_ERR_PROC_FAILED" in errors
