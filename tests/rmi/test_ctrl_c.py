"""Ctrl-C at a server: the first press ends it, quietly, whichever thread took the signal. It says what it waits for,
and the second press waits for nothing. What a method starts has no signals blocked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from fastsock import rmi
from fastsock.doctor.__main__ import main as doctor
from fastsock.system import patience, starting

from .conftest import fresh_name, until

SERVERS = {
    "serve": """
with rmi.Daemon() as daemon:
    daemon.register(Slow(), sys.argv[1])
    serving.wait_for = tells(serving.wait_for)
    daemon.serve()
print("ended", flush=True)
""",
    "run": """
async def main():
    with rmi.Daemon() as daemon:
        daemon.register(Slow(), sys.argv[1])
        loop = asyncio.get_running_loop()
        loop.call_later(0, lambda: print("serving", flush=True))
        await daemon.run()
    print("ended", flush=True)

asyncio.run(main())
""",
    "own loop": """
with rmi.Daemon() as daemon:
    daemon.register(Slow(), sys.argv[1])
    daemon.start()
    try:
        print("serving", flush=True)
        threading.Event().wait()
    except KeyboardInterrupt:
        daemon.__exit__(KeyboardInterrupt)
        print("ended", flush=True)
""",
}
PROGRAM = """
import asyncio, signal, sys, threading
from fastsock import rmi
from fastsock.rmi.server import daemon as serving
entered = threading.Event()

def tells(wait):
    def call(*arguments):
        print("serving", flush=True)
        return wait(*arguments)
    return call

@rmi.expose
class Slow:
    def wait(self):
        entered.set()
        threading.Event().wait()
    def has_entered(self):
        return entered.wait(30)
    def add(self, a, b):
        return a + b
    async def wait_later(self):
        entered.set()
        await asyncio.Event().wait()
    def press(self):
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # so this thread takes it
    def terminate(self):
        signal.raise_signal(signal.SIGTERM)
"""


@contextlib.contextmanager
def running(*command):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def server(kind, before=""):
    name = fresh_name("slow")
    with running(sys.executable, "-c", PROGRAM + before + SERVERS[kind], name) as process:
        assert process.stdout.readline() == "serving\n"
        yield process, name


def presses(process):
    process.send_signal(signal.SIGINT)


def has_ended(process):
    """What it wrote."""
    assert process.wait(30) == 0, process.stderr.read()
    assert process.stdout.read() == "ended\n"
    told = process.stderr.read()
    assert "Traceback" not in told
    return told


@pytest.mark.parametrize("kind", ["serve", "run"])
def test_an_idle_server_ends(kind):
    with server(kind) as (process, name), rmi.connect(f"rmi:{name}") as slow:
        assert slow.add(1, 2) == 3
        presses(process)
        assert has_ended(process) == ""


@pytest.mark.parametrize("kind", ["serve", "run"])
def test_a_server_says_what_it_waits_for_and_the_second_press_ends_it(kind):
    with server(kind) as (process, name), rmi.connect(f"rmi:{name}") as slow:
        waiting = rmi.future(slow.wait)()
        assert slow.has_entered()
        presses(process)
        told = process.stderr.readline()
        assert told.startswith(f"waiting for 1 call: {name}.wait from 127.0.0.1:")
        assert told.endswith("Ctrl-C again ends at once\n")
        presses(process)
        assert has_ended(process) == ""
        with pytest.raises(rmi.LostPeer):
            waiting.result(30)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_call_that_was_given_up_is_told_too(kind):
    with server(kind) as (process, name), rmi.connect(f"rmi:{name}") as slow:
        waiting = rmi.future(slow.wait)()
        assert slow.has_entered()
        waiting.cancel()
        assert slow.add(1, 2) == 3
        presses(process)
        assert process.stderr.readline().startswith(f"waiting for 1 call: {name}.wait from 127.0.0.1:")
        if kind != "own loop":
            presses(process)
        has_ended(process)  # with one press alone after five seconds


@pytest.mark.parametrize("kind", ["serve", "run"])
def test_a_server_ends_an_async_method(kind):
    with server(kind) as (process, name), rmi.connect(f"rmi:{name}") as slow:
        waiting = rmi.future(slow.wait_later)()
        assert slow.has_entered()
        presses(process)
        has_ended(process)
        with pytest.raises(rmi.LostPeer):
            waiting.result(30)


@pytest.mark.parametrize("kind", ["serve", "run"])
def test_a_signal_that_another_thread_took_ends_the_server(kind):
    with server(kind) as (process, name), rmi.connect(f"rmi:{name}") as slow:
        with contextlib.suppress(rmi.LostPeer):
            slow.press()
        has_ended(process)


def test_what_another_handler_raises_is_raised():
    before = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    with server("serve", before) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7


def test_a_program_that_has_its_own_handler_is_left_to_it():
    before = "signal.signal(signal.SIGINT, lambda *_: sys.exit(7))\n"
    for kind in ("serve", "run"):
        with server(kind, before) as (process, _):
            presses(process)
            assert process.wait(30) == 7


def test_the_name_server_ends():
    with running(sys.executable, "-m", "fastsock.rmi.names", "--listen", "127.0.0.1:0") as process:
        assert process.stdout.readline().startswith("name server at")
        presses(process)
        assert process.wait(30) == 0
        assert process.stderr.read() == ""


def test_the_doctor_ends_quietly(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fastsock.doctor.__main__.examine", interrupted)
    with pytest.raises(SystemExit) as ended:
        doctor([])
    assert ended.value.code == 130


# ---- which threads take signals ----


def blocked_in(status):
    """The signals that a thread blocks, of a file of /proc."""
    with open(status) as lines:
        (word,) = [line.split()[1] for line in lines if line.startswith("SigBlk")]
    return {number for number in range(1, 65) if int(word, 16) >> (number - 1) & 1}


def test_idle_threads_take_no_signals():
    with server("serve") as (process, name), rmi.connect(f"rmi:{name}") as slow:
        assert slow.add(1, 2) == 3
        folder = f"/proc/{process.pid}/task"

        def only_the_main_thread_takes():
            taking = [task for task in os.listdir(folder) if signal.SIGINT not in blocked_in(f"{folder}/{task}/status")]
            return taking == [str(process.pid)]

        until(only_the_main_thread_takes)  # a thread stays for a moment with a connection that was used


BLOCKED = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"


def of_this_thread():
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def by_subprocess():
    return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout.strip()


def by_fork():
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, str(of_this_thread()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    with open(reading) as told:
        os.close(writing)
        return told.read()


def by_spawn():
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", BLOCKED], os.environ, file_actions=actions)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading) as told:
        return told.read().strip()


def by_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(str(of_this_thread())))
    thread.start()
    thread.join()
    return found[0]


async def by_asyncio():
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", BLOCKED, stdout=asyncio.subprocess.PIPE)
    return (await child.communicate())[0].decode().strip()


@rmi.expose
class Starts:
    """Objects whose methods, and whose ends, start children."""

    def by_subprocess(self):
        return by_subprocess()

    def by_fork(self):
        return by_fork()

    def by_spawn(self):
        return by_spawn()

    def by_thread(self):
        return by_thread()

    async def by_asyncio(self):
        return await by_asyncio()

    def by_generator(self):
        yield by_subprocess()

    def call_later(self, function):
        """From a thread of its own, when the caller does not wait any more."""
        self.found = None
        self.done = threading.Event()

        def call():
            self.found = function()
            self.done.set()

        threading.Thread(target=call).start()

    def of_later(self):
        assert self.done.wait(30)
        return self.found


@pytest.fixture
def starts():
    name = fresh_name("starts")
    with rmi.Daemon() as daemon:
        daemon.register(Starts(), name)
        daemon.start()
        with rmi.connect(f"rmi:{name}", timeout=60) as found:
            yield found


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("way", ["by_subprocess", "by_fork", "by_spawn", "by_thread", "by_asyncio"])
def test_children_of_methods_have_no_signals_blocked(starts, way):
    assert getattr(starts, way)() == "[]"


def test_children_of_generators_and_callbacks_have_no_signals_blocked(starts):
    assert list(starts.by_generator()) == ["[]"]
    starts.call_later(rmi.callback(by_subprocess))
    assert starts.of_later() == "[]"


def test_signals_that_the_program_blocks_are_blocked_in_its_methods():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    name = fresh_name("starts")
    try:
        with rmi.Daemon() as daemon:
            daemon.register(Starts(), name)
            daemon.start()
            with rmi.connect(f"rmi:{name}", timeout=60) as starts:
                assert starts.by_thread() == str([signal.SIGUSR2])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_thread_without_signals_starts_those_of_the_program_with_them():
    found = []
    done = threading.Event()

    def look():
        found.append((signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()), starting.blocked_by_program()))
        done.set()

    assert starting.start_thread(look, name="looks")
    assert done.wait(30)
    assert found == [(True, set())]
    assert of_this_thread() == []


# ---- waits of the main thread ----


def test_a_wait_of_the_main_thread_sees_a_signal_that_another_thread_took():
    waits = threading.Event()

    def press():
        waits.wait(30)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    def wait(step):
        waits.set()
        return threading.Event().wait(step)

    thread = threading.Thread(target=press)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        patience.wait_for(wait, 60)
    thread.join(30)


def test_a_wait_ends_with_what_it_waits_for_or_with_its_time():
    assert not patience.wait_for(threading.Event().wait, 0.01)
    done = threading.Event()
    done.set()
    assert patience.wait_for(done.wait)
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert patience.join(thread)
