"""multiprocessing.connection over TCP: its Connections are bare numbers, which stay on the fast path.

Each program runs in plain Python, which is the reference, and under the launcher on each path.
"""

from __future__ import annotations

import pytest

from ..helpers.paths import carriers_of
from ..helpers.scripts import Script

_BOTH = """
import gc, os, select, socket, sys, threading
from multiprocessing import connection
def path():
    report = sys.modules.get("fastsock")
    return report.connections()[0].transport if report else "plain"
"""

_ANSWERS = (
    _BOTH
    + """
listener = connection.Listener(("127.0.0.1", 0), authkey=b"key")
tell(listener.address[1])
answering = listener.accept()
while True:
    try:
        asked = answering.recv()
    except (EOFError, ConnectionResetError) as end:
        tell(type(end).__name__)
        break
    if asked == "path":
        asked = path()
    answering.send(asked)
"""
)

_ASKS = (
    _BOTH
    + """
asking = connection.Client(("127.0.0.1", int(sys.argv[1])), authkey=b"key")
def ask(question):
    asking.send(question)
    return asking.recv()
"""
)


def _converse(kind, text, end="EOFError"):
    """Runs the asking program `text` beside the answering one; what it told, in order."""
    with Script(kind, _ANSWERS) as server, Script(kind, _ASKS + text + "\ntell('done')", str(server.hear())) as client:
        told = []
        while (said := client.hear()) != "done":
            told.append(said)
        assert client.finish() == 0
        assert server.hear() == end
        assert server.finish() == 0
    return told


def test_it_stays_on_its_path(kind):
    text = """
large = bytes(range(256)) * 20000
assert all(ask(n) == n for n in range(100)) and ask(large) == large
tell([path(), ask("path")])
asking.close()
"""
    [taken] = _converse(kind, text)
    assert set(taken) <= set(carriers_of(kind))


def test_it_can_be_polled(kind):
    text = """
assert not asking.poll() and not select.select([asking], [], [], 0)[0]
assert select.select([], [asking], [], 0)[1]
for n in range(100):
    asking.send(n)
    if n % 3 == 0: assert asking.poll(30)
    elif n % 3 == 1: assert connection.wait([asking], 30) == [asking]
    else: assert select.select([asking], [], [], 30)[0]
    assert asking.recv() == n and not asking.poll()
asking.close()
"""
    _converse(kind, text)


@pytest.mark.parametrize("way", ["asking.close()", "os.close(asking.fileno()); asking._handle = None",
                                 "del asking; gc.collect()", "tell('done') or os._exit(0)"])  # fmt: skip
def test_its_end_is_heard(kind, way):
    text = f"""
assert ask(1) == 1
number = asking.fileno()
{way}
try:
    os.fstat(number)
    tell("open")
except OSError: pass
import fastsock
assert all(c.state == "closed" for c in fastsock.connections())
"""
    assert _converse(kind, text) == []


@pytest.mark.parametrize("over", ["os.dup2(1, asking.fileno())", "os.closerange(asking.fileno(), asking.fileno() + 1)"])
def test_its_number_is_taken_by_another_file(kind, over):
    text = f"""
assert ask(1) == 1
number = asking.fileno()
{over}
asking._handle = None
here, there = os.pipe()
os.dup2(here, number)
os.write(there, b"of the pipe")
assert os.read(number, 100) == b"of the pipe"
"""
    _converse(kind, text)


@pytest.mark.parametrize("taken", ["os.dup(asking.fileno())", "os.fdopen(asking.fileno(), 'rb', closefd=False)",
                                   "socket.socket(fileno=os.dup(asking.fileno()))"])  # fmt: skip
def test_its_number_is_taken_with_bytes_unread(kind, taken):
    text = f"""
assert ask(1) == 1
asking.send("unread")
assert asking.poll(30)
copy = {taken}
assert asking.recv() == "unread" and ask(2) == 2
os.close(copy) if isinstance(copy, int) else copy.close()
assert ask(b"x" * 1000000) == b"x" * 1000000
asking.close()
"""
    _converse(kind, text)


def test_it_goes_to_another_process(kind):
    text = """
import multiprocessing
def child(number, pipe):
    asking = pipe.recv()
    pipe.send([ask_by(asking, n) for n in range(10)])
def ask_by(asking, question):
    asking.send(question)
    return asking.recv()
context = multiprocessing.get_context("fork")
assert ask(1) == 1
here, there = context.Pipe()
process = context.Process(target=child, args=(1, there))
process.start()
here.send(asking)
assert here.recv() == list(range(10))
process.join()
assert process.exitcode == 0 and ask(2) == 2
process = context.Process(target=lambda: sys.exit(ask(3) != 3))
process.start()
process.join()
assert process.exitcode == 0 and ask(4) == 4
asking.close()
"""
    _converse(kind, text)


def test_left_open_at_the_end_it_is_nobodys_complaint(kind):
    text = """
listener = connection.Listener(("127.0.0.1", 0))
def echo():
    answering = listener.accept()
    while True:
        answering.send(answering.recv())
threading.Thread(target=echo, daemon=True).start()
asking = connection.Client(listener.address)
asking.send(1)
assert asking.recv() == 1
asking.itself = asking
gc.disable()
"""
    with Script(kind, _BOTH + text, env={"PYTHONDEVMODE": "1"}) as program:
        assert program.process.stderr.read() == b""
        assert program.finish() == 0


_SHOWN = """
import _socket
def shown(number):
    alike = _socket.socket(fileno=os.dup(number))
    try:
        return len(alike.recv(10, _socket.MSG_PEEK | _socket.MSG_DONTWAIT))
    except BlockingIOError:
        return 0
    finally:
        alike.close()
for number in range(200):
    assert ask(number) == number
tell(path())
asking.fileno()
for number in range(20):
    assert ask(number) == number
    tell(shown(asking._handle))
"""


def test_whoever_asks_a_connection_for_its_number_may_watch_it_unseen():
    """What the kernel shows of the number is exact from then on: nothing where all was read."""
    assert _converse("shm", _SHOWN) == ["shm"] + [0] * 20
