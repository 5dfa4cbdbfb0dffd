"""`fastsock list` beside processes that have what it lists."""

from __future__ import annotations

import json
import subprocess
import sys

from fastsock import rmi
from fastsock.rmi import names
from fastsock.rmi.client import addresses, connecting, listing

from .running import COMMAND, run

DAEMON = """
from fastsock import rmi
@rmi.expose
class Store:
    def add(self, a, b): return a + b
with rmi.Daemon() as daemon:
    daemon.register(Store(), "{name}")
    print("ready", flush=True)
    daemon.serve()
"""


def listed(**environment: str) -> dict:
    return json.loads(run("list", "--json", **environment).stdout)


def test_a_daemon_is_there_while_it_lives():
    name = "command-test-daemon"
    code = DAEMON.format(name=name)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        mine = [each for each in listed()["daemons"] if each["process"] == process.pid]
        assert [each["objects"] for each in mine] == [{name: "Store"}]
        assert f"rmi:{name}  Store" in run("list").stdout
        process.kill()
    assert process.pid not in [each["process"] for each in listed()["daemons"]]


def test_a_daemon_that_ends_before_it_is_asked_is_no_problem(monkeypatch):
    name = "command-test-ends"
    daemon = rmi.Daemon()
    daemon.register(names.Names(), name)
    daemon.start()
    ask = listing.reach

    def end_and_ask(*arguments, **keywords):
        daemon.close()
        return ask(*arguments, **keywords)

    monkeypatch.setattr(addresses, "names_here", lambda: [name])
    monkeypatch.setattr(listing, "reach", end_and_ask)
    assert listing.daemons() == ([], [])  # it ended before it was asked what it serves
    assert listing.daemons() == ([], [])  # before it was asked where it listens


def test_a_daemon_that_lives_and_does_not_answer_is_a_problem(monkeypatch):
    name = "command-test-mute"

    def refuse(*_, **keywords):
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(addresses, "names_here", lambda: [name])
    monkeypatch.setattr(listing, "reach", refuse)
    with rmi.Daemon() as daemon:
        daemon.register(names.Names(), name)
        daemon.start()
        found, problems = listing.daemons()
    assert found == [] and len(problems) == 1 and f"rmi:{name}: 127.0.0.1:" in problems[0]


def test_a_daemon_that_refuses_is_told_of_once(monkeypatch):
    name = "command-test-refuses"
    monkeypatch.setattr(addresses, "names_here", lambda: [name])
    with rmi.Daemon(key="another key than this process's own") as daemon:
        daemon.register(names.Names(), name)
        daemon.start()
        host, port = daemon.address
        _, problems = listing.daemons()
    assert problems == [f"rmi:{name}: {host}:{port}: it refused: another key"]


def test_ranks_are_told_by_their_job():
    code = "from fastsock.mpj.MPI import COMM_WORLD as world; print('ready', flush=True); world.rank or input(); "
    code += "world.Barrier()"
    command = [*COMMAND, "ranks", "-n", "2", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
        ranks = [rank for rank in listed()["ranks"] if "world.rank or input()" in rank["command"]]
        assert [(rank["rank"], rank["size"]) for rank in ranks] == [(0, 2), (1, 2)]
        assert len({rank["job"] for rank in ranks}) == 1
        process.communicate("\n")


def test_a_program_that_is_run_is_a_process():
    code = "import socket; print('ready', flush=True); input()"
    command = [*COMMAND, "run", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert process.pid in [each["pid"] for each in listed()["processes"]]
        process.communicate("\n")


def test_names_at_the_name_server():
    with rmi.Daemon(("127.0.0.1", 0), names="") as daemon:
        daemon.register(names.Names(), connecting.NAMES, local=False)
        daemon.start()
        server = "{}:{}".format(*daemon.address)
        with rmi.Daemon(names=server) as other:
            other.register(names.Names(), "command-test-name", local=False)
            assert "command-test-name" in listed(FASTSOCK_RMI_NAMES=server)["names"]


def test_a_name_server_that_is_gone_is_a_problem():
    seen = run("list", FASTSOCK_RMI_NAMES="127.0.0.1:1")
    assert seen.returncode == 1
    assert "problem: FASTSOCK_RMI_NAMES=127.0.0.1:1" in seen.stdout
