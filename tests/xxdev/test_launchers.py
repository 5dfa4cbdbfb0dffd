"""How ranks find each other by the environments of launchers, and who is kept out."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fastsock.xxdev.job import addresses, hosting, slurm

from ..helpers.programs import free_port
from .launchers import DEADLINE, SECRET, SHARED, by_hand, start_ranks, together


def torchrun(rank, size, port, **more):
    numbers = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return numbers | {"TORCHELASTIC_RUN_ID": "test"} | more


def test_torchrun_on_one_host():
    port = free_port()
    together([torchrun(rank, 3, port, LOCAL_WORLD_SIZE="3") for rank in range(3)], "torchrun")


def test_torchrun_on_several():
    port = free_port() - 1
    together([torchrun(rank, 3, port, LOCAL_WORLD_SIZE="1", **SHARED) for rank in range(3)], "torchrun")


def test_without_a_secret_the_error_tells_what_to_do():
    ((status, _, errors),) = start_ranks([torchrun(0, 2, free_port(), LOCAL_WORLD_SIZE="1")])
    assert status == 1
    assert "Set FASTSOCK_MPJ_SECRET" in errors


def test_another_secret_gets_nowhere():
    port = free_port()
    wrong = {"FASTSOCK_MPJ_SECRET": "another secret of this very test"}
    each = [
        by_hand(0, 2, port) | SHARED | {"FASTSOCK_MPJ_START_TIMEOUT": "2"},
        by_hand(1, 2, port) | wrong | {"FASTSOCK_MPJ_START_TIMEOUT": "2"},
    ]
    (_, _, first), (status, _, errors) = start_ranks(each)
    assert "not all of the 2 ranks have joined within 2 s" in first
    assert status == 1
    assert "another job or secret" in errors


def test_by_hand():
    port = free_port()
    together([by_hand(rank, 3, port) | SHARED for rank in range(3)], "by hand")


def test_kubernetes():
    place = {"FASTSOCK_MPJ_ADDRESS": f"localhost:{free_port()}", "FASTSOCK_MPJ_SIZE": "3"}
    together([{"JOB_COMPLETION_INDEX": str(rank)} | place | SHARED for rank in range(3)], "kubernetes")


def test_kubernetes_tells_what_is_missing():
    ((_, _, errors),) = start_ranks([{"JOB_COMPLETION_INDEX": "0", "FASTSOCK_MPJ_SIZE": "2"}])
    assert "FASTSOCK_MPJ_ADDRESS" in errors


def step(rank, size, nodes, **more):
    numbers = {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_STEP_NUM_NODES": str(nodes)}
    return numbers | {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0"} | more


def test_slurm_on_one_node():
    together([step(rank, 3, 1, SLURM_STEP_NODELIST="nowhere") for rank in range(3)], "slurm")


def test_slurm_on_several():
    port = {"SLURM_STEP_RESV_PORTS": f"{free_port()}-60000"}
    together([step(rank, 3, 3, SLURM_STEP_NODELIST="localhost", **port) | SHARED for rank in range(3)], "slurm")


def test_a_batch_script_alone_is_no_rank():
    ((_, output, errors),) = start_ranks([{"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "1"}])
    assert output.startswith("singleton 0 1"), errors


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("n1", "n1"),
        ("n1,n2", "n1"),
        ("n[03-05,9],m1", "n03"),
        ("rack[2-3]-n[1,4]", "rack2-n1"),
        ("a.b-c,n[1-2]", "a.b-c"),
    ],
)
def test_slurms_lists_of_hosts(text, first):
    assert slurm.first_host(text) == first


@pytest.mark.parametrize("text", ["", "[", "n[", ",", "n$(x)"])
def test_no_list_of_hosts(text):
    with pytest.raises(addresses.WireupError):
        slurm.first_host(text)


def test_a_launcher_that_died_early_is_told():
    ((status, _, errors),) = start_ranks([step(1, 2, 1) | {"FASTSOCK_MPJ_START_TIMEOUT": "0.2"}])
    assert status == 1
    assert "rank 0" in errors


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_is_given_no_secret():
    name = f"fastsock/mpj/test/{os.getpid()}"
    hosted = hosting.Hosted(size=1, job="test", secret=SECRET, one_host=True)
    hosted.offer_to_user(name)
    hosted.start()
    text = "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
    text += f"s.connect(b'\\0' + {name.encode()!r}); sys.stdout.write(repr(s.recv(1000)))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=DEADLINE)
    assert done.stdout == "b''", done.stderr
    same = addresses.connect([addresses.unix(name)], DEADLINE, retry=False)
    assert hosting._split(same.recv(1000).decode())[0] == SECRET
    same.close()
    hosted.finish()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_another_user_cannot_pose_as_rank_0():
    name = f"fastsock/mpj/user/0/pose-{os.getpid()}"
    text = f"""
import os, socket
os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.bind(b"\\0" + {name.encode()!r})
s.listen()
print(flush=True)
connection, _ = s.accept()
connection.send(b"00|unix:x")
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as poser:
        poser.stdout.readline()
        with pytest.raises(addresses.WireupError, match="another user"):
            hosting._ask(name, "test")


FORKS = """
import os, signal, sys, threading
from fastsock.xxdev.job import current
job = current()
heard = threading.Event()
job.on_failure(lambda rank, reason: (print(job.rank, "heard of", rank, flush=True), heard.set()))
job.fence()
if job.rank == 0:
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.close(writes)
        os.close(1), os.close(2)  # nobody waits for this child
        os.read(reads, 1)  # until the rank is dead
        signal.alarm(5)
        signal.pause()
    print(flush=True)
    job.lookup("others heard")
    os.kill(os.getpid(), signal.SIGKILL)
job.publish("others heard", b"")
heard.wait(20)
os._exit(0)
"""


def test_the_death_of_rank_0_is_heard_though_its_child_lives():
    port = free_port()
    _, (_, second, errors) = start_ranks([by_hand(rank, 2, port) | SHARED for rank in range(2)], FORKS)
    assert second == "1 heard of 0\n", errors


# ---- the cores of their host ----

BOUND = """
import os
os.sched_setaffinity(0, [{core}])
from fastsock.xxdev.job import current
job = current()
print(job.crowded, flush=True)
job.fence()
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core is for all")
@pytest.mark.parametrize("one_core", [False, True])
def test_ranks_bound_to_cores_of_their_own_are_not_crowded(one_core):
    cores = sorted(os.sched_getaffinity(0))[:2]
    text = BOUND.format(core=cores[0] if one_core else f"{cores}[int(os.environ['FASTSOCK_MPJ_RANK'])]")
    port = free_port()
    each = start_ranks([by_hand(rank, 2, port) | SHARED for rank in range(2)], text)
    assert [(status, told) for status, told, _ in each] == [(0, f"{one_core}\n")] * 2, each
