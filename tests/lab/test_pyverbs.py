"""A program's own queue pairs, by pyverbs, beside fastsock: memory of a RegisteredBuffer is their target.

One host: `tests/lab/run -- python -m pytest -n 0 -s tests/lab/test_pyverbs.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import attach, buffers, socket
from fastsock.doctor import hardware

from ..helpers.paths import taking
from ..helpers.scripts import ROOT
from .guest import Guest, only_in_lab

pytestmark = only_in_lab

PROGRAM = Path(__file__).with_name("pyverbs_program.py")


@pytest.fixture(scope="module")
def told():
    """What the program says, and the digests of what came here; the device's counter proves who carried it."""
    guest = Guest()
    if not (guest.serves and guest.connects) or os.environ["LAB_DEVICE"] != "rxe":
        pytest.skip("needs a device that reaches itself")
    device = guest.devices()[0]
    before = guest.sent_packets(device)
    came = []
    with taking("shm"), socket.create_server(("127.0.0.1", 0)) as listener:
        words = [device, guest.gid(device), *listener.getsockname()]
        command = [*guest.at_h1, sys.executable, str(PROGRAM), *map(str, words)]
        env = os.environ | {"PYTHONPATH": str(ROOT), "FASTSOCK_TRANSPORTS": "shm,tcp"}
        program = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        listener.settimeout(200)
        with listener.accept()[0] as sock:
            assert attach(sock, 60)
            for _ in range(2):
                with buffers.recv_buffer(sock) as received:
                    came.append(hashlib.sha256(memoryview(received)).hexdigest())
                    received.view("u1")[0] = 77
        lines = [json.loads(line) for line in program.communicate(timeout=200)[0].splitlines()]
    assert program.returncode == 0
    return lines[0], lines[1:], came, guest.sent_packets(device) - before


def test_memory_that_a_device_wrote_goes_to_another_process_and_comes_back(told):
    _, rounds, came, packets = told
    assert [each["digest"] for each in rounds] == came
    assert [each["reply"] for each in rounds] == [77, 77]
    assert packets >= 2 * 4 * 64  # pieces of 64 KiB in packets of 1 KiB


def test_the_doctor_says_what_pyverbs_says(told):
    by_pyverbs, *_ = told
    (port,) = hardware.find()["devices"][0]["ports"]
    assert by_pyverbs["active"] == (port["state"] == "ACTIVE")
    index = Guest().gid(Guest().devices()[0])
    (address,) = [gid["address"] for gid in port["gids"] if gid["index"] == index]
    words = [int(word, 16) for word in by_pyverbs["gid"].split(":")[-2:]]
    assert address == ".".join(str(part) for word in words for part in divmod(word, 256))
