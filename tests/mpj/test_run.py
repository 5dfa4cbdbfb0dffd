"""`python -m fastsock.mpj.run`: what it starts, how it ends, and that nothing stays behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest

from ..helpers import hosts as network_hosts

RUN = [sys.executable, "-m", "fastsock.mpj.run"]
DEADLINE = 60.0

JOIN = """
import os, signal, sys, threading
from fastsock.xxdev.job import current
job = current()
job.hosts
"""


def run(*words, input=None, env=None, cwd=None, timeout=DEADLINE):
    """The finished runner; its output as text."""
    return subprocess.run(
        [*RUN, *map(str, words)],
        input=input,
        stdin=None if input is not None else subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | (env or {}),
        cwd=cwd,
        timeout=timeout,
    )


def lines(finished):
    return sorted(finished.stdout.splitlines())


@pytest.fixture
def program(tmp_path):
    """Writes a program that has joined as `job`; its path."""

    def write(text, name="app.py"):
        path = tmp_path / name
        path.write_text(JOIN + text)
        return path

    return write


# ---- what it starts ----


@pytest.mark.parametrize("device", ["iodev", "smpdev", "sysvdev"])
def test_ranks_know_who_they_are(program, device):
    app = program("print(job.rank, job.size, job.device, sys.argv[1:], __name__)")
    done = run("-n", 3, "--device", device, app, "-n", "x")
    assert lines(done) == [f"{rank} 3 {device} ['-n', 'x'] __main__" for rank in range(3)]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_module_and_code(tmp_path, device):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__main__.py").write_text("import sys; print(__package__, sys.argv[1:])\n")
    (tmp_path / "pack" / "other.py").write_text("from . import __name__ as package; print(package, __name__)\n")
    assert run("-n", 2, "--device", device, "-m", "pack", "-x", cwd=tmp_path).stdout == "pack ['-x']\n" * 2
    assert run("-n", 2, "--device", device, "-m", "pack.other", cwd=tmp_path).stdout == "pack __main__\n" * 2
    assert run("-n", 2, "--device", device, tmp_path / "pack").stdout == " []\n" * 2
    done = run("-n", 2, "--device", device, "-c", "import sys; print(sys.argv)", "-y")
    assert done.stdout == "['-c', '-y']\n" * 2


def test_a_program_that_is_not_python():
    done = run("-n", 2, "sh", "-c", "echo $FASTSOCK_MPJ_RANK of $FASTSOCK_MPJ_SIZE")
    assert lines(done) == ["0 of 2", "1 of 2"]


def test_python_options_reach_the_ranks():
    words = [sys.executable, "-W", "error", "-X", "dev", "-m", "fastsock.mpj.run", "-n", "2", "-c"]
    done = subprocess.run([*words, "import sys; print(sys.warnoptions, sys.flags.dev_mode)"], capture_output=True)
    assert done.stdout.splitlines()[0].endswith(b"'error'] True")


def test_standard_input_is_rank_0s(program):
    app = program("print(job.rank, repr(sys.stdin.read()))")
    assert lines(run("-n", 2, app, input="hello\n")) == ["0 'hello\\n'", "1 ''"]


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_output_is_tagged_line_by_line(program, device):
    app = program("sys.stdout.write('one\\ntwo'); sys.stdout.flush(); print('err', file=sys.stderr)")
    done = run("-n", 2, "--tag-output", "--device", device, app)
    assert lines(done) == ["[0] one", "[0] two", "[1] one", "[1] two"]
    assert sorted(done.stderr.splitlines()) == ["[0] err", "[1] err"]


def test_long_lines_and_binary_output_survive_the_tags(program):
    app = program("os.write(1, b'\\xff' + b'x' * 300000 + b'\\n')")
    done = subprocess.run([*RUN, "-n", "1", "--tag-output", app], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert done.stdout.replace(b"[0] ", b"").replace(b"\n", b"") == b"\xff" + b"x" * 300000


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_many_ranks(program, device):
    app = program("job.fence(); print(job.rank)")
    assert sorted(map(int, run("-n", 24, "--device", device, app).stdout.split())) == list(range(24))


def test_fastsock_is_found_wherever_the_program_is(tmp_path):
    import fastsock

    (tmp_path / "app.py").write_text("import fastsock, os; print(os.path.dirname(fastsock.__file__))")
    root = Path(fastsock.__file__).parents[1]
    command = [sys.executable, "-S", "-m", "fastsock.mpj.run", "-n", "1", str(tmp_path / "app.py")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.stdout.strip() == str(root / "fastsock"), done.stderr


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "no program"),
        (["-n", "0", "app.py"], "more than 0"),
        (["-n", "x", "app.py"], "not a number"),
        (["--device", "carrier-pigeon", "app.py"], "there is no device"),
        (["--wrong", "app.py"], "there is no option --wrong"),
        (["-n"], "needs a value"),
        (["-m"], "needs a value"),
        (["--device", "smpdev", "sh"], "Python programs"),
    ],
)
def test_a_wrong_command_line_is_explained(words, text):
    done = run(*words)
    assert done.returncode == 2
    assert text in done.stderr


def test_help_and_version():
    assert run("--help").stdout.startswith("usage:")
    assert run("--version").stdout.startswith("fastsock ")


# ---- how it ends ----


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_the_status_is_that_of_the_first_that_failed(program, device):
    app = program("job.fence()\nif job.rank == 1: sys.exit(7)\njob.on_failure(lambda *_: os._exit(9))\nsignal.pause()")
    done = run("-n", 3, "--device", device, app)
    if device == "iodev":
        assert done.returncode == 7
        assert re.search(r"rank 1 \(host \S+, pid \d+\) exited with status 7; ending the others", done.stderr)
    else:  # os._exit ends all threads
        assert done.returncode == 9
        assert "rank 1 (a thread of pid" in done.stderr


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_an_uncaught_exception_ends_all(program, device):
    app = program("job.fence()\nif job.rank == 1: raise ValueError('wrong')\nsignal.pause()")
    done = run("-n", 3, "--device", device, "--grace", "0.1", app)
    assert done.returncode == 1
    assert "ValueError: wrong" in done.stderr
    assert "rank 1 (" in done.stderr


def test_a_killed_rank_is_named_to_the_others_at_once(program):
    app = program("""
job.fence()
if job.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
import threading
heard = threading.Event()
def failed(rank, reason):
    print(job.rank, "heard:", rank, reason, flush=True)
    heard.set()
job.on_failure(failed)
heard.wait(30)
""")
    done = run("-n", 3, app)
    assert done.returncode == 128 + signal.SIGKILL
    expected = r"rank 1 \(host \S+, pid \d+\) was killed by signal 9 \(SIGKILL\)"
    for rank, line in zip((0, 2), lines(done), strict=True):
        assert re.fullmatch(rf"{rank} heard: 1 {expected}", line)
    assert re.search(expected + "; ending the others", done.stderr)


def test_the_others_are_ended_even_if_they_will_not(program):
    app = program("""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
job.fence()
if job.rank == 1:
    os._exit(3)
signal.pause()
""")
    done = run("-n", 2, "--grace", "0.1", app)
    assert done.returncode == 3


def test_a_rank_that_ends_without_goodbye_has_failed(program):
    done = run("-n", 2, "--grace", "0.1", program("job.fence()\nif job.rank == 0: os._exit(0)\nsignal.pause()"))
    assert done.returncode == 1
    assert "without finishing" in done.stderr


def test_one_that_finished_may_end_as_it_likes(program):
    done = run("-n", 2, program("job.finish()\nos._exit(0)"))
    assert (done.returncode, done.stderr) == (0, "")


def test_waiting_for_a_dead_rank_is_an_error(program):
    app = program("""
if job.rank == 1:
    os._exit(3)
try:
    job.address_of(1)
except Exception as error:
    print(type(error).__name__, error)
""")
    done = run("-n", 2, app)
    assert re.match(r"JobError rank 1 \(host .* exited with status 3", done.stdout)


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_abort_ends_all_with_its_status(program, device):
    app = program("job.fence()\nif job.rank == 2: job.abort(5, 'no more')\nsignal.pause()")
    done = run("-n", 3, "--device", device, app)
    assert done.returncode == 5
    assert "no more" in done.stderr


@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_the_time_limit(program, device):
    done = run("-n", 2, "--timeout", "0.5", "--device", device, program("signal.pause()"))
    assert done.returncode == 124
    assert "0.5 s" in done.stderr


def test_a_program_that_is_not_there():
    done = run("-n", 2, "/nowhere/app.py")
    assert done.returncode == 2
    assert done.stderr == "python -m fastsock.mpj.run: there is no file and no program /nowhere/app.py\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("device", ["iodev", "smpdev"])
def test_an_interrupted_runner_ends_all_quietly(program, number, device):
    app = program("job.fence()\nprint(os.getpid(), flush=True)\nsignal.pause()")
    with start("-n", "2", "--device", device, app) as runner:
        pids = [int(runner.stdout.readline()) for _ in range(2)]
        runner.send_signal(number)
        _, errors = runner.communicate(timeout=DEADLINE)
        assert runner.returncode == -number
        assert "Traceback" not in errors
        gone(pids)


def test_an_interrupt_that_a_rank_took_ends_all(program):
    """Ranks are threads here, and the kernel may give a signal to any of them."""
    app = program("if job.rank: signal.pthread_kill(threading.get_ident(), signal.SIGINT)\nthreading.Event().wait()")
    done = run("-n", 2, "--device", "smpdev", app)
    assert done.returncode == -signal.SIGINT
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_signals_of_the_user_are_the_ranks(program, number):
    app = program(
        f"""
class Heard(Exception):
    pass
def hear(*_):
    raise Heard
signal.signal({int(number)}, hear)
job.fence()
try:
    print("up", flush=True)
    while True:
        signal.pause()
except Heard:
    print("heard", flush=True)
"""
    )
    with start("-n", "3", app) as runner:
        assert [runner.stdout.readline() for _ in range(3)] == ["up\n"] * 3
        runner.send_signal(number)
        output, errors = runner.communicate(timeout=DEADLINE)
    assert (runner.returncode, output, errors) == (0, "heard\n" * 3, "")


def test_nothing_outlives_a_killed_runner(program):
    app = program("job.fence()\nprint(os.getpid(), flush=True)\nsignal.pause()")
    with start("-n", "3", app) as runner:
        pids = [int(runner.stdout.readline()) for _ in range(3)]
        runner.kill()
        runner.wait()
        gone(pids)


def test_nothing_outlives_a_killed_runner_below_a_shell(program):
    app = program("job.fence()\nprint(os.getpid(), flush=True)\nsignal.pause()")
    with start("-n", "2", "sh", "-c", f"{sys.executable} {app}; true") as runner:
        pids = [int(runner.stdout.readline()) for _ in range(2)]
        runner.kill()
        runner.wait()
        gone(pids)


def start(*words, env=None):
    return subprocess.Popen(
        [*RUN, *map(str, words)],
        env=os.environ | (env or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def gone(pids):
    """Wait until these processes have ended."""
    alive = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            alive.append(psutil.Process(pid))
    end = time.monotonic() + 30
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in alive):
        assert time.monotonic() < end, f"still running: {alive}"
        psutil.wait_procs(alive, timeout=0.1)


# ---- children of ranks ----


def test_children_of_a_rank_are_no_ranks(program):
    app = program("""
import multiprocessing, subprocess
text = "from fastsock.xxdev.job import current; job = current(); print('child', job.rank, job.size, job.launcher)"
subprocess.run([sys.executable, "-c", text])
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    print("fork", current().size, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
job.fence()
""")
    done = run("-n", 2, app)
    assert lines(done) == ["child 0 1 singleton"] * 2 + ["fork 1"] * 2
    assert done.returncode == 0, done.stderr


def test_a_rank_may_be_started_by_a_program_in_between(program):
    app = program("print(job.rank, job.size)")
    middle = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, {str(app)!r}]))"
    assert lines(run("-n", 2, "-c", middle)) == ["0 2", "1 2"]


def test_a_second_process_of_one_rank_is_refused(program):
    app = program("")
    middle = f"""
import subprocess, sys
print([subprocess.run([sys.executable, {str(app)!r}], capture_output=True).returncode for _ in range(2)])
"""
    done = run("-n", 1, "-c", middle)
    assert done.stdout  # one rank alone is never refused
    twice = run("-n", 2, "-c", middle)
    assert lines(twice) == ["[0, 1]"] * 2


# ---- as mpi4py ----


def test_as_mpi4py_reaches_children(tmp_path):
    text = "import mpi4py, fastsock.mpj; print(mpi4py.rc is fastsock.mpj.rc, mpi4py.get_config())"
    (tmp_path / "app.py").write_text(
        f"import subprocess, sys; {text}; sys.stdout.flush()\nsubprocess.run([sys.executable, '-c', {text!r}])"
    )
    done = run("-n", 2, "--as-mpi4py", tmp_path / "app.py")
    assert done.stdout == "True {}\n" * 4, done.stderr


def test_as_mpi4py_is_installed_for_what_asks(tmp_path):
    """Programs look for the version of a distribution, and import nothing."""
    (tmp_path / "app.py").write_text(
        "from importlib.metadata import distribution, version; import mpi4py\n"
        "print(version('mpi4py') == mpi4py.__version__, distribution('mpi4py').metadata['Name'])"
    )
    done = run("-n", 1, "--as-mpi4py", tmp_path / "app.py")
    assert done.stdout == "True mpi4py\n", done.stderr


def test_as_mpi4py_wins_over_an_installed_one(tmp_path):
    (tmp_path / "elsewhere" / "mpi4py").mkdir(parents=True)
    (tmp_path / "elsewhere" / "mpi4py" / "__init__.py").write_text("raise ImportError('the other')")
    (tmp_path / "app.py").write_text("import mpi4py.rc; print(mpi4py.__version__ > '4')")
    done = run("-n", 1, "--as-mpi4py", tmp_path / "app.py", env={"PYTHONPATH": str(tmp_path / "elsewhere")})
    assert done.stdout == "True\n", done.stderr


def alone(*words, cwd=None):
    """One rank without a launcher."""
    command = [sys.executable, "-m", "fastsock.mpj", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, cwd=cwd, stdin=subprocess.DEVNULL)


def test_one_rank_as_mpi4py(tmp_path):
    (tmp_path / "app.py").write_text("import mpi4py, sys; print(mpi4py.rc.threads, mpi4py.__file__, sys.argv[1:])")
    done = alone("--as-mpi4py", "-rc", "threads=False,errors=fatal", tmp_path / "app.py", "-x")
    assert re.fullmatch(r"False .*as_mpi4py/mpi4py/__init__.py \['-x'\]\n", done.stdout), done.stderr
    assert alone("--as-mpi4py", "-m", "mpi4py", "-c", "print(1)").stdout == "1\n"


@pytest.mark.parametrize("words", [["-x"], [], ["-m"], ["-rc"], ["-rc", "nonsense=1"]])
def test_one_rank_with_a_wrong_command_line(words):
    assert alone(*words).returncode == 1


def test_an_error_in_one_rank_ends_all_at_once(program):
    app = program("job.fence()\nif job.rank: sys.exit('no')\nsignal.pause()")
    done = run("-n", 2, "--grace", 50, "-m", "fastsock.mpj", app)
    assert done.returncode == 1
    assert "rank 1" in done.stderr


# ---- other hosts ----

SSH = """#!/bin/sh
# options... host command, as ssh takes them: each host is this one
for last; do host=$command; command=$last; done
echo "Welcome to $host"
echo "warned by $host" >&2
exec sh -c "$command"
"""


@pytest.fixture
def ssh(tmp_path):
    """Stands for ssh, by the environment; a shell there prints a greeting."""
    path = tmp_path / "ssh"
    path.write_text(SSH)
    path.chmod(0o755)
    return {"FASTSOCK_MPJ_SSH": f"{path} -o Option=yes", "PYTHONUNBUFFERED": ""}


@pytest.fixture
def hostfile(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("localhost\n127.0.0.2 slots=2\n127.0.0.3:1\n")
    return path


def test_ranks_on_other_hosts(program, ssh, hostfile):
    app = program("job.fence(); print(job.rank, job.size, sys.argv[1:], os.getcwd() == os.environ['WHERE'])")
    done = run("--hostfile", hostfile, "--tag-output", app, "it's a", env=ssh | {"WHERE": os.getcwd()})
    assert lines(done) == [f'[{rank}] {rank} 4 ["it\'s a"] True' for rank in range(4)], done.stderr
    assert done.returncode == 0


def test_standard_input_of_a_rank_elsewhere(program, ssh, tmp_path):
    (tmp_path / "far").write_text("127.0.0.2:2\n")
    app = program("data = sys.stdin.buffer.read(); print(job.rank, len(data), data[:5], data[-5:])")
    done = run("--hostfile", tmp_path / "far", app, env=ssh, input="begin" + "x" * 500000 + "end..")
    assert lines(done) == ["0 500010 b'begin' b'end..'", "1 0 b'' b''"], done.stderr


def test_a_death_elsewhere_is_named_with_its_host(program, ssh, hostfile):
    app = program("""
job.fence()
if job.rank == 2:
    os.kill(os.getpid(), signal.SIGKILL)
import threading
heard = threading.Event()
job.on_failure(lambda rank, reason: (print(job.rank, reason, flush=True), heard.set()))
heard.wait(30)
""")
    done = run("--hostfile", hostfile, app, env=ssh)
    assert done.returncode == 128 + signal.SIGKILL
    assert [line.partition(" ")[0] for line in lines(done)] == ["0", "1", "3"]
    for line in lines(done):
        assert re.fullmatch(r". rank 2 \(host 127.0.0.2, pid \d+\) was killed by signal 9 \(SIGKILL\)", line)


def test_a_host_that_cannot_be_reached(program, tmp_path):
    (tmp_path / "hosts").write_text("localhost\nnowhere\n")
    ssh = {"FASTSOCK_MPJ_SSH": "sh -c 'echo no route >&2; exit 255' --"}
    done = run("--hostfile", tmp_path / "hosts", "--grace", "0.1", program(""), env=ssh)
    assert done.returncode == 1
    assert "host nowhere could not be reached" in done.stderr
    assert "no route" in done.stderr


def test_an_interrupted_runner_ends_ranks_elsewhere(program, ssh, hostfile):
    app = program("job.fence()\nprint(os.getpid(), flush=True)\nsignal.pause()")
    with start("--hostfile", hostfile, app, env=ssh) as runner:
        pids = [int(runner.stdout.readline()) for _ in range(4)]
        runner.send_signal(signal.SIGINT)
        runner.communicate(timeout=DEADLINE)
        assert runner.returncode == -signal.SIGINT
        gone(pids)


def test_nothing_outlives_a_killed_runner_elsewhere(program, ssh, hostfile):
    app = program("job.fence()\nprint(os.getpid(), flush=True)\nsignal.pause()")
    with start("--hostfile", hostfile, app, env=ssh) as runner:
        pids = [int(runner.stdout.readline()) for _ in range(4)]
        runner.kill()
        runner.wait()
        gone(pids)


def test_a_program_that_never_joins_does_not_outlive_a_killed_runner_elsewhere(ssh, hostfile):
    with start("--hostfile", hostfile, "sh", "-c", "echo $$; exec sleep 60", env=ssh) as runner:
        pids = [int(runner.stdout.readline()) for _ in range(4)]
        runner.kill()
        runner.wait()
        gone(pids)


@pytest.mark.parametrize("text", ["a b c\n", "# none\n"])
def test_a_wrong_host_file_is_explained(tmp_path, text):
    (tmp_path / "hosts").write_text(text)
    done = run("--hostfile", tmp_path / "hosts", "app.py")
    assert done.returncode == 2
    assert str(tmp_path / "hosts") in done.stderr


# ---- network namespaces as hosts ----


@pytest.fixture
def network(tmp_path):
    """Two hosts, the runner on the first, and an `ssh` that enters the other."""
    reason = network_hosts.why_not()
    if reason:
        pytest.skip(reason)
    with network_hosts.Hosts(2) as made:
        (tmp_path / "hosts").write_text(f"localhost:2\n{made.ip(1)}:2\n")
        made.words = [*made.inside(0), *RUN, "--hostfile", str(tmp_path / "hosts")]
        made.env = os.environ | made.remote_start(tmp_path)
        yield made


def test_across_hosts_ranks_know_who_is_near_and_where_the_others_are(network, program):
    app = program("""
job.announce(job.interface, 1000 + job.rank)
print(job.rank, job.local_ranks, [job.address_of(rank)[0] for rank in range(4)], flush=True)
job.fence()
""")
    done = subprocess.run([*network.words, str(app)], env=network.env, capture_output=True, text=True, timeout=DEADLINE)
    places = [network.ip(0)] * 2 + [network.ip(1)] * 2
    assert lines(done) == [f"{rank} {[0, 1] if rank < 2 else [2, 3]} {places}" for rank in range(4)], done.stderr


def test_a_cut_link_is_a_failure_and_no_hang(network, program):
    app = program("""
job.fence()
heard = threading.Event()
job.on_failure(lambda rank, reason: heard.set())
print("up", flush=True)
heard.wait()
print(job.rank, "heard", flush=True)
""")
    words = [*network.words, str(app)]
    with subprocess.Popen(words, env=network.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as runner:
        for _ in range(4):
            assert runner.stdout.readline() == "up\n"
        network.cut(1)
        output, errors = runner.communicate(timeout=DEADLINE)
    assert runner.returncode != 0
    assert {"0 heard", "1 heard"} <= set(output.splitlines())
    assert re.search(r"rank [23] \(host", errors)


# ---- a terminal ----


def test_from_a_terminal_rank_0_reads_and_an_interrupt_is_clean(program):
    app = program("""
job.fence()
if job.rank == 0:
    print("got", repr(input()), sys.stdin.isatty())
job.fence()
print("ready", flush=True)
signal.pause()
""")
    master, slave = os.openpty()
    runner = subprocess.Popen(
        [*RUN, "-n", "2", str(app)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_control,
    )
    os.close(slave)
    os.write(master, b"hello\n")
    shown = b""
    while shown.count(b"ready") < 2:
        shown += os.read(master, 1000)
    os.write(master, b"\x03")
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while data := os.read(master, 1000):
            shown += data
    os.close(master)
    assert runner.wait(DEADLINE) == -signal.SIGINT
    assert b"got 'hello' False" in shown
    assert b"Traceback" not in shown


def _control():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.parametrize(
    "call",
    ["recv(source=1 if world.rank else MPI.ANY_SOURCE)", "bcast(0, 1)", "allgather(0)", "allreduce(0)", "Barrier()"],
)
def test_an_unmodified_mpi4py_program_hears_who_died(tmp_path, call):
    from fastsock import core

    if not core.available:
        pytest.skip(core.why_not)
    (tmp_path / "app.py").write_text(f"""
import os, signal
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    world.{call}
except MPI.Exception as error:
    print(world.rank, error.Get_error_class() == MPI.ERR_PROC_FAILED, "killed by signal 9" in str(error), flush=True)
""")
    for device in ("iodev", "sysvdev"):
        if device == "sysvdev":
            pytest.importorskip("sysv_ipc")
        done = run("-n", 3, "--device", device, "--as-mpi4py", tmp_path / "app.py")
        assert lines(done) == ["0 True True", "2 True True"], done.stderr
        assert done.returncode == 128 + signal.SIGKILL
