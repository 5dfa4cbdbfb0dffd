"""What docs/how-to/slurm.md says, on four hosts that a real Slurm joins: namespaces of this machine (`run`)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ..helpers.scripts import ROOT
from ..pages import page

RUN = Path(__file__).with_name("run")
PAGE = page.read(ROOT / "docs/how-to/slurm.md")
CANNOT, SECONDS = 77, 200

pytestmark = pytest.mark.skipif(
    subprocess.run([RUN, "--ready"]).returncode != 0, reason="Slurm was not downloaded: tests/slurm/run --quick does it"
)

WITH_MPI4PY = """
import socket
from mpi4py import MPI

world = MPI.COMM_WORLD
hosts = world.gather(socket.gethostname())
if world.rank == 0:
    print("ranks", world.size, "on", *sorted(set(hosts)), "sum", world.allreduce(1), flush=True)
else:
    world.allreduce(1)
"""
OWN = """
import gc, socket
from fastsock.mpj import MPI
from fastsock.xxdev.device import Device

world = MPI.COMM_WORLD
others = [rank for rank in range(world.size) if rank != world.rank]
for rank in others:
    assert world.sendrecv(world.rank, rank, source=rank) == rank
(device,) = [each for each in gc.get_objects() if isinstance(each, Device)]
ways = {device.explain(rank).transport for rank in others}
told = world.gather((socket.gethostname(), world.rank, *sorted(ways)))
if world.rank == 0:
    for each in told:
        print(*each)
"""
FAILS = """
import os, time
from fastsock.mpj import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1:
    os._exit(3)
began = time.monotonic()
try:
    world.recv(source=1)
except MPI.Exception as error:
    assert "rank 1" in str(error), error
    print("heard", time.monotonic() - began < 30, flush=True)
time.sleep(600 * STAYS)
"""


def on_hosts(script: str, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of bash on the first host, in a folder that all hosts share and that has these files."""
    made = "".join(f"cat > {name}.py << 'END_OF_FILE'\n{text}\nEND_OF_FILE\n" for name, text in files.items())
    command = [RUN, *options, "--", "bash", "-c", made + script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL)
    if done.returncode == CANNOT:
        pytest.skip(done.stderr.strip())
    return done


def block(*words: str) -> str:
    (found,) = [each.text for each in PAGE.blocks if all(word in each.text for word in words)]
    return found


def counted(ranks: int, hosts: int) -> str:
    return f"ranks {ranks} on {' '.join(f'n{number}' for number in range(1, hosts + 1))} sum {ranks}\n"


def test_one_node_as_the_page_has_it() -> None:
    done = on_hosts(block("-N 1"), app=WITH_MPI4PY)
    assert (done.returncode, done.stdout) == (0, counted(8, 1)), done.stderr


def test_the_pages_batch_script() -> None:
    script = block("#SBATCH --nodes=4", "FASTSOCK_MPJ_SECRET")
    submit = f"cat > job << 'END'\n{script}\nEND\nsbatch --wait --output=said job >&2; cat said"
    done = on_hosts(submit, app=WITH_MPI4PY)
    assert (done.returncode, done.stdout) == (0, counted(32, 4)), done.stderr


def test_the_pages_own_runner_within_an_allocation() -> None:
    script = block("scontrol show hostnames")
    within = f"export FASTSOCK_MPJ_SSH=enter-host\nsalloc -N 4 -n 32 bash -c '{script}'"
    done = on_hosts(within, "--root", app=WITH_MPI4PY)  # root alone may enter another host
    assert (done.returncode, done.stdout) == (0, counted(32, 4)), done.stderr


def test_several_nodes_without_a_secret_are_refused() -> None:
    done = on_hosts("srun -N 2 -n 2 python app.py", app=OWN)
    assert done.returncode != 0
    assert "Set FASTSOCK_MPJ_SECRET to the same random text in all ranks" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "FASTSOCK_MPJ_SECRET=$(openssl rand -hex 32) srun",
        "FASTSOCK_MPJ_SECRET=$(openssl rand -hex 32) FASTSOCK_MPJ_ADDRESS=10.66.0.1:7117 srun",
        "srun --mpi=pmi2",
        "srun --mpi=pmix",
    ],
)
def test_ranks_of_a_node_share_memory_and_those_of_two_have_tcp(words: str) -> None:
    done = on_hosts(f"{words} -N 2 --ntasks-per-node=2 python app.py", app=OWN)
    lines = [f"{host} {rank} shm tcp" for rank, host in enumerate(("n1", "n1", "n2", "n2"))]
    assert (done.returncode, done.stdout.splitlines()) == (0, lines), done.stderr


@pytest.mark.parametrize("stays", [False, True])
def test_when_a_rank_fails_the_others_hear_of_it_and_slurm_decides(stays: bool) -> None:
    option = "--kill-on-bad-exit=1" if stays else ""
    begin = "FASTSOCK_MPJ_SECRET=$(openssl rand -hex 32) srun"
    done = on_hosts(f"{begin} {option} -N 2 -n 3 python app.py", app=FAILS.replace("STAYS", str(int(stays))))
    assert re.findall("heard (.*)", done.stdout) == ["True", "True"], done.stderr
    assert "task 1: Exited with exit code 3" in done.stderr
    assert done.returncode == 3 or (stays and done.returncode > 128)
