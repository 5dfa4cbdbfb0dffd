"""How ranks find each other across hosts, which are network namespaces here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ..helpers import hosts as network_hosts
from .launchers import CLEAN, DEADLINE, ROOT, SHARED, SHOW, by_hand

EXCHANGE = """
import os, sys
from fastsock.xxdev.job import hosting
rank = int(sys.argv[1])
def put(text):
    print(text, flush=True)
def get():
    return input()
job = hosting.by_exchange(os.environ, rank, 2, "test", launcher="hydra", one_host=False, put=put, get=get)
job.announce(job.interface, 1)
print(rank, job.local_ranks, [job.address_of(each)[0] for each in range(2)], flush=True)
job.finish()
"""


@pytest.fixture
def two_hosts():
    reason = network_hosts.why_not()
    if reason:
        pytest.skip(reason)
    with network_hosts.Hosts(2) as made:
        yield made


def test_by_exchange_across_hosts(two_hosts):
    words = [[*two_hosts.inside(host), sys.executable, "-c", EXCHANGE, str(host)] for host in range(2)]
    with (
        subprocess.Popen(words[0], env=CLEAN, stdout=subprocess.PIPE, text=True, cwd=ROOT) as first,
        subprocess.Popen(
            words[1], env=CLEAN, stdin=first.stdout, stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as second,
    ):
        output, _ = second.communicate(timeout=DEADLINE)
        assert first.wait(DEADLINE) == 0
    assert output == f"1 [1] {[two_hosts.ip(0), two_hosts.ip(1)]}\n"


def test_by_hand_across_hosts(two_hosts):
    started = [
        subprocess.Popen(
            [*two_hosts.inside(host), sys.executable, "-c", SHOW],
            env=CLEAN | by_hand(rank, 3, 7117) | SHARED | {"FASTSOCK_MPJ_ADDRESS": f"{two_hosts.ip(0)}:7117"},
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank, host in enumerate((0, 0, 1))
    ]
    ended = [process.communicate(timeout=DEADLINE)[0] for process in started]
    near = [[0, 1], [0, 1], [2]]
    assert ended == [f"by hand {rank} 3 [1000, 1001, 1002] {near[rank]}\n" for rank in range(3)]
