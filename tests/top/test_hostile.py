"""Files in the folder that no process of fastsock wrote, or that lie: they are passed over, and nothing is removed but
what dead processes left."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastsock.top import processes, rows, shown, table, view

HEAD = struct.Struct("=QIIiIQQII")
MAGIC = 0x314E574F48535346
PLACE = struct.Struct("=IiIIIIQQQQ72xQQQQ96x")
RANK = struct.Struct("=IiIII4xQQQ80xQQ112x")
DAEMON = struct.Struct("=IiIII4xQQ88x16s112x")


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


def rank(pid: int, **changes: int) -> bytes:
    values = {"serial": 2, "process": pid, "role": 3, "rank": 1, "size": 2, "bytes_out": 1, "messages_out": 2,
              "collectives": 3, "bytes_in": 4, "messages_in": 5, **changes}  # fmt: skip
    return RANK.pack(*values.values())


def daemon(pid: int, **changes: int | bytes) -> bytes:
    values = {"serial": 3, "process": pid, "role": 4, "port": 80, "connections": 1, "calls": 2, "errors": 1,
              "host": bytes(10) + b"\xff\xff\x7f\0\0\1", **changes}  # fmt: skip
    return DAEMON.pack(*values.values())


def test_what_is_right_is_read(folder, sleeper):
    file_of(folder, sleeper, place(descriptor=9) + rank(sleeper) + daemon(sleeper) + daemon(sleeper, host=bytes(16)))
    (page,) = shown.pages()
    assert (page.pid, [each.descriptor for each in page.connections]) == (sleeper, [9])
    (seen,) = page.ranks
    assert (seen.rank, seen.size, seen.bytes_out, seen.messages_out, seen.collectives) == (1, 2, 1, 2, 3)
    assert (seen.bytes_in, seen.messages_in) == (4, 5)
    assert [each.address for each in page.daemons] == [("127.0.0.1", 80), ("::", 80)]
    assert [(each.connections, each.calls, each.errors) for each in page.daemons] == [(1, 2, 1)] * 2


@pytest.mark.parametrize(
    "changes",
    [
        {"rank": 2}, {"size": 0}, {"size": 1 << 31}, {"bytes_in": 1 << 63}, {"collectives": 1 << 62}, {"role": 5},
        {"process": 1}, {"process": -1},
    ],
)  # fmt: skip
def test_a_rank_that_lies(folder, sleeper, changes):
    file_of(folder, sleeper, rank(sleeper, **changes) + place())
    (page,) = shown.pages()
    assert page.ranks == [] and len(page.connections) == 1


@pytest.mark.parametrize(
    "changes", [{"port": 0}, {"port": 1 << 16}, {"connections": 1 << 31}, {"calls": 1 << 63}, {"process": 1}]
)
def test_a_daemon_that_lies(folder, sleeper, changes):
    file_of(folder, sleeper, daemon(sleeper, **changes) + place())
    (page,) = shown.pages()
    assert page.daemons == [] and len(page.connections) == 1


def test_a_rank_that_changes_as_it_is_looked_at(folder, sleeper):
    """What is half written is another rank, or none; a count that falls has no rate below 0."""
    watcher = rows.Watcher()
    for size in (0, 2, 3):
        file_of(folder, sleeper, rank(sleeper, size=size, bytes_out=3 - size))
        watcher.look()
    (row,) = watcher.work.ranks
    assert (row.size, row.bytes_out_rate) == (2, 0)


@settings(database=None, deadline=None)
@given(role=st.integers(0, 5), rest=st.binary(min_size=244, max_size=244))
def test_any_words(role, rest):
    """As a torn page has them."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown, "FOLDER", name)
        pid = os.getppid()
        file_of(Path(name), pid, struct.pack("=IiI", 1, pid, role) + rest)
        watcher = rows.Watcher()
        watcher.look()
        seen = view.Choice().of(watcher)
        table.tables(seen)
        assert len(seen.ranks) + len(seen.daemons) <= 1


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
