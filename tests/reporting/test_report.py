"""--stats and FASTSOCK_STATS: what each process writes when it ends."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastsock import core
from fastsock.reporting import report

from ..helpers.comparing import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs.inside_of(tmp_path)


ROWS = [
    SimpleNamespace(
        transport="shm",
        role="connect",
        reason="joined",
        detail="",
        local=("127.0.0.1", 40000),
        peer=("127.0.0.1", 8000),
        bytes_sent=1234,
        bytes_received=5,
        bytes_direct=0,
    ),
    SimpleNamespace(
        transport="tcp",
        role="accept",
        reason="not_yet",
        detail="it was busy",
        local=("::1", 8000, 0, 0),
        peer=("::1", 50000, 0, 0),
        bytes_sent=None,
        bytes_received=None,
        bytes_direct=None,
    ),
]
TOTALS = {"shm": 1, "sdp": 0, "tcp": 12345}

# The lines


def test_text_lines() -> None:
    assert report.text_lines(ROWS, TOTALS, 7) == [
        "fastsock[7] shm  connect 127.0.0.1:40000 > 127.0.0.1:8000  sent 1,234 B, received 5 B  (joined)",
        "fastsock[7] tcp  accept  [::1]:8000 < [::1]:50000  sent ?, received ?  (not_yet: it was busy)",
        "fastsock[7] connections: shm 1, sdp 0, tcp 12,345",
    ]


def test_text_lines_without_connections() -> None:
    assert report.text_lines([], {}, 7) == []
    assert report.text_lines([], {"shm": 0}, 7) == []
    [line] = report.text_lines([], {}, 7, always=True)
    assert line == "fastsock[7] no TCP connection was made or accepted"


def test_json_lines() -> None:
    connected, accepted, totals = map(json.loads, report.json_lines(ROWS, TOTALS, 7))
    assert connected == {
        "pid": 7,
        "role": "connect",
        "transport": "shm",
        "reason": "joined",
        "detail": "",
        "local": ["127.0.0.1", 40000],
        "peer": ["127.0.0.1", 8000],
        "bytes_sent": 1234,
        "bytes_received": 5,
        "bytes_direct": 0,
    }
    assert accepted["local"] == ["::1", 8000, 0, 0]
    assert accepted["bytes_sent"] is None
    assert totals == {"pid": 7, "totals": TOTALS}


@pytest.mark.parametrize("address", [None, "", ()])
def test_unknown_address(address: Any) -> None:
    assert report.address_text(address) == "?"


def test_append(tmp_path: Path) -> None:
    report.append(str(tmp_path / "file"), ["one", "two"])
    report.append(str(tmp_path / "file"), iter(["three"]))
    assert (tmp_path / "file").read_text() == "one\ntwo\nthree\n"


# Processes

CONVERSATION = """
import os, socket, sys, threading
from fastsock import attach  # it makes a connection's path sure, however short the conversation is
def converse():
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            with server.accept()[0] as accepted:
                attach(accepted, 30)
                accepted.sendall(accepted.recv(100, socket.MSG_WAITALL) + b"!")
        thread = threading.Thread(target=serve)
        thread.start()
        with socket.create_connection(server.getsockname()) as client:
            attach(client, 30)
            client.sendall(bytes(100))
            assert len(client.recv(101, socket.MSG_WAITALL)) == 101
        thread.join()
"""
FASTEST = "shm" if core.available else "tcp"
PATIENT = {"FASTSOCK_MEETING_MS": "10000"}


def written(path: Path) -> tuple[list[dict[str, Any]], dict[int, dict[str, int]]]:
    """The connections and the totals of each process in a file of statistics."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    connections = [line for line in lines if "role" in line]
    totals = {line["pid"]: line["totals"] for line in lines if "totals" in line}
    assert len(totals) == len(lines) - len(connections)
    return connections, totals


@pytest.mark.parametrize("way", ["launched", "inside"])
def test_file(programs: Programs, way: str) -> None:
    programs.variables.update(PATIENT)
    programs.write("app.py", CONVERSATION + "converse(); os.chdir('/'); print(os.getpid())")
    outcome = getattr(programs, way)("--stats=out", f"--transports={FASTEST}", "app.py")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    connections, totals = written(programs.folder / "out")
    pid = int(outcome.stdout)
    assert {line["pid"] for line in connections} == {pid}
    assert {line["role"] for line in connections} == {"connect", "accept"}
    assert {(line["transport"], line["reason"]) for line in connections} == {(FASTEST, "joined")}
    first, second = connections
    assert first["local"] == second["peer"]
    assert totals == {pid: totals[pid]}
    assert totals[pid][FASTEST] == 2


def test_standard_error(programs: Programs) -> None:
    programs.variables.update(PATIENT)
    programs.write("app.py", CONVERSATION + "converse(); print(os.getpid())")
    outcome = programs.launched("--stats", "--transports", FASTEST, "app.py")
    pid = outcome.stdout.strip()
    lines = outcome.stderr.splitlines()
    assert len(lines) == 3
    for line in lines[:2]:
        assert re.match(
            rf"fastsock\[{pid}\] {FASTEST:4} (connect|accept ) 127\.0\.0\.1:\d+ [<>] 127\.0\.0\.1:\d+  ", line
        )
    assert lines[2].startswith(f"fastsock[{pid}] connections: ")
    assert f"{FASTEST} 2" in lines[2]


def test_nothing_is_written_unasked(programs: Programs) -> None:
    programs.write("app.py", CONVERSATION + "converse()")
    assert programs.launched("app.py").stderr == ""


def test_a_program_without_connections_says_so_and_its_children_do_not(programs: Programs) -> None:
    text = "import os, subprocess, sys; subprocess.run([sys.executable, '-c', '']); print(os.getpid())"
    programs.write("app.py", text)
    outcome = programs.launched("--stats", "app.py")
    assert outcome.stderr == f"fastsock[{outcome.stdout.strip()}] no TCP connection was made or accepted\n"


def test_connections_of_exit_handlers_count(programs: Programs) -> None:
    programs.write(
        "app.py",
        """
import atexit, socket
@atexit.register
def converse():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()
""",
    )
    assert programs.launched("--stats=out", "app.py").stderr == ""
    assert len(written(programs.folder / "out")[0]) == 2


@pytest.mark.parametrize("ending", ["sys.exit(3)", "raise ValueError", "os.kill(os.getpid(), 2)"])
def test_ending_is_not_changed(programs: Programs, ending: str) -> None:
    programs.write("app.py", CONVERSATION + f"converse()\n{ending}")
    plain, fast = programs.run("app.py"), programs.launched("--stats=out", "app.py")
    assert fast == plain
    assert len(written(programs.folder / "out")[0]) == 2


def test_file_that_cannot_be_written(programs: Programs) -> None:
    programs.write("app.py", "print('ran')")
    outcome = programs.launched("--stats=/nowhere/out", "app.py")
    assert (outcome.returncode, outcome.stdout) == (2, "")  # before the program begins
    assert outcome.stderr == (
        "python -m fastsock.launcher: the statistics cannot be written to /nowhere/out: there is no folder /nowhere; "
        "correct FASTSOCK_STATS or --stats, or leave it unset\n"
    )


def test_file_that_can_be_written_no_more(programs: Programs) -> None:
    (programs.folder / "folder").mkdir()
    programs.write("app.py", "import shutil; shutil.rmtree('folder'); print('ran')")
    outcome = programs.launched("--stats=folder/out", "app.py")
    assert (outcome.returncode, outcome.stdout) == (0, "ran\n")
    assert "the statistics could not be written to" in outcome.stderr and "folder/out" in outcome.stderr


@pytest.mark.parametrize("closing", ["sys.stderr = None", "sys.stderr.close()", "os.close(2)"])
def test_standard_error_that_is_closed(programs: Programs, closing: str) -> None:
    programs.write("app.py", CONVERSATION + f"converse()\n{closing}")
    plain, fast = programs.run("app.py"), programs.launched("--stats", "app.py")
    assert fast.stdout == plain.stdout
    assert fast.returncode == plain.returncode


CHILDREN = {
    "subprocess": "subprocess.run([sys.executable, '-c', text], check=True)",
    "fork": "if not os.fork(): converse(); sys.exit(0)\nos.wait()",
    "multiprocessing fork": "run('fork')",
    "multiprocessing spawn": "run('spawn')",
    "multiprocessing forkserver": "run('forkserver')",
}


@pytest.mark.parametrize("way", CHILDREN)
def test_children_write_their_own(programs: Programs, way: str) -> None:
    text = f"""
import multiprocessing, subprocess, warnings
warnings.simplefilter("ignore")
text = {CONVERSATION!r} + "converse()"
def run(method):
    process = multiprocessing.get_context(method).Process(target=converse)
    process.start()
    process.join()
    assert process.exitcode == 0
if __name__ == "__main__":
    print(os.getpid())
    sys.stdout.flush()
    converse()
    {CHILDREN[way].replace(chr(10), chr(10) + "    ")}
"""
    programs.write("app.py", CONVERSATION + text)
    outcome = programs.launched("--stats=out", "app.py")
    assert outcome.stderr == ""
    connections, totals = written(programs.folder / "out")
    parent = int(outcome.stdout)
    of_child = [line for line in connections if line["pid"] != parent]
    assert len(connections) - len(of_child) == 2
    assert len(of_child) == 2
    [child] = {line["pid"] for line in of_child}
    assert sum(totals[parent].values()) == sum(totals[child].values()) == 2


def test_lines_of_many_processes_stay_whole(programs: Programs) -> None:
    own = CONVERSATION + "for _ in range(20): converse()"
    programs.write(
        "app.py",
        f"""
import subprocess, sys
text = {own!r}
running = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(4)]
assert [process.wait() for process in running] == [0] * 4
""",
    )
    outcome = programs.launched("--stats=out", "app.py")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    connections, totals = written(programs.folder / "out")
    assert len(connections) == 4 * 40
    assert sorted(sum(each.values()) for each in totals.values()) == [0, 40, 40, 40, 40]


def test_asked_for_by_the_environment_and_code(programs: Programs) -> None:
    programs.variables["FASTSOCK_STATS"] = "out"
    programs.write("app.py", "import fastsock; fastsock.install()" + CONVERSATION + "converse()")
    assert programs.run("app.py").stderr == ""
    assert len(written(programs.folder / "out")[0]) == 2


def test_withdrawn(programs: Programs) -> None:
    programs.variables["FASTSOCK_STATS"] = "out"
    programs.write("app.py", "import fastsock; fastsock.install(); fastsock.uninstall()")
    assert programs.run("app.py").stderr == ""
    assert not os.path.exists(programs.folder / "out")


def test_this_process_is_not_arranged() -> None:
    assert report._current is None
    assert "fastsock.reporting.report" in sys.modules
