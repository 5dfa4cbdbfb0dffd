"""A connection is given to another program while bytes are unread, and the one at its other end does nothing for it.

That one makes no call, forks, is stopped, has shut down its half, has closed, or was killed. Each program runs in plain
Python, which is the reference, and where connections gain memory. test_passing.py has the other paths.
"""

from __future__ import annotations

import os
import signal

import pytest

from ..helpers.paths import carriers_of
from ..helpers.scripts import Script

_CLIENT = """
import os, socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(20):
    sock.sendall(b"x")
    assert sock.recv(1) == b"y"
tell([getattr(sock, "transport", "plain"), os.getpid()])
sock.sendall(bytes(range(256)) * SIZE)
tell("sent")
"""
_THEN = {
    "makes no call": "hear()\nassert sock.recv(6) == b'answer'",
    "forks": """
for _ in range(100):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
hear()
assert sock.recv(6) == b'answer'
""",
    "is stopped": "hear()\nassert sock.recv(6) == b'answer'",
    "shuts down": "sock.shutdown(socket.SHUT_WR)\ntell('done')\nassert sock.recv(6) == b'answer'\n",
    "closes": "sock.close()\ntell('done')\nhear()",
    "is killed": "hear()",
}
_SERVER = """
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
tell(listener.getsockname()[1])
sock, _ = listener.accept()
for _ in range(20):
    assert sock.recv(1) == b"x"
    sock.sendall(b"y")
assert hear() == "go"
child = subprocess.Popen([sys.executable, "-I", "-c", CHILD, str(sock.fileno())], pass_fds=[sock.fileno()],
                         stdout=subprocess.PIPE, text=True)
sock.close()
tell(child.stdout.readline().strip())
hear()
child.wait()
"""
_CHILD = """
import socket, sys
sock = socket.socket(fileno=int(sys.argv[1]))
data = b""
while len(data) < {size}:
    block = sock.recv(65536)
    assert block
    data += block
assert data == bytes(range(256)) * ({size} // 256)
{then}
print("all of it", flush=True)
"""


@pytest.mark.parametrize("size", (256, 200 * 256), ids=("some bytes", "many bytes"))
@pytest.mark.parametrize("then", list(_THEN))
@pytest.mark.parametrize("kind", ("plain", "shm"))
def test_unread_bytes_come_whatever_the_other_end_does(kind, then, size):
    afterwards = {"closes": "assert not sock.recv(1)", "is killed": "", "shuts down": "assert not sock.recv(1)"}
    child = _CHILD.format(size=size, then=afterwards.get(then, ""))
    if then not in ("closes", "is killed"):
        child += "sock.sendall(b'answer')\n"
    with Script(kind, f"CHILD = {child!r}\n" + _SERVER) as server:
        port = server.hear()
        with Script(kind, f"SIZE = {size // 256}\n" + _CLIENT + _THEN[then], str(port)) as client:
            transport, process = client.hear()
            assert transport in carriers_of(kind)
            assert client.hear() == "sent"
            if then in ("shuts down", "closes"):
                assert client.hear() == "done"
            elif then == "is stopped":
                os.kill(process, signal.SIGSTOP)
            elif then == "is killed":
                os.kill(process, signal.SIGKILL)
            server.tell("go")
            assert server.hear() == "all of it"
            if then == "is stopped":
                os.kill(process, signal.SIGCONT)
            server.tell("end")
            if then != "is killed":
                if then != "shuts down":
                    client.tell("end")
                assert client.finish() == 0
        assert server.finish() == 0
