"""Jobs on different hosts meet by a port, and ranks are spawned on another host."""

from __future__ import annotations

import os
import subprocess
import sys

from ..helpers.hosts import Hosts
from ..helpers.scripts import ROOT
from .test_ranks import PREFIX

TALK = """
whole = between.Merge(HIGH)
assert whole.size == 4 and whole.allgather(whole.rank) == [0, 1, 2, 3]
large = np.full(300_000, whole.rank, "f8")
whole.Allreduce(MPI.IN_PLACE, large)
assert (large == 6).all()
near = whole.Split_type(MPI.COMM_TYPE_SHARED)
assert near.size == 2 and near.allgather(rank) == [0, 1]
window = MPI.Win.Allocate(8, 8, comm=whole)
window.Fence()
window.Accumulate(np.ones(1, "i8"), (whole.rank + 2) % 4)
window.Fence()
assert np.frombuffer(window, "i8")[0] == 1
window.Free()
whole.Disconnect()
between.Disconnect()
print(rank, "right", flush=True)
"""
SERVER = """
port = MPI.Open_port() if rank == 0 else "?"
if rank == 0:
    print(port, flush=True)
between = comm.Accept(port)
"""
CLIENT = """
import sys
between = comm.Connect(sys.argv[1])
"""
SPAWN = """
import sys
info = MPI.Info.Create({"host": sys.argv[1] + ":2"})
between = comm.Spawn(sys.executable, ["-c", sys.argv[2]], 2, info)
"""
CHILD = """
between = MPI.Comm.Get_parent()
"""


def started(network, host, text, *words, **environ):
    """A job of two ranks there."""
    runner = [sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "--timeout", "50", "-c", PREFIX + text, *words]
    return subprocess.Popen(
        [*network.inside(host), *runner],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=os.environ | {"FASTSOCK_MPJ_INTERFACE": network.ip(host)} | environ,
    )


def test_jobs_on_two_hosts_meet_by_a_port(network: Hosts):
    with started(network, 0, SERVER + TALK.replace("HIGH", "False")) as server:
        port = server.stdout.readline().strip()
        assert port.startswith(network.ip(0)), port
        with started(network, 1, CLIENT + TALK.replace("HIGH", "True"), port) as client:
            said = client.communicate(timeout=60)[0]
            assert client.returncode == 0 and said.count("right") == 2, said
        said = server.communicate(timeout=60)[0]
        assert server.returncode == 0 and said.count("right") == 2, said


def test_ranks_are_spawned_on_another_host(network: Hosts, tmp_path):
    child = PREFIX + CHILD + TALK.replace("HIGH", "True")
    text = SPAWN + TALK.replace("HIGH", "False")
    with started(network, 0, text, network.ip(1), child, **network.remote_start(tmp_path)) as job:
        said = job.communicate(timeout=60)[0]
        assert job.returncode == 0 and said.count("right") == 4, said
