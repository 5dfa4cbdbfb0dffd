"""Two processes that talk until they are told to end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

RUN = [sys.executable, "-m", "fastsock", "run"]
PLAIN = [sys.executable]

SERVER = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
while data := connection.recv(100):
    connection.sendall(data)
"""
CLIENT = """
import select, socket, sys
connection = socket.create_connection(("127.0.0.1", {port}))
def talk():
    connection.sendall(b"x" * 100)
    connection.recv(100)
for _ in range(2000):
    talk()
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    talk()
"""


@contextlib.contextmanager
def talking(serve_by: list[str] = RUN, ask_by: list[str] = RUN) -> Iterator[tuple[subprocess.Popen, subprocess.Popen]]:
    """The server and the client, once the client has talked for a while."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*serve_by, "-c", SERVER], **pipes) as server:
        code = CLIENT.format(port=int(server.stdout.readline()))
        with subprocess.Popen([*ask_by, "-c", code], **pipes) as client:
            try:
                assert client.stdout.readline() == "ready\n"
                yield server, client
            finally:
                with contextlib.suppress(BrokenPipeError):
                    client.communicate("\n")


def top(*words: str) -> dict:
    """What `fastsock top --json` says."""
    command = [sys.executable, "-m", "fastsock", "top", "--json", "--seconds", "0.3", *words]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def rows_of(process: subprocess.Popen) -> list[dict]:
    return top("--pid", str(process.pid))["connections"]
