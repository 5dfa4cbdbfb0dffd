"""Files in the folder that no process of fastsock wrote, or that lie: they are passed over, and nothing is removed but
what dead processes left."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock.top import processes, shown

HEAD = struct.Struct("=QIIiIQQII")
MAGIC = 0x314E574F48535346
PLACE = struct.Struct("=IiIIIIQQQQ72xQQQQ96x")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(shown, "FOLDER", str(tmp_path))
    return tmp_path


@pytest.fixture
def sleeper():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.communicate(b"\n")


def file_of(folder: Path, pid: int, places: bytes = b"", **changes: int) -> Path:
    started, stack = processes.life_of(pid) or (0, 0)
    namespace = os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF
    head = {"magic": MAGIC, "each": 256, "most": 1023, "process": pid, "namespace": namespace, "started": started,
            "stack": stack, "made": len(places) // 256, "missed": 0, **changes}  # fmt: skip
    path = folder / f"{pid}-{namespace}"
    path.write_bytes(HEAD.pack(*head.values()).ljust(256, b"\0") + places)
    return path


def place(**changes: int) -> bytes:
    values = {"serial": 1, "descriptor": 5, "role": 1, "why": 3, "state": 5, "peer": 0, "bytes_out": 1, "calls_out": 1,
              "wakes": 0, "extra_out": 0, "bytes_in": 1, "calls_in": 1, "waits": 0, "extra_in": 0,
              **changes}  # fmt: skip
    return PLACE.pack(*values.values())


def test_what_is_right_is_read(folder, sleeper):
    file_of(folder, sleeper, place(descriptor=9))
    (page,) = shown.pages()
    assert (page.pid, [each.descriptor for each in page.connections]) == (sleeper, [9])


@pytest.mark.parametrize(
    "changes", [{"magic": 1}, {"each": 0}, {"each": 1 << 31}, {"made": 1 << 31}, {"made": 1024}, {"process": 1}]
)
def test_a_head_that_lies(folder, sleeper, changes):
    path = file_of(folder, sleeper, place(), **changes)
    assert list(shown.pages()) == []
    assert path.exists()


@pytest.mark.parametrize(
    "changes",
    [{"descriptor": -1}, {"role": 3}, {"why": 1 << 31}, {"state": 9}, {"peer": 1 << 31}, {"bytes_in": 1 << 63}],
)
def test_a_connection_that_lies(folder, sleeper, changes):
    file_of(folder, sleeper, place(**changes) + place(descriptor=6))
    (page,) = shown.pages()
    assert [each.descriptor for each in page.connections] == [6]


def test_a_file_that_is_shorter_than_it_says(folder, sleeper):
    path = file_of(folder, sleeper, place() + place(descriptor=6))
    path.write_bytes(path.read_bytes()[:-1])
    (page,) = shown.pages()
    assert [each.descriptor for each in page.connections] == [5]
    path.write_bytes(b"")
    assert list(shown.pages()) == []


def test_other_files_are_let_alone(folder, sleeper):
    names = ["x", "1-", f"{sleeper}-1", "-5", f"²-{os.stat('/proc/self/ns/pid').st_ino}"]
    for name in names:
        (folder / name).write_bytes(b"?" * 1000)
    os.mkfifo(folder / f"{os.getpid()}-{os.stat('/proc/self/ns/pid').st_ino}")
    assert list(shown.pages()) == []
    assert set(names) <= {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("changes", [{"started": 1}, {"stack": 4096}])
def test_a_file_of_an_earlier_process_or_program_is_removed(folder, sleeper, changes):
    path = file_of(folder, sleeper, place(), **changes)
    assert list(shown.pages()) == []
    assert not path.exists()


def test_a_folder_that_others_may_enter_is_not_read(folder, sleeper):
    file_of(folder, sleeper, place())
    folder.chmod(0o755)
    assert list(shown.pages()) == []
