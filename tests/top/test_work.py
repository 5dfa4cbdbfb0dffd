"""What `fastsock top` shows of ranks and of daemons of remote objects."""

from __future__ import annotations

import subprocess
import sys

import pytest

from . import workers
from .talkers import top

TOP = [sys.executable, "-m", "fastsock", "top"]
HIDDEN = ("env", "FASTSOCK_SHOWN=0")


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_ranks(device):
    with workers.ranks(device=device) as runner:
        found = [row for row in top()["ranks"] if row["pid"] in workers.children(runner)]
    assert [(row["rank"], row["size"]) for row in sorted(found, key=lambda row: row["rank"])] == [(0, 2), (1, 2)]
    (job,) = {row["job"] for row in found}
    assert job == f"threads of {runner.pid}" if device == "smpdev" else job not in ("?", "")
    for row in found:
        # of two rounds at least; the ranks said something to each other before, by short messages
        assert min(row["messages_out"], row["messages_in"]) >= 100
        assert min(row["bytes_out"], row["bytes_in"]) >= 100 * 100
        assert row["collectives"] >= 102
        assert min(value for name, value in row.items() if name.endswith("_rate")) > 0
        # a barrier in shared memory is no message, and each is counted once: 51 collectives a round with 50 messages
        assert row["collectives_rate"] < 2 * row["messages_out_rate"]


def test_a_daemon():
    with workers.daemon() as (server, client, address):
        (row,) = [each for each in top()["daemons"] if each["pid"] == server.pid]
        assert f"{row['address'][0]}:{row['address'][1]}" == address
        # two calls looked the object up, and asked for its signatures
        assert row["calls"] >= 212 and row["errors"] >= 20 and row["connections"] == 1
        assert row["calls_rate"] > row["errors_rate"] > 0
        workers.tell(client)
        assert client.stdout.readline() == "left\n"
        while (row := next(each for each in top()["daemons"] if each["pid"] == server.pid))["connections"]:
            pass
        assert row["calls"] == 10 * row["errors"] + 12


def test_who_hides_is_not_shown():
    with workers.ranks(*HIDDEN) as runner, workers.daemon(*HIDDEN) as (server, _, _):
        seen, pids = top(), workers.children(runner) | {server.pid}
    assert not [row for row in seen["ranks"] + seen["daemons"] if row["pid"] in pids]
    assert server.pid in [row["pid"] for row in seen["processes"]]


def test_the_tables_come_before_that_of_connections():
    with workers.ranks() as runner, workers.daemon() as (server, _, address):
        command = [*TOP, "--once", "--seconds", "0.2"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        (job,) = {row["job"] for row in top()["ranks"] if row["pid"] in workers.children(runner)}
        of_rank = top("--find", job)
        of_daemon, on_carrier = top("--find", address), top("--carrier", "shm")
    heads = [line.split()[:2] for line in text.splitlines() if line.lstrip().startswith("PID")]
    assert heads[:2] == [["PID", "RANK"], ["PID", "DAEMON"]]
    assert any(line.split()[:2] == [str(server.pid), address] for line in text.splitlines())
    assert any(line.split()[1:4] == ["1", "of", "2"] for line in text.splitlines())
    assert {row["rank"] for row in of_rank["ranks"]} == {0, 1} and of_rank["daemons"] == []
    assert [row["pid"] for row in of_daemon["daemons"]] == [server.pid] and of_daemon["ranks"] == []
    assert on_carrier["ranks"] == on_carrier["daemons"] == []


@pytest.mark.parametrize(("order", "first"), [("pid", "lower"), ("rate", "busy")])
def test_order(order, first):
    with workers.daemon() as (idle, client, _), workers.daemon() as (busy, _, _):
        workers.tell(client)
        assert client.stdout.readline() == "left\n"
        mine = [row["pid"] for row in top("--sort", order)["daemons"] if row["pid"] in (idle.pid, busy.pid)]
    assert mine == (sorted(mine) if first == "lower" else [busy.pid, idle.pid])


def test_a_child_shows_its_own_daemon_alone():
    code = (
        "import os, sys; from fastsock import rmi\n"
        "daemon = rmi.Daemon(); child = os.fork()\n"
        "if not child:\n"
        "    own = rmi.Daemon(); print(*own.address, flush=True); sys.stdin.read(); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as parent:
        port = int(parent.stdout.readline().split()[1])
        rows = [row for row in top()["daemons"] if row["pid"] in workers.children(parent)]
        parent.communicate("")
    assert sorted(row["address"][1] == port for row in rows) == [False, True]
    assert len({row["pid"] for row in rows}) == 2
