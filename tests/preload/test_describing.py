"""What is said of connections of programs that are no Python, in Python's words, and where no line may come."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fastsock import config
from fastsock.connection import carriers

from . import compiled

SOURCE = Path(config.__file__).parent / "core" / "preload" / "describing.c"

# As the program `said`.
SAME_IN_PYTHON = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
def answer():
    stream, _ = server.accept()
    while byte := stream.recv(1):
        stream.send(byte)
    stream.close()
thread = threading.Thread(target=answer)
thread.start()
with socket.create_connection(server.getsockname()) as stream:
    for _ in range(20):
        stream.send(b"x")
        stream.recv(1)
thread.join()
"""


def test_the_words_are_the_same_as_pythons() -> None:
    text = re.sub(r'"\s+"', "", SOURCE.read_text())
    assert tuple(re.findall(r'\[FS_WHY_\w+\] =\s*\{\s*"(.*)",\s*"(.*)"\}', text)) == tuple(
        (str(reason), detail) for reason, detail in carriers._WHY
    )
    assert tuple(re.findall(r'\[FS_LESSON_\w+\] = "(.*)"', text)) == carriers._LESSON


def run(*options: str, words: list[str], **settings: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **{f"FASTSOCK_{name}": str(value) for name, value in settings.items()}}
    command = [sys.executable, "-m", "fastsock", "run", *options, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=compiled.LIMIT)


def said(how: str, file: Path, connections: int = 1) -> list[str]:
    return [compiled.program("said"), how, str(file), str(connections)]


def unnumbered(text: str) -> list[str]:
    """Sorted, without what differs from run to run: processes and ports."""
    return sorted(re.sub(r"\[\d+\]", "[]", re.sub(r"(127\.0\.0\.1'?(?::|, ))\d+", r"\1", text)).splitlines())


@compiled.needs_library
@pytest.mark.parametrize("options", [["--trace"], ["--stats"], ["--trace", "--stats", "--transports=^shm"]])
@pytest.mark.parametrize("rules", ["", "connect * * tcp", "listen 127.0.0.0/8 1-65535 ^shm"])
def test_the_lines_are_the_same_as_pythons(options: list[str], rules: str, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text(rules)
    given = {"UPGRADE_AFTER": 3, "CONFIG": tmp_path / "rules"}
    if "^shm" in options[-1]:
        given = {"UPGRADE_AFTER": 3}
    ours = run(*options, words=said("nothing", tmp_path / "unused"), **given)
    python = run(*options, words=["-c", SAME_IN_PYTHON], **given)
    assert (ours.returncode, python.returncode) == (0, 0)
    assert "127.0.0.1" in ours.stderr

    def connections(text: str) -> list[str]:
        return [line for line in unnumbered(text) if " connections: " not in line]

    assert connections(ours.stderr) == connections(python.stderr)
    totals = [line for line in unnumbered(ours.stderr) if " connections: " in line]
    assert len(totals) == ("--stats" in options)


@compiled.needs_library
def test_lines_of_json_have_pythons_names(tmp_path: Path) -> None:
    (tmp_path / 'the "rules" \u00fc').write_text("listen 127.0.0.1 * tcp\n")
    for name, settings in (("fast", {}), ("ruled", {"CONFIG": tmp_path / 'the "rules" \u00fc'})):
        done = run(f"--stats={tmp_path / name}", words=said("nothing", tmp_path / "x"), UPGRADE_AFTER=3, **settings)
        assert (done.returncode, done.stderr) == (0, "")
    *rows, totals = compiled.report_lines(tmp_path / "fast")
    assert totals["totals"] == {"shm": 2, "tcp": 0}
    assert [(row["transport"], row["reason"], row["bytes_sent"], row["bytes_direct"]) for row in rows] == [
        ("shm", "joined", 20, 0)
    ] * 2
    assert sorted(row["role"] for row in rows) == ["accept", "connect"]
    assert rows[0]["local"] == rows[1]["peer"] and rows[0]["peer"] == rows[1]["local"]
    run(f"--stats={tmp_path / 'python'}", words=["-c", SAME_IN_PYTHON])
    python = compiled.report_lines(tmp_path / "python")[0]
    assert [list(row) for row in rows] == [list(python)] * 2
    ruled = next(row for row in compiled.report_lines(tmp_path / "ruled") if row.get("role") == "accept")
    assert (ruled["transport"], ruled["reason"]) == ("tcp", "excluded_by_rule")
    rule = config.load_rules(str(tmp_path / 'the "rules" \u00fc'))[0]
    assert os.fsencode(ruled["detail"]) == os.fsencode(str(rule))


@compiled.needs_library
def test_all_connections_are_counted_and_the_last_ones_are_listed(tmp_path: Path) -> None:
    done = run(f"--stats={tmp_path / 'report'}", words=said("nothing", tmp_path / "x", 700), UPGRADE_AFTER=1000)
    assert (done.returncode, done.stdout) == (0, "700 connections\n")
    *rows, totals = compiled.report_lines(tmp_path / "report")
    assert (len(rows), totals["totals"]) == (1000, {"shm": 0, "tcp": 1400})
    assert totals["tcp_bytes_sent"] == totals["tcp_bytes_received"] == 2 * 700 * 20


@compiled.needs_library
@pytest.mark.parametrize(("how", "left"), [("closed", ""), ("data", "data"), ("socket", ""), ("log", None)])
def test_no_line_comes_where_data_goes(how: str, left: str | None, tmp_path: Path) -> None:
    done = run("--trace", "--stats", words=said(how, tmp_path / "file", 2), UPGRADE_AFTER=3)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2 connections\n", "")
    found = (tmp_path / "file").read_text()
    assert found == left if left is not None else found.count(" stays on tcp so far\n") == 4


@compiled.needs_library
def test_a_pipe_that_nobody_reads_ends_no_program(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "fastsock", "run", "--trace", "--stats", *said("nothing", tmp_path / "x", 2)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writes, text=True, timeout=compiled.LIMIT)
    os.close(writes)
    assert (done.returncode, done.stdout) == (0, "2 connections\n")


@compiled.needs_library
def test_each_line_is_whole(tmp_path: Path) -> None:
    """Of several processes, on one pipe."""
    each = " ".join(said("nothing", tmp_path / "x", 100))
    done = run("--trace", "--stats", words=["sh", "-c", f"{each} & {each} & {each} & wait"], UPGRADE_AFTER=3)
    lines = done.stderr.splitlines()
    form = re.compile(
        r"fastsock\[\d+\] ("
        r"(connect|accept) \('127\.0\.0\.1', \d+\) (stays on tcp so far|ends on (shm|tcp): [^]\[]*)"
        r"|(shm|tcp)  (connect [\d.]+:\d+ >|accept  [\d.]+:\d+ <) [\d.]+:\d+  sent 20 B, received 20 B  \([^]\[]*\)"
        r"|said: connections: shm \d+, tcp \d+; bytes by memory: sent [\d,]+, received [\d,]+; "
        r"by TCP: sent [\d,]+, received [\d,]+|no TCP connection was made or accepted)"
    )
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert len(lines) == 3 * (100 * 2 * 3 + 1)


@compiled.needs_library
def test_that_there_was_no_connection_is_said_of_the_program_itself() -> None:
    done = run("--stats", words=["sh", "-c", "true; echo $$; exec true"])  # a shell itself ends without a word
    expected = f"fastsock[{done.stdout.strip()}] no TCP connection was made or accepted\n"
    assert (done.stderr, done.returncode) == (expected, 0)


@compiled.needs_library
@pytest.mark.parametrize("scene", ["signals", "copies", "fork", "spawn", "vfork", "clone", "killed", "exec", "passing"])
def test_a_program_that_is_traced_does_what_it_did(scene: str) -> None:
    words = [compiled.program("scenes"), scene]
    expected, seen = compiled.plain(words), run("--trace", words=words, UPGRADE_AFTER=3)
    assert (seen.returncode, seen.stdout) == (expected.returncode, expected.stdout)
    assert re.search(r"fastsock\[\d+\] (connect|accept) \('127", seen.stderr)
