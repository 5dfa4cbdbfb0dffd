"""`fastsock top` beside processes that talk: what it shows of them, whatever they run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ..preload import compiled
from .talkers import PLAIN, RUN, rows_of, talking, top

LAUNCHER = [sys.executable, "-m", "fastsock.launcher"]
CLASS = [sys.executable, "-c", "import sys, fastsock; fastsock.install(); exec(sys.argv[2])"]
TOP = [sys.executable, "-m", "fastsock", "top"]


@compiled.needs_library
def test_both_ends_of_a_connection_with_memory():
    with talking() as (server, client):
        (near,), (far,) = rows_of(client), rows_of(server)
    assert (near["carrier"], near["role"], near["peer_pid"]) == ("shm", "connect", server.pid)
    assert (far["carrier"], far["role"], far["peer_pid"]) == ("shm", "accept", client.pid)
    assert (near["local"], near["peer"]) == (far["peer"], far["local"])
    for row in (near, far):
        assert min(row["bytes_out"], row["bytes_in"]) >= 200_000
        assert min(row[f"{name}_rate"] for name in ("bytes_out", "bytes_in", "messages_out", "messages_in")) > 0
        assert row["waits"] is not None and row["wakes"] is not None


@compiled.needs_library
def test_bytes_are_the_payload_whatever_carried_it():
    """Those of the time before memory, and no tokens."""
    with talking() as (_, client):
        client.stdin.write("\n")
        client.stdin.flush()
        client.wait()
    code = (
        "import socket; listener = socket.create_server(('127.0.0.1', 0)); "
        "a = socket.create_connection(listener.getsockname()); b = listener.accept()[0]\n"
        "for _ in range(1000): a.sendall(b'x' * 10); b.recv(10, socket.MSG_WAITALL)\n"
        "print('ready', flush=True); input()"
    )
    with subprocess.Popen([*RUN, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        rows = [row for row in rows_of(process) if row["peer"] is not None]
        process.communicate("\n")
    assert sorted((row["bytes_out"], row["bytes_in"]) for row in rows) == [(0, 10_000), (10_000, 0)]
    assert {row["carrier"] for row in rows} == {"shm"}


@compiled.needs_library
def test_why_a_connection_stays_on_tcp():
    with talking(serve_by=PLAIN) as (server, client):
        (row,) = rows_of(client)
        assert rows_of(server) == []
    assert (row["carrier"], row["detail"]) == ("tcp", "nobody was found at the other end")
    assert row["messages_out"] is None
    assert row["bytes_out_rate"] > 0


@compiled.needs_library
@pytest.mark.parametrize("run", [RUN, LAUNCHER, CLASS], ids=["command", "launcher", "class"])
def test_a_process_that_wants_it_makes_no_file(run):
    with talking(ask_by=["env", "FASTSOCK_SHOWN=0", *run]) as (server, client):
        (far,) = rows_of(server)
        (near,) = rows_of(client)
        there = {name.partition("-")[0] for name in os.listdir(f"/dev/shm/fastsock-{os.geteuid()}")}
    assert (far["carrier"], near["carrier"]) == ("shm", "tcp")
    assert str(server.pid) in there and str(client.pid) not in there


@compiled.needs_library
def test_a_killed_process_is_seen_no_more_and_leaves_no_file():
    with talking() as (server, client):
        assert rows_of(server)
        number = str(server.pid)
        server.kill()
        server.wait()
        assert rows_of(server) == []
        left = [name for name in os.listdir(f"/dev/shm/fastsock-{os.geteuid()}") if name.partition("-")[0] == number]
        assert left == []
        client.kill()


@compiled.needs_library
def test_a_program_that_ends_leaves_no_file():
    with talking() as (server, client):
        numbers = {str(server.pid), str(client.pid)}
        assert numbers <= {name.partition("-")[0] for name in os.listdir(f"/dev/shm/fastsock-{os.geteuid()}")}
    assert not numbers & {name.partition("-")[0] for name in os.listdir(f"/dev/shm/fastsock-{os.geteuid()}")}


@compiled.needs_library
def test_the_table_names_what_it_shows():
    with talking() as (server, client):
        done = subprocess.run(
            [*TOP, "--once", "--seconds", "0.2", "--pid", str(client.pid)], capture_output=True, text=True
        )
    first, _, head, row = done.stdout.splitlines()
    assert "1 connections: shm 1, tcp 0" in first
    assert head.split()[:4] == ["PID", "FD", "PEER", "CARRIER"]
    assert str(client.pid) in row and f"[{server.pid}]" in row and " shm " in row


@compiled.needs_library
def test_filters():
    with talking() as (_, client):
        pid = str(client.pid)
        assert top("--pid", pid, "--carrier", "tcp")["connections"] == []
        assert top("--pid", pid, "--find", "no such text")["connections"] == []
        (row,) = top("--pid", pid, "--find", "127.0.0.1", "--sort", "bytes")["connections"]
        assert client.pid in [each["pid"] for each in top()["processes"]]
    assert row["pid"] == client.pid


@pytest.mark.parametrize("words", [["--seconds", "0"], ["--sort", "colour"], []])
def test_what_cannot_be_shown_is_told(words):
    done = subprocess.run([*TOP, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and done.stderr.startswith("fastsock top: ")
